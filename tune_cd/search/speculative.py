"""Trials for idle workers: points that a golden-section search may need next, while earlier values are still missing.

The trajectory itself does not change: it reads the same values in the same order as with one worker, only sooner.
"""

from collections import deque
from collections.abc import Mapping
from math import inf, nextafter, prod

from tune_cd.search.bracket import FAILED
from tune_cd.search.descent import Trajectory
from tune_cd.search.space import Key
from tune_cd.search.training import Proposal

STATES = 4096
"""Number of states examined before giving up; a hundred live trials need a few hundred."""


def needed_next(state: Trajectory, known: Mapping[Key, float | None]) -> Proposal | None:
    """The first unknown configuration on any course that the search may take from `state`, breadth first; else None.

    known: values by `Space.key`, None where the trial is live. A live trial may turn out worse than the incumbent, or
    better. Configurations that are needed after fewer such uncertain outcomes come first.
    """
    space = state.plan.space
    if len(known) >= prod(axis.size for axis in space.axes):
        return None
    key, ahead = space.key, deque([state])
    for _ in range(STATES):
        if not ahead:
            return None
        state = ahead.popleft()
        if state.finished:
            continue
        proposal = state.proposal()
        if key(proposal.h) not in known:
            return proposal
        value = known[key(proposal.h)]
        if value is not None:
            ahead.appendleft(state.told(proposal.h, value))
        else:
            ahead.extend(state.told(proposal.h, outcome) for outcome in _outcomes(state))
    return None


def _outcomes(state: Trajectory) -> tuple[float, ...]:
    """One value for each outcome of a comparison with the incumbent; against a failure there is only one."""
    better = nextafter(state.value, inf)
    return (better,) if state.value == FAILED else (FAILED, better)
