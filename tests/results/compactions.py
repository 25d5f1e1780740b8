"""Folders of small result files, and whether merging them changes what is read."""

import math
from pathlib import Path

import pandas as pd
from rows import evaluation, full, minimal
from warned import silent

from tune_cd import results
from tune_cd.results import parquet


def some_trials(folder: Path, number: int = 6, study: str = "demo") -> pd.DataFrame:
    """The table of so many trials, every third one failed, with curves."""
    for n in range(number):
        trial = minimal if n % 3 == 2 else full
        results.write_curve(
            folder, study, f"t{n}", [evaluation(images_seen=images, val_score=math.nan) for images in (0, 64)]
        )
        results.write_trial(folder, trial(study=study, trial_id=f"t{n}", trial_index=n))
    return results.read(folder)


def put(folder: Path, file: str, *rows: dict) -> Path:
    """A file of these rows where nobody asked for it."""
    path = folder / "trials" / "demo" / file
    results.publish(path, parquet.serialise([results.check_trial(row) for row in rows], results.TRIALS))
    return path


def names(folder: Path, table: str = "trials", study: str = "demo") -> list[str]:
    return sorted(path.name for path in (folder / table / study).iterdir())


def same(folder: Path, before: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(silent(results.read, folder), before)
