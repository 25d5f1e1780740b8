"""Measured landscapes: grids of real contrastive trainings, each with its learning curve.

Each is a Parquet file with one row per training. `rows` gives the trainings as a results table for `analysis`.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tune_cd import results
from tune_cd.balance import PUBLISHED, weights_among
from tune_cd.landscapes.measured.roles import IN_VIEW as IN_VIEW
from tune_cd.landscapes.measured.roles import JUDGES as JUDGES
from tune_cd.landscapes.measured.writing import ABOUT, CURVE, HELD_BACK, TRAINED, stored
from tune_cd.landscapes.measured.writing import write as write
from tune_cd.results.reading import frame
from tune_cd.results.rows import finite
from tune_cd.results.schema import CURVES, TRIALS, check_trial
from tune_cd.results.writing import write_many

FOLDER = Path(__file__).parent
MEASURED = tuple(sorted(path.stem for path in FOLDER.glob("*.parquet")))
"""Names of the landscapes that come with the package."""

NEAR = 0.85  # share of the best score from which a cell is near the best: its noise matters to a search


@dataclass(frozen=True, eq=False)
class Measured:
    """A grid of trainings over the weights of a loss's terms. NaN: training diverged, or nothing was measured.

    A look is one evaluation during a training. about: dataset, task, loss, metric, setup (all but h and the seed),
    commits, software, device, started, ended, trainings, hours (of one device, evaluations included) and, where known,
    command, images (split -> classes, images), processor and published (weight -> its coefficient, of losses that have
    some).

    trials: one row per training, with the weights, batch_size, seed, status, val_score, test_score, best_at (images),
    the terms (at the best look), seconds (wall-clock, evaluations included), and the looks: images [n_looks],
    validation, and <term>_curve of each term. held_back: the same of settings between the cells, which no surface uses
    (`tune_cd.landscapes.find.error_between_cells`). Weights and terms are Lambda_p, Lambda_e, positive_term and
    entropy_term, of other losses Lambda_<name> and term_<name>.

    Shapes below are for Lambda_p and Lambda_e, [n_p, n_e, ...]; other losses have an axis per weight.
    """

    name: str
    about: dict[str, Any]
    trials: pd.DataFrame
    held_back: pd.DataFrame

    @property
    def weights(self) -> tuple[str, ...]:
        """Names of the terms' weights, in the order of the terms."""
        return tuple(weights_among(list(self.trials)))

    @property
    def published(self) -> dict[str, float]:
        """Weight -> its published coefficient, for a loss of other terms than the paper's; {} for the paper's."""
        return dict(self.about.get(PUBLISHED, {}))

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the loss's terms as `trials` has them, in the order of their weights."""
        return tuple(name.removesuffix(CURVE) for name in self.trials if name.endswith(CURVE))

    @cached_property
    def axes(self) -> dict[str, np.ndarray]:
        """Ascending values of Lambda_p [n_p], Lambda_e [n_e], batch_size [n_b] and seed [n_seeds]."""
        return {name: np.unique(self.trials[name]) for name in (*self.weights, *TRAINED)}

    @property
    def role(self) -> str:
        """ "in view": may be looked at while a search is changed; "judge": may not; "": not in the package."""
        return "in view" if self.name in IN_VIEW else "judge" if self.name in JUDGES else ""

    @property
    def looks(self) -> int:
        """Number of evaluations of a training, evenly spaced."""
        return int(self.about["setup"]["evaluations"])

    @cached_property
    def validation(self) -> np.ndarray:
        """Validation scores at each look [n_p, n_e, n_b, n_seeds, n_looks]."""
        return self._curves("validation")

    def term(self, name: str) -> np.ndarray:
        """An unweighted term of the loss, the mean over training batches since the look before; shape as `validation`.

        name: one of `terms`. Raises ValueError naming them.
        """
        if name not in self.terms:
            raise ValueError(f"term {name!r}: {self.name} has {list(self.terms)}")
        return self._curves(name)

    @cached_property
    def test(self) -> np.ndarray:
        """Test scores [n_p, n_e, n_b, n_seeds] of the network at the best look."""
        grid = np.full(self._shape, np.nan)
        grid[self._places] = self.trials["test_score"].to_numpy(float)
        return grid

    @cached_property
    def images(self) -> np.ndarray:
        """Training images seen before each look [n_b, n_looks]; both views of an image count."""
        longest = self.trials.assign(n=self.trials["images"].map(len)).sort_values("n").groupby("batch_size").last()
        return np.array([np.append(row, [np.nan] * (self.looks - len(row))) for row in longest["images"]])

    @property
    def trained(self) -> np.ndarray:
        """Mask [n_p, n_e, n_b, n_seeds] of the cells that were trained, diverged or not."""
        trained: np.ndarray = np.zeros(self._shape, bool)
        trained[self._places] = True
        return trained

    def at(self, batch_size: int) -> "Measured":
        """The trainings of one batch size. Raises ValueError naming the measured ones."""
        sizes = self.axes["batch_size"].tolist()
        if batch_size not in sizes:
            raise ValueError(f"batch_size {batch_size}: {self.name} has {sizes}")
        chosen = [rows[rows["batch_size"] == batch_size] for rows in (self.trials, self.held_back)]
        return Measured(self.name, self.about, *chosen)

    def frame(self) -> pd.DataFrame:
        """One row per look: the weights, batch_size, seed, images_seen, validation and the terms."""
        looked = ("validation", *self.terms)
        columns = {"images_seen": "images"} | {name: stored(name) for name in looked}
        wide = self.trials[[*self.axes, *columns.values()]].rename(
            columns={held: name for name, held in columns.items()}
        )
        return wide.explode(list(columns), ignore_index=True).astype(
            {"images_seen": int} | dict.fromkeys(looked, float)
        )

    def rows(self) -> pd.DataFrame:
        """The trainings as `results.read` gives them, one row a training, for `analysis`, `report` and `from_table`."""
        return frame(pa.Table.from_pylist([check_trial(row) for row in self._rows()], TRIALS), TRIALS)

    def store(self, folder: str | Path) -> None:
        """Write the trainings and their curves as a study of a results folder, for reports and figures.

        Stored rows stay. Raises ConflictingRow where the study has other rows, OSError for the folder.
        """
        rows = self._rows()
        for row, training in zip(rows, self.trials.to_dict("records")):
            if looks := [self._look(training, look) for look in range(len(training["images"]))]:
                results.write_curve(folder, self.name, row["trial_id"], looks)
        write_many(folder, rows)
        results.compact(folder, self.name)

    def noise(self, batch_size: int | None = None, near: float = NEAR, score: str = "val_score") -> float:
        """Standard deviation of a score between seeds; NaN where no cell near the best has several.

        Pooled over the cells with several seeds whose mean validation score is at least `near` of the best at their
        batch size; noise elsewhere does not matter to a search. batch_size: None: all.
        """
        return self.noise_and_freedom(batch_size, near, score)[0]

    def noise_and_freedom(
        self, batch_size: int | None = None, near: float = NEAR, score: str = "val_score"
    ) -> tuple[float, int]:
        """`noise`, and its degrees of freedom: seeds less cells."""
        chosen = self if batch_size is None else self.at(batch_size)
        ended = chosen.trials[chosen.trials["status"] == "completed"]
        cells = ended.groupby(["batch_size", *self.weights])
        means = cells["val_score"].mean()
        close = means >= near * means.groupby("batch_size").transform("max")
        several = close & (cells[score].count() > 1)
        freedom = int((cells[score].count() - 1)[several].sum())
        squares = float((cells[score].var() * (cells[score].count() - 1))[several].sum())
        return (float(np.sqrt(squares / freedom)), freedom) if freedom else (np.nan, 0)

    @cached_property
    def _places(self) -> tuple[np.ndarray, ...]:
        return tuple(np.searchsorted(values, self.trials[name]) for name, values in self.axes.items())

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.axes.values()))

    def _curves(self, name: str) -> np.ndarray:
        grid = np.full((*self._shape, self.looks), np.nan)
        for place, curve in zip(zip(*self._places), self.trials[stored(name)]):
            grid[(*place, slice(len(curve)))] = curve
        return grid

    def _rows(self) -> list[dict[str, Any]]:
        """Rows of the results table, not yet checked."""
        about = self.about
        shared = {
            "study": self.name, "search": "grid", "attempt": 0, "dataset": about["dataset"],
            "task": about["task"], "loss": about["loss"], "metric_name": about["metric"], "device": about["device"],
            "software": json.dumps(about["software"]),
            "git_commit": about["commits"][0] if len(about["commits"]) == 1 else None,
        }  # fmt: skip
        return [shared | self._row(index, training) for index, training in enumerate(self.trials.to_dict("records"))]

    def _look(self, training: dict[Any, Any], look: int) -> dict[str, Any]:
        """A row of the results' table of curves."""
        terms = {term: finite(training[stored(term)][look]) for term in self.terms}
        own = {name: value for name, value in terms.items() if name in CURVES.names}
        others = {f"train_{name}": value for name, value in terms.items() if name not in own and value is not None}
        return {
            "attempt": 0, "seed": training["seed"], "images_seen": int(training["images"][look]),
            "val_score": finite(training["validation"][look]), **own, "scores": others,
        }  # fmt: skip

    def _row(self, index: int, training: dict[str, Any]) -> dict[str, Any]:
        published = {PUBLISHED: self.published} if self.published else {}
        h = {name: training[name] for name in self.weights} | {"batch_size": int(training["batch_size"])}
        measured = ("val_score", "test_score", *self.terms, "best_at")
        known = {name: None if pd.isna(training[name]) else training[name] for name in measured}
        others = [name for name in self.terms if name not in TRIALS.names]
        scores = {name: value for name in others if (value := known.pop(name)) is not None}
        return {
            **{name: value for name, value in h.items() if name in TRIALS.names},
            **known, "scores": scores, "params": h, "trial_id": f"grid-{index:05d}", "trial_index": index,
            "seed": int(training["seed"]), "status": training["status"],
            "best_at": None if known["best_at"] is None else int(known["best_at"]),
            "images_seen": int(training["images"][-1]) if len(training["images"]) else None,
            "config": json.dumps({**self.about["setup"], **published, **h}),
        }  # fmt: skip


def load(name: str, folder: Path = FOLDER) -> Measured:
    """Load a measured landscape by its name. Raises ValueError naming the known ones."""
    path = folder / f"{name}.parquet"
    if not path.exists():
        raise ValueError(f"landscape {name!r}: one of {sorted(path.stem for path in folder.glob('*.parquet'))}")
    table = pq.read_table(path)
    rows = table.replace_schema_metadata().to_pandas()
    parts = [
        part.drop(columns=HELD_BACK).reset_index(drop=True) for part in (rows[~rows[HELD_BACK]], rows[rows[HELD_BACK]])
    ]
    return Measured(name, json.loads(table.schema.metadata[ABOUT]), *parts)
