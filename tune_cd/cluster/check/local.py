"""Rules for `ray up` on machines that one has (provider `local`)."""

from collections.abc import Iterator

from .documents import Document, at
from .every import PLACEHOLDER
from .findings import Finding
from .starting import starts

OLD_AUTOSCALER = "RAY_enable_autoscaler_v2=0"


def autoscaler_knows_it(document: Document) -> Iterator[Finding]:
    """Ray's second autoscaler, which `ray up` starts by default, has no provider `local`: no worker starts, nothing is said.

    The head's `ray start` must have the first one asked for, or every `ray up`, of which the file's comments are witness.
    """
    if any("RAY_UP_enable_autoscaler_v2=0" in line for line in document.text):
        return
    for place, text in starts(document, "head_start_ray_commands"):
        if OLD_AUTOSCALER not in text:
            yield Finding(
                place, f"{OLD_AUTOSCALER} is missing before `ray start`: the second autoscaler starts no worker here"
            )


def machines_are_different(document: Document) -> Iterator[Finding]:
    """A machine that is in the list twice, or head and worker at once, is started twice and loses its first Ray."""
    head, listed = at(document.data, "provider", "head_ip"), at(document.data, "provider", "worker_ips", default=[])
    for index, address in enumerate(listed):
        if not isinstance(address, str) or not address:
            yield Finding(("provider", "worker_ips", index), f"an address or a name is needed here, not {address!r}")
        elif PLACEHOLDER not in address and address in [head, *listed[:index]]:
            yield Finding(("provider", "worker_ips", index), f"{address} is in the file already")


RULES = [autoscaler_knows_it, machines_are_different]
