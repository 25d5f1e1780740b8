"""The searches of a study as Ray Tune's searcher: a trial is a pack of their trainings, or of parts of them."""

from collections.abc import Callable, Mapping
from typing import Any

from ray.tune.search import Searcher

from trainables.trial import UNTIL
from tune_cd.run.looks import Looks
from tune_cd.run.options import ORIGIN
from tune_cd.run.portfolio import Asked, Portfolio
from tune_cd.tune.packed import SEED, Packing

Reported = Callable[[Asked, Mapping[str, Any]], Looks]
"""How far a training is, by its last report, {} where it was lost."""


class StudySearch(Packing):
    """Hands out what a portfolio asks for, `size` trainings a trial, of one setting at least, `packs` trials at a time.

    attempts: (search, trial_index, seed) -> runs so far, of trials on record that may run again. It keeps no state:
    `--resume` goes on from the results table, which knows more than any snapshot.
    """

    def __init__(
        self,
        portfolio: Portfolio,
        size: int,
        packs: int,
        reported: Reported,
        attempts: Mapping[tuple[str, int, int], int] | None = None,
    ):
        super().__init__("val_score", "max", packs)
        self._portfolio, self._size, self._reported = portfolio, size, reported
        self._attempts = dict(attempts or {})

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Tune's call for a snapshot: none is taken."""

    def __getstate__(self) -> dict:
        """Of the copy that Tune pickles with a Tuner, which nobody reads."""
        return {}

    def _fill(self, trial_id: str) -> list[tuple[Asked, dict]] | str | None:
        pack: list[Asked] = []
        while not pack or len(pack) + len(self._portfolio.seeds) <= self._size:
            asked = self._portfolio.ask()
            if not asked:
                break
            pack += asked
        if not pack:
            return Searcher.FINISHED if self._portfolio.finished else None
        return [(one, self._config(one)) for one in pack]

    def _config(self, asked: Asked) -> dict:
        trial = asked.origin["search"], asked.origin["trial_index"], asked.seed
        attempt = self._attempts.get(trial, 0)
        self._attempts[trial] = attempt + 1
        return {**asked.h, SEED: asked.seed, UNTIL: asked.until, ORIGIN: {**asked.origin, "attempt": attempt}}

    def _tell(self, member: Asked, told: Mapping[str, Any]) -> None:
        self._portfolio.tell(member, self._reported(member, told))
