"""Text that fits a terminal."""

import textwrap

WIDTH = 80


def fold(text: str, indent: str = "  ", width: int = WIDTH) -> str:
    """The lines of a text, each broken between words so that it fits width; what is continued is indented. Paths and
    other long words stay whole."""
    usual = {"subsequent_indent": indent, "break_long_words": False, "break_on_hyphens": False}
    return "\n".join(textwrap.fill(line, width, **usual) for line in text.split("\n"))


def say(text: str) -> None:
    """Print a text, folded, at once."""
    print(fold(text), flush=True)
