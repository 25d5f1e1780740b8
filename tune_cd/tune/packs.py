"""Several configurations in one Tune trial, for trainables that train them side by side in one process.

A trial's config has the key `pack`, the list of its configurations (the members). The trainable reports `pack` as well:
a dict from a member's index as text ("0", "1", ...) to its result. "done": True in a member's result marks it as final
while the trial goes on. When a pack fails only its members that were not done have failed.
"""

from collections.abc import Mapping
from typing import Any

from ray.tune.utils.util import unflatten_dict

PACK, SEED, UNTIL = "pack", "seed", "until"


def members_of(config: Mapping[str, Any], result: Mapping[str, Any] | None) -> list[tuple[dict, dict]]:
    """(configuration, last result so far) of each member of a trial's pack, or of the trial itself without a pack."""
    if PACK not in config:
        return [(dict(config), dict(result or {}))]
    shared, told = {name: value for name, value in config.items() if name != PACK}, results_of(result)
    return [(shared | member, dict(told.get(str(place), {}))) for place, member in enumerate(config[PACK])]


def results_of(result: Mapping[str, Any] | None) -> dict[str, dict]:
    """The results of a pack's members by index. result: nested as reported, or with flat keys as searchers get it."""
    nested = unflatten_dict({name: value for name, value in (result or {}).items() if name.split("/")[0] == PACK})
    return nested.get(PACK, {})
