"""Data cards of measured landscapes: what was trained, how, for how long, how noisy it is, and what it is not for."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tune_cd.analysis.tables import markdown

if TYPE_CHECKING:
    from tune_cd.landscapes.measured import Measured

ROLES = {
    "in view": "it may be looked at while a search is changed; it does not judge one",
    "judge": "it judges searches; no constant of one is chosen on it",
    "": "none: it does not come with the package",
}
SHOWN = {"margin": ("margin", "q"), "infonce": ("temperature",)}
"""loss -> the fields of the set-up that belong to it."""


def card_of(landscape: "Measured") -> str:
    """Data card in Markdown: a table of what was measured, one of the noise, and a list of uses to avoid."""
    facts = pd.Series(_facts(landscape)).rename_axis(landscape.name).to_frame("what was measured")
    noise = pd.DataFrame(_noise(landscape)).set_index("batch size")
    limits = "\n".join(f"- {limit}" for limit in _limits(landscape))
    return f"{markdown(facts)}\n\n{markdown(noise)}\n\nNot to be used\n\n{limits}"


def _facts(landscape: "Measured") -> dict[str, str]:
    about, axes, setup = landscape.about, landscape.axes, landscape.about["setup"]
    held = about.get("images", {})
    loss = ", ".join(f"{name} {setup[name]}" for name in SHOWN.get(about["loss"], ()) if name in setup)
    repeated = landscape.trained.sum(-1) > 1
    facts = {
        "role": f"{landscape.role}: {ROLES[landscape.role]}".removeprefix(": "),
        "dataset": about["dataset"],
        "images": "; ".join(f"{name} {n['images']} of {n['classes']} classes" for name, n in held.items()) or "-",
        "task": about["task"],
        "loss": f"{about['loss']} ({loss})" if loss else about["loss"],
        "score": f"{about['metric']}; validation chooses the weights, of {landscape.looks} looks",
        "network": f"{setup['network']}, {setup['image_size']} px, {setup['images_seen']:,} images seen, bare SGD",
        **{weight: _span(axes[weight]) for weight in landscape.weights},
        "batch size": ", ".join(map(str, axes["batch_size"])),
        "seeds": f"{', '.join(map(str, axes['seed']))}; several at {int(repeated.sum())} of {_cells(landscape)} cells",
        "trainings": f"{about['trainings']}, {int((landscape.trials['status'] == 'diverged').sum())} of them diverged",
        "time": f"{about['hours']:.2f} hours of one {_device(landscape)}, {about['started']} to {about['ended']}",
        "commit": ", ".join(about["commits"]) or "-",
        "software": ", ".join(f"{name} {version}" for name, version in about["software"].items()),
        "command": f"`{about['command']}`" if "command" in about else "-",
    }  # fmt: skip
    return facts


def _cells(landscape: "Measured") -> int:
    return int(landscape.trained.any(-1).sum())


def _device(landscape: "Measured") -> str:
    device, processor = landscape.about["device"], landscape.about.get("processor")
    what = "core" if device == "cpu" else str(device)
    return f"{what} of an {processor}" if processor else what


def _span(values: np.ndarray) -> str:
    steps = sorted({f"{step:.3g}" for step in np.diff(np.log2(values))})
    return f"{len(values)} values, {values[0]:.3g} to {values[-1]:.3g}, steps of {' or '.join(steps)} octaves"


def _noise(landscape: "Measured") -> list[dict[str, object]]:
    """One row per batch size: the best setting's scores, and the standard deviations between seeds near it."""
    rows: list[dict[str, object]] = []
    for b in landscape.axes["batch_size"].tolist():
        part = landscape.at(b)
        scores = part.trials.groupby(list(part.weights))[["val_score", "test_score"]].mean()
        if scores["val_score"].isna().all():
            continue
        best = scores["val_score"].idxmax()
        (noise, freedom), (tested, _) = (part.noise_and_freedom(score=name) for name in ("val_score", "test_score"))
        rows.append({
            "batch size": b, **{f"best {name}": f"{at:.3g}" for name, at in zip(part.weights, best)},
            "validation": f"{scores.loc[best, 'val_score']:.3f}", "test": f"{scores.loc[best, 'test_score']:.3f}",
            "validation between seeds": _deviation(noise), "test between seeds": _deviation(tested),
            "degrees of freedom": freedom,
        })  # fmt: skip
    return rows


def _deviation(noise: float) -> str:
    return f"±{noise:.3f}" if np.isfinite(noise) else "-"


def _limits(landscape: "Measured") -> list[str]:
    """Uses to avoid."""
    about, setup, axes = landscape.about, landscape.about["setup"], landscape.axes
    step = float(np.median(np.diff(np.log2(axes[landscape.weights[0]]))))
    limits = {
        "in view": "to judge a search: constants of ours were chosen while it was in view",
        "judge": "to choose a constant of a search, or to look at while one is changed: it would judge no more",
    }
    sizes = ", ".join(map(str, axes["batch_size"]))
    return [
        *([limits[landscape.role]] if landscape.role else []),
        f"to compare {about['dataset']} with published scores: {setup['network']} at {setup['image_size']} px has seen "
        f"{setup['images_seen']:,} images",
        f"to say where the best setting of another network or a longer training lies, or closer than {step:g} octaves",
        "to compare settings that differ by less than the noise between seeds; most cells have one seed",
        "to report its validation scores as performance: they chose the weights and the setting; report the test",
        f"for other batch sizes than {sizes}: between them nothing was measured",
    ]
