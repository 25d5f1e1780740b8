"""What the autoscaler says of nodes on their way and of the cloud's refusals: what `ray status` prints, as data.

Ray's autoscaler v2 answers through the head (`ray.autoscaler.v2.sdk`); v1 leaves a report in the head's store. v2 does
not pass on why a cloud refused a node; its log on the head has it, which a driver there reads.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

RECENT = 300.0  # seconds for which a refusal is worth telling
TAIL = 200_000  # bytes at the end of the autoscaler's log that are searched

REFUSED = re.compile(
    r"Failed to launch \d+ nodes? of type (?P<type>\S+?):? .*?\((?P<reason>[A-Za-z][A-Za-z.]+)\)(?P<rest>.*)"
)
ZONE = re.compile(r"\b([a-z]{2,}-[a-z]+-?\d-?[a-z])\b")


@dataclass(frozen=True)
class Scaling:
    """starting: node type -> how many are on their way; granted: those of them that the cloud has given, and that are being
    set up; refusal: the cloud's last, in words."""

    starting: Mapping[str, int] = field(default_factory=dict)
    refusal: str | None = None
    granted: Mapping[str, int] = field(default_factory=dict)

    def parts(self) -> list[str]:
        """In words, for a line."""
        starting = ", ".join(f"{count} {name}" for name, count in sorted(self.starting.items()) if count)
        return [
            *([f"{starting} starting"] if starting else []),
            *([f"last refusal: {self.refusal}"] if self.refusal else []),
        ]


def autoscaler_status() -> Scaling:
    """Of the connected cluster; nothing where no autoscaler says anything. Raises whatever Ray raises."""
    import ray
    from ray.autoscaler.v2.utils import is_autoscaler_v2

    if is_autoscaler_v2():
        from ray.autoscaler.v2.sdk import get_cluster_status

        return from_v2(get_cluster_status(ray.get_runtime_context().gcs_address), _log(), time.time())
    from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
    from ray.experimental.internal_kv import _internal_kv_get

    return from_v1(_internal_kv_get(DEBUG_AUTOSCALING_STATUS), time.time())


def from_v1(report: bytes | None, now: float) -> Scaling:
    """report: the JSON that autoscaler v1 leaves; now: in seconds since 1970, as its times are."""
    summary = (json.loads(report).get("autoscaler_report") if report else None) or {}
    granted = Counter(kind for _, kind, _ in summary.get("pending_nodes", []))
    starting = granted + Counter(summary.get("pending_launches", {}))
    records = summary.get("node_availability_summary", {}).get("node_availabilities", {}).values()
    refused = [
        record for record in records if not record["is_available"] and now - record["last_checked_timestamp"] <= RECENT
    ]
    if not refused:
        return Scaling(starting, None, granted)
    last = max(refused, key=lambda record: record["last_checked_timestamp"])
    why = last["unavailable_node_information"] or {}
    return Scaling(
        starting,
        _refusal(why.get("category", "no reason given"), last["node_type"], why.get("description", "")),
        granted,
    )


def from_v2(status, log: str, now: float) -> Scaling:
    """status: a ClusterStatus; log: the end of the autoscaler's log, "" where it is not at hand; now: seconds since 1970."""
    granted = Counter(node.ray_node_type_name for node in status.pending_nodes)
    starting = Counter(granted)
    for launch in status.pending_launches:
        starting[launch.ray_node_type_name] += launch.count
    refused = [launch for launch in status.failed_launches if now - (launch.failed_ts_s or 0) <= RECENT]
    if not refused:
        return Scaling(starting, None, granted)
    last = max(refused, key=lambda launch: launch.failed_ts_s)
    kind = last.ray_node_type_name
    told = [found for found in REFUSED.finditer(log) if found["type"] == kind]
    if told:
        return Scaling(starting, _refusal(told[-1]["reason"], kind, told[-1]["rest"]), granted)
    said = (last.details or "").rpartition(": ")[2].strip()  # behind Ray's own words, which end with a request's id
    return Scaling(starting, _refusal(said or "launch failed", kind, ""), granted)


def _refusal(reason: str, kind: str, description: str) -> str:
    zone = ZONE.search(description)
    return f"{reason} {kind}{f' ({zone[1]})' if zone else ''}"


def _log() -> str:
    """The end of the autoscaler's log, where the driver is on the head."""
    import ray

    file = Path(ray._private.worker._global_node.get_session_dir_path(), "logs", "monitor.log")
    try:
        with open(file, "rb") as log:
            log.seek(max(0, file.stat().st_size - TAIL))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""
