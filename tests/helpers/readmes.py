"""The READMEs as tests see them: their text, blocks, links and commands. No test in here."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
ROOMS = ("clusters", "trainables", "tune_cd", "tests")
READMES = [ROOT / "README.md", *sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.md"))]

PARSED_ONLY = {
    "tune_cd.run": "trainings of minutes to days; the first command is run in another test",
    "trainables.train": "trainings of minutes", "tune_cd.replay": "thousands of searches, minutes to an hour",
    "tune_cd.submit": "a cluster", "tune_cd.cluster": "a cluster, and files with a user's own names in them",
}  # fmt: skip
"""Commands that are parsed and not run. So are those that name an object store or a placeholder."""


class Command(NamedTuple):
    """One simple command of a README, as words."""

    readme: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.readme}: {shlex.join(self.words)}"

    @property
    def module(self) -> str | None:
        """M of `python -m M`."""
        program = Path(self.words[0]).name
        return self.words[2] if program in ("python", "python3") and self.words[1] == "-m" else None

    @property
    def script(self) -> str | None:
        """F of `python F.py`."""
        program = Path(self.words[0]).name
        return self.words[1] if program in ("python", "python3") and self.words[1].endswith(".py") else None

    @property
    def arguments(self) -> list[str]:
        return list(self.words[3 if self.module else 2 :])

    @property
    def ours(self) -> bool:
        return (self.module or "").split(".")[0] in ("tune_cd", "trainables")

    @property
    def is_run(self) -> bool:
        elsewhere = any("://" in word or re.search(r"\b[A-Z]{2,}\b", word) for word in self.words)
        return self.ours and self.module not in PARSED_ONLY and not elsewhere


def name_of(readme: Path) -> str:
    return readme.relative_to(ROOT).as_posix()


def text_of(readme: Path) -> str:
    return readme.read_text(encoding="utf-8")


def blocks(readme: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text_of(readme), re.MULTILINE | re.DOTALL)


def prose(readme: Path) -> str:
    return re.sub(r"^```.*?^```$", "", text_of(readme), flags=re.MULTILINE | re.DOTALL)


def commands(readme: Path) -> list[Command]:
    """All simple commands of its bash blocks, and those handed in quotes to another."""
    found = []
    for line in "".join(blocks(readme, "bash")).replace("\\\n", " ").splitlines():
        words = shlex.split(re.sub(r"(^|\s)#\s.*$", "", line))
        found += _simple(words)
        found += [inner for word in words if re.match(r"\S*python3? ", word) for inner in _simple(shlex.split(word))]
    return [Command(name_of(readme), tuple(words)) for words in found]


def _simple(words: list[str]) -> list[list[str]]:
    """Split at the shell's operators, without the variables that are set in front."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word in ("&&", "||", "|", ";"):
            parts.append([])
        elif parts[-1] or not re.match(r"[A-Za-z_]+=", word):
            parts[-1].append(word)
    return [part for part in parts if part]


def links(readme: Path) -> list[tuple[Path, str]]:
    """(file, heading or "") of every link and picture, but for web addresses."""
    targets = [target.partition("#") for target in re.findall(r"\]\(([^)\s]+)\)", prose(readme)) if ":" not in target]
    return [((readme.parent / path).resolve() if path else readme, anchor) for path, _, anchor in targets]


def anchors(file: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", prose(file), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
