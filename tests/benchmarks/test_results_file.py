"""RESULTS.md and the READMEs with measured tables: each table stands under one command and one commit."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = "tests/benchmarks/RESULTS.md"
WITH_TABLES = ("README.md", "tune_cd/landscapes/README.md")
SOURCE, KEPT = "Source: ", "Source, kept from earlier commits: "
LOST = "a script that was not kept"
GENERATED = r"<!-- (claims|list) -->\n.*?<!-- /\1 -->"
"""Tables that a test computes from files."""


def blocks(text: str) -> list[str]:
    """Paragraphs and tables; what stands between marks of GENERATED is one table."""
    return re.sub(GENERATED, "| generated |", text, flags=re.DOTALL).split("\n\n")


def sourced(name: str) -> list[tuple[str, str]]:
    """(paragraph before it, table) of every table of a file."""
    found = blocks((ROOT / name).read_text(encoding="utf-8"))
    return [(before, block) for before, block in zip(["", *found], found) if block.lstrip("\n").startswith("|")]


def commits(text: str) -> list[str]:
    return re.findall(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7}\b", text)


def commands(text: str) -> list[str]:
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
    return [span for span in spans if re.match(r"(python )?\S*\.py\b|python -m ", span)]


def complaint(before: str, table: str) -> str | None:
    """Why a table of RESULTS.md stands under no single command and commit."""
    kept = before.startswith(KEPT)
    if not (kept or before.startswith(SOURCE)):
        return "no source"
    found, by = set(commits(before)), commands(before)
    if not found or (len(found) > 1 and not kept):
        return f"commits {sorted(found)}: one is required, or {KEPT!r}"
    if (not by and LOST not in before) or (len(set(by)) > 1 and not kept):
        return f"commands {by}: one is required"
    return None if kept or not commits(table) else f"its cells name commits {commits(table)}"


def test_no_table_of_the_results_mixes_commits():
    found = sourced(RESULTS)
    wrong = {table.split("\n")[0][:60]: why for before, table in found if (why := complaint(before, table))}
    assert len(found) > 40 and wrong == {}


@pytest.mark.parametrize("name", WITH_TABLES)
def test_a_measured_table_of_a_readme_names_its_commit(name):
    """Those with scores; several commits only where the text says that they are earlier ones."""
    measured = [(before, table) for before, table in sourced(name) if len(re.findall(r"\d\.\d{3}", table)) > 3]
    assert measured
    for before, table in measured:
        assert len(set(commits(before))) == 1 or (commits(before) and "earlier commits" in before), table
        assert len(set(commands(before))) == 1, table


def git(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)


def test_the_commits_are_of_this_repository():
    try:
        shallow = git("rev-parse", "--is-shallow-repository").stdout.strip()
    except OSError:
        shallow = ""
    if shallow != "false":
        pytest.skip("no repository with its history")
    named = {found for name in (RESULTS, *WITH_TABLES) for found in commits((ROOT / name).read_text(encoding="utf-8"))}
    assert named and sorted(one for one in named if git("cat-file", "-e", f"{one}^{{commit}}").returncode) == []
