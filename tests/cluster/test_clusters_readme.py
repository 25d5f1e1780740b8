"""Every command of clusters/README.md exists, with every option that the text names."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from tune_cd import submit
from tune_cd.cluster.__main__ import parser as cluster_parser
from tune_cd.report.__main__ import parser as report_parser
from tune_cd.run import options
from tune_cd.submit import check_submission

CLUSTERS = Path(__file__).parents[2] / "clusters"
README = (CLUSTERS / "README.md").read_text(encoding="utf-8")
BLOCKS = "\n".join(re.findall(r"^```bash\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
BLOCKS = BLOCKS.replace("\\\n", "").replace("BUCKET", "bucket")
OTHERS = {"--tmux", "--dry-run=server"}  # of Ray and kubectl


def commands() -> list[list[str]]:
    """The words after `python -m` of every command, those in quotes for another machine included."""
    found = []
    for line in BLOCKS.splitlines():
        words = shlex.split(line, comments=True)
        quoted = [shlex.split(word) for word in words if word.startswith("python -m ")]
        found += [inner[2:] for inner in [*quoted, words] if inner[:2] == ["python", "-m"]]
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_is_understood(words):
    module, *argv = words
    if module == "tune_cd.run":
        options.parse(argv)
    elif module == "tune_cd.report":
        report_parser().parse_args(argv)
    elif module == "tune_cd.cluster":
        assert all((CLUSTERS.parent / file).is_file() for file in cluster_parser().parse_args(argv).files)
    else:
        assert module == "tune_cd.submit"
        _, rest = submit.parser().parse_known_args(argv)
        assert not rest or check_submission(rest)["metadata"]["study"] == "mine"


def test_every_kind_of_command_is_shown():
    shown = {" ".join(words[:2]) for words in commands() if words[0] in ("tune_cd.submit", "tune_cd.cluster")}
    assert shown == {f"tune_cd.submit {name}" for name in ("start", "list", "logs", "stop")} | {"tune_cd.cluster check"}
    assert set(re.findall(r"tune_cd\.cluster\s+(\w+)", README)) == {"check", "watch"}


def flags(parser: argparse.ArgumentParser) -> set[str]:
    found = {flag for action in parser._actions for flag in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= {flag for inner in action.choices.values() for flag in flags(inner)}
    return found


def test_every_option_in_the_text_is_in_a_parser():
    known = flags(options.parser()) | flags(submit.parser()) | flags(cluster_parser()) | OTHERS
    prose = re.sub(r"^```bash\n.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"(?<![\w-])--[a-z][\w=-]*", prose))
    assert named and named <= known


def test_every_file_is_in_the_table_and_there():
    assert set(re.findall(r"`(\w+\.yaml)`", README)) == {path.name for path in CLUSTERS.glob("*.yaml")}
    assert len(README.splitlines()) <= 90
