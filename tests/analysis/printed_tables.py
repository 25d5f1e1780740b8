"""Tables as they are printed, read back."""

import re

from tune_cd.analysis.tables import markdown


def parsed(text):
    """The rows of one Markdown table, and that it is one."""
    lines = [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines()
    ]
    for lengths in ({len(line) for line in lines}, {len(line) for line in text.splitlines()}):
        assert len(lengths) == 1
    assert all(set(cell) == {"-"} for cell in lines[1])
    return [lines[0], *lines[2:]]


def cells_of(table):
    """The cells of a table of one level, as they are printed."""
    return parsed(markdown(table))
