"""The searches of a study as Ray Tune's searcher: a trial is a pack of their trainings."""

from ray.tune.search import Searcher

from tune_cd.run.options import ORIGIN
from tune_cd.run.portfolio import Asked, Portfolio
from tune_cd.tune.packed import SEED, Packing


class StudySearch(Packing):
    """Hands out what a portfolio asks for, `size` trainings a trial, of one setting at least, `packs` trials at a time.

    It keeps no state: `--resume` goes on from the results table, which knows more than any snapshot.
    """

    def __init__(self, portfolio: Portfolio, size: int, packs: int):
        super().__init__("val_score", "max", packs)
        self._portfolio, self._size = portfolio, size

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
        return [(one, {**one.h, SEED: one.seed, ORIGIN: one.origin}) for one in pack]

    def _tell(self, member: Asked, value: float | None) -> None:
        self._portfolio.tell(member, value)
