"""What a command does first, so that neither the terminal's encoding nor a notebook's environment changes how it ends.

It imports nothing that takes long.
"""

import codecs
import os
import sys

READABLE = {
    "Λ": "Lambda_", "λ": "lambda_", "γ": "gamma", "Δ": "d", "±": "+-", "≥": ">=", "−": "-", "×": "x", "…": "...",
    "·": "*", "°": " degrees", "√": "sqrt", "²": "^2",
}  # fmt: skip
"""Character -> its form in an encoding that lacks it; others are escaped."""


def prepare() -> None:
    """Let stdout and stderr write any text in any encoding, and matplotlib draw without a display.

    An MPLBACKEND that this installation lacks, as a notebook's, would refuse every import of matplotlib.
    """
    os.environ["MPLBACKEND"] = "agg"
    codecs.register_error("tune_cd", _readable)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # else closed, or a notebook's
            stream.reconfigure(errors="tune_cd")


def _readable(error: UnicodeError) -> tuple[str, int]:
    """Handle characters that an encoding lacks, as `codecs.register_error` requires."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    plain = (READABLE.get(one) or one.encode("ascii", "backslashreplace").decode("ascii") for one in lacking)
    return "".join(plain), error.end
