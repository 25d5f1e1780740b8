"""Exports the results as one flat file: CSV, Parquet or JSON."""

import json
from math import isfinite
from pathlib import Path

import pandas as pd
import pyarrow as pa

from tune_cd.results.store import publish

FORMATS = (".csv", ".parquet", ".json")
MAPS = ("params", "scores")


def check_export(path: Path) -> Path:
    """Return `path` if a table can be exported there; else raise ValueError."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"--output {path}: the name must end in {', '.join(FORMATS)}")
    if path.is_dir():
        raise ValueError(f"--output {path} is a folder")
    return path


def export(table: pd.DataFrame, path: Path) -> None:
    """Write the flattened table as CSV, Parquet or JSON (a list of objects), by the file's suffix.

    JSON numbers are exact; missing, NaN and infinite ones are null. Raises ValueError as `check_export`, and OSError.
    """
    suffix, flat = check_export(path).suffix.lower(), flatten(table)
    if suffix == ".parquet":
        data = bytes(flat.to_parquet(index=False))
    else:
        data = (flat.to_csv(index=False) if suffix == ".csv" else _as_json(flat)).encode()
    publish(path, data)


def flatten(table: pd.DataFrame) -> pd.DataFrame:
    """Replace the map columns by a column for each name in the map: params.Lambda_p, scores.r_map, …"""
    columns = {}
    for name in table.columns:
        if name not in MAPS:
            columns[name] = table[name]
            continue
        for key in sorted({key for row in table[name] for key in row}):
            values = [row.get(key) for row in table[name]]
            columns[f"{name}.{key}"] = pd.Series(values, index=table.index, dtype="float64")
    return pd.DataFrame(columns, index=table.index)


def _as_json(flat: pd.DataFrame) -> str:
    rows = [
        {name: None if isinstance(v, float) and not isfinite(v) else v for name, v in row.items()}
        for row in pa.Table.from_pandas(flat, preserve_index=False).to_pylist()
    ]
    return json.dumps(rows, default=str, indent=1, allow_nan=False)
