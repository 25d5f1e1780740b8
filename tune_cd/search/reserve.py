"""The budget's reserve: the best training is finished before the budget ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tune_cd.search.bracket import FAILED
from tune_cd.search.space import NEGLIGIBLE
from tune_cd.search.training import Training


@dataclass(frozen=True)
class Reserve:
    """What may be trained such that the incumbent can still be finished.

    trainings: at least one, in the order of asking. shortest: the least length, left: the rest of the budget, in full
    trainings.
    """

    trainings: Sequence[Training]
    shortest: float
    left: float

    @cached_property
    def incumbent(self) -> int:
        """Index of the training with the best value told, at whatever length: it is finished before the search ends.

        One that failed or was left before its end counts only if all did. The leader, which is predicted to end best,
        may be a short training whose end disappoints; a budget has seldom enough for both.
        """
        return int(np.argmax([FAILED if one.failed or one.stopped else one.best for one in self.trainings]))

    @cached_property
    def runs(self) -> bool:
        """Whether a training runs."""
        return any(one.until is not None for one in self.trainings)

    @property
    def to_finish(self) -> int | None:
        """The incumbent, if it is to be trained to full length now: it is not there, nor on its way, and can go on.

        Another that runs, and may become the incumbent, is waited for if the budget has enough for one alone. The
        budget is exceeded by less than the shortest length; by less than one training, if none is whole yet and none
        was left before its end.
        """
        best = self.trainings[self.incumbent]
        if best.share == 1 or best.until is not None or best.left:
            return None
        if self.runs and not self.affords(1 - best.share, 1.0, self.incumbent):
            return None
        most = self.shortest if self.whole else 1.0
        return self.incumbent if 1 - best.share - self.left < most - NEGLIGIBLE else None

    def affords(self, cost: float, until: float, at: int | None = None) -> bool:
        """Whether the budget can pay for a step of training `at` (None: a new one), and then finish whichever is the
        incumbent: this training, the one that is now, or another that runs."""
        reserve = max([1 - until, *(rest for other, rest in self._rests.items() if other != at)])
        return cost + reserve <= self.left + NEGLIGIBLE

    @cached_property
    def whole(self) -> bool:
        """Whether a training is whole, will be, or was left before its end."""
        return any(one.stopped or one.until == 1 or 1.0 in one.curve for one in self.trainings)

    @cached_property
    def _rests(self) -> dict[int, float]:
        """What the incumbent and the running trainings need to finish from where they will pause, in full trainings."""
        running = [at for at, one in enumerate(self.trainings) if one.until is not None]
        return {
            at: 1 - max(self.trainings[at].share, self.trainings[at].until or 0.0) for at in {self.incumbent, *running}
        }
