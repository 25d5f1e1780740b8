"""Rows of the results table: with every field, with as few as are allowed, and curves."""

from datetime import UTC, datetime, timedelta

from tune_cd.results.attempts import rank
from tune_cd.results.reading import rows_in

NOON = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)


def minimal(**fields) -> dict:
    """A row with the required fields alone, but for `fields`."""
    return {
        "study": "demo", "search": "cd", "trial_id": "t0", "trial_index": 0, "attempt": 0, "params": {"Lambda_p": 0.5},
        "status": "failed", "metric_name": "r_map", "scores": {}, "config": "{}", "software": "{}",
    } | fields  # fmt: skip


def full(**fields) -> dict:
    """A row with every field set, but for `fields`."""
    return minimal(
        dataset="glyphs", task="dml", loss="margin", search_seed=1, seed=2, direction="balance", line_position=-1.25,
        params={"Lambda_p": 0.5, "Lambda_e": 0.25}, choices={"optimizer": "adam", "nesterov": "true"}, mode="max",
        Lambda_p=0.5, Lambda_e=0.25, batch_size=64, status="completed", val_score=0.71, test_score=0.69,
        scores={"r_map": 0.71, "precision_at_1": 0.9}, positive_term=0.1, entropy_term=2.0, images_seen=6400,
        best_at=3200, train_seconds=12.5, gpus=0.5, started_at=NOON, ended_at=NOON + timedelta(seconds=13),
        hostname="node-1", device="cpu", error="none to speak of", config='{"lr": 1}', software='{"python": "3.11"}',
        git_commit="0123456789012345678901234567890123456789-dirty",
    ) | fields  # fmt: skip


def evaluation(**fields) -> dict:
    return {"attempt": 0, "images_seen": 0, "scores": {"mean_positive_similarity": 0.5}} | fields


def held(folder, study: str, trial_id: str) -> dict:
    """The row of a trial that counts, in Python's types."""
    return min((row for row in rows_in(folder, study) if row["trial_id"] == trial_id), key=rank)
