"""What `python -m tune_cd.report ... --figures DIR` leaves of a finished study of `tune_cd.run`."""

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image

OF_ALL = ("curves-trials", "curves-seconds", "directions", "constraints", "pipeline")
OF_A_STUDY = ("sub-losses",)
TABLES = ("methods", "best-values", "gains")
"""What `--figures` writes of the main job: for all studies, for each, and the tables, without their endings."""


def check_figures(folder: Path, studies: Sequence[str], said: str) -> None:
    """All figures and tables of main jobs are below `folder`, and nothing else: pictures that can be opened, tables
    with rows. said: what the command printed."""
    stems = [*OF_ALL, *(f"{study}/{name}" for study in studies for name in OF_A_STUDY)]
    expected = {f"{stem}.{ending}" for stem in stems for ending in ("svg", "png")} | {
        f"{stem}.{ending}" for stem in TABLES for ending in ("md", "tex")
    }
    found = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    assert set(found) == expected and f"{len(found)} files of figures and tables: " in said
    for name, file in found.items():
        if name.endswith(".png"):
            with Image.open(file) as image:
                assert min(image.size) > 300 and len(image.convert("RGB").getcolors(10**7)) > 10, name
        elif name.endswith(".svg"):
            assert ElementTree.parse(file).getroot().tag.endswith("svg"), name
        elif name.endswith(".md"):
            assert len([line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("|")]) > 2, (
                name
            )
        else:
            assert re.search(
                r"\\begin\{tabular\}.+\\caption\{.+\}\n\\label\{", file.read_text(encoding="utf-8"), re.DOTALL
            ), name
