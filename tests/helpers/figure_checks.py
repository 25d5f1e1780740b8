"""What every figure keeps to, whatever it shows."""

from pathlib import Path

import matplotlib

from tune_cd import plots


def touched(figure, stem) -> tuple[Path, Path]:
    """In place of `plots.save`: two empty files stand for a figure."""
    files = Path(f"{stem}.svg"), Path(f"{stem}.png")
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return files


def laid_out_alone(figure, stem) -> tuple[Path, Path]:
    """In place of `plots.save`: the figure is drawn with its layout, all but the pixels."""
    figure.draw_without_rendering()
    return touched(figure, stem)


def check_saving(make, folder):
    """The figure: written twice, once to a new folder, in equal files; nothing sticks out or stays in the settings."""
    before = _settings()
    figure = make()
    svg, png = plots.save(figure, folder / "new/figure")
    assert svg.read_text().startswith("<?xml") and png.read_bytes().startswith(b"\x89PNG")
    again, _ = plots.save(make(), folder / "again")
    assert again.read_bytes() == svg.read_bytes()
    assert _settings() == before
    width, height = figure.get_size_inches()
    box = figure.get_tightbbox()
    assert box.x0 > -0.02 and box.y0 > -0.02 and box.x1 < width + 0.02 and box.y1 < height + 0.02
    return figure


def axes_of(axes):
    """The two axes of a panel, or three."""
    return [getattr(axes, name) for name in ("xaxis", "yaxis", "zaxis") if hasattr(axes, name)]


def check_axes(name, figure):
    """Every axis has a label, or the figure has one for all of them; the paper is white."""
    assert matplotlib.colors.to_rgb(figure.get_facecolor()) == (1, 1, 1)
    around = {figure.get_supxlabel(), figure.get_supylabel()} - {""}
    for axes in figure.axes:
        by_hand = name == "pipeline" or not axes.get_visible()
        labels = ["drawn by hand"] if by_hand else [axis.get_label_text() for axis in axes_of(axes)]
        bars = axes.get_label() == "<colorbar>"
        later = name == "curves" and not axes.get_subplotspec().is_first_col()  # the first panel's label holds
        assert all(labels) or len(around) == 2 or ((bars or later) and any(labels)), labels


def _settings():
    found_on_its_first_use = {"backend"}
    return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams.keys() - found_on_its_first_use}
