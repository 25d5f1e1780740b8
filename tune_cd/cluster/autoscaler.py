"""Reads the autoscaler's status: nodes that are starting, and the cloud's refusals."""

import json
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tune_cd.cluster import ray_internals

RECENT = 300.0  # seconds for which a refusal is reported
LOG_TAIL = 200_000  # bytes at the end of the autoscaler's log that are searched

REFUSED = re.compile(
    r"Failed to launch \d+ nodes? of type (?P<type>\S+?):? .*?\((?P<reason>[A-Za-z][A-Za-z.]+)\)(?P<rest>.*)"
)
ZONE = re.compile(r"\b([a-z]{2,}-[a-z]+-?\d-?[a-z])\b")


@dataclass(frozen=True)
class Scaling:
    """The autoscaler's status; numbers of nodes by type. starting: requested and not yet alive. granted: of these,
    given by the cloud and being set up. refusal: the cloud's last one."""

    starting: Mapping[str, int] = field(default_factory=dict)
    refusal: str | None = None
    granted: Mapping[str, int] = field(default_factory=dict)

    def parts(self) -> list[str]:
        """The status as phrases for a message."""
        starting = ", ".join(f"{count} {name}" for name, count in sorted(self.starting.items()) if count)
        parts = (starting and f"{starting} starting", self.refusal and f"last refusal: {self.refusal}")
        return [part for part in parts if part]


def autoscaler_status() -> Scaling:
    """The status of the connected cluster; empty without an autoscaler. Raises whatever Ray raises."""
    status, report = ray_internals.autoscaler_report()
    return from_v1(report, time.time()) if status is None else from_v2(status, _log_tail(), time.time())


def from_v1(report: bytes | None, now: float) -> Scaling:
    """The status from autoscaler v1. report: its JSON. now: Unix time, as its times."""
    summary = (json.loads(report).get("autoscaler_report") if report else None) or {}
    granted = Counter(kind for _, kind, _ in summary.get("pending_nodes", []))
    starting = granted + Counter(summary.get("pending_launches", {}))
    refused = [
        record for record in summary.get("node_availability_summary", {}).get("node_availabilities", {}).values()
        if not record["is_available"] and now - record["last_checked_timestamp"] <= RECENT
    ]  # fmt: skip
    if not refused:
        return Scaling(starting, None, granted)
    last = max(refused, key=lambda record: record["last_checked_timestamp"])
    why = last["unavailable_node_information"] or {}
    refusal = _refusal(why.get("category", "no reason given"), last["node_type"], why.get("description", ""))
    return Scaling(starting, refusal, granted)


def from_v2(status, log: str, now: float) -> Scaling:
    """The status from autoscaler v2. log: the end of the autoscaler's log, "" without one. now: Unix time."""
    granted = Counter(node.ray_node_type_name for node in status.pending_nodes)
    starting = Counter(granted)
    for launch in status.pending_launches:
        starting[launch.ray_node_type_name] += launch.count
    refused = [launch for launch in status.failed_launches if now - (launch.failed_ts_s or 0) <= RECENT]
    if not refused:
        return Scaling(starting, None, granted)
    last = max(refused, key=lambda launch: launch.failed_ts_s)
    kind = last.ray_node_type_name
    reason, rest = (last.details or "").rpartition(": ")[2].strip() or "launch failed", ""  # without Ray's prefix
    for found in REFUSED.finditer(log):
        if found["type"] == kind:
            reason, rest = found["reason"], found["rest"]
    return Scaling(starting, _refusal(reason, kind, rest), granted)


def _refusal(reason: str, kind: str, description: str) -> str:
    zone = ZONE.search(description)
    return f"{reason} {kind}{f' ({zone[1]})' if zone else ''}"


def _log_tail() -> str:
    """The end of the autoscaler's log; "" for a driver that is not on the head."""
    file = ray_internals.autoscaler_log()
    try:
        with open(file, "rb") as log:
            log.seek(max(0, file.stat().st_size - LOG_TAIL))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""
