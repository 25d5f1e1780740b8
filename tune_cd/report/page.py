"""The report's page: one HTML file with its styles, scripts and data, which works without a network."""

import html
import json
import math
import re
from importlib import resources

SCRIPTS = ("charts.js", "page.js")
KEYS = ("title", "notes", "glossary", "tables", "studies")


def render(payload: dict) -> str:
    """The whole page: 50 kB, and about a kilobyte a trial.

    payload: the result of `tune_cd.report.payload`, plain JSON values. Raises ValueError if it lacks a key of KEYS, or
    holds a number that is not finite, which the message locates.
    """
    missing = [key for key in KEYS if key not in payload]
    if missing:
        raise ValueError(f"a payload without {missing}: it has {sorted(payload)}, and {list(KEYS)} are required")
    parts = {
        "title": html.escape(payload["title"]),
        "css": _template("page.css"),
        "payload": _json(payload),
        "scripts": _script("\n".join(_template(name) for name in SCRIPTS)),
    }
    # one pass, so that data that look like a placeholder are kept
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _template("page.html"))
    return re.sub("[\ud800-\udfff]", "\ufffd", text)  # halves of characters, which have no UTF-8


def _json(payload: dict) -> str:
    """JSON that cannot end its script element: `<` and Unicode's two line separators are escaped."""
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise ValueError(f"{_not_a_number(payload)}: numbers of the page are finite, absent ones are None") from error
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _not_a_number(value: object, place: str = "payload") -> str | None:
    """The place of the first NaN or infinity, written as a Python expression."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{place} = {value}"
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    return next(filter(None, (_not_a_number(item, f"{place}[{key!r}]") for key, item in inside)), None)


def _script(code: str) -> str:
    """Code that cannot end its script element: `</script` occurs only in strings, where the backslash is ignored."""
    return re.sub(r"</(?=script)", r"<\\/", code, flags=re.IGNORECASE)


def _template(name: str) -> str:
    return (resources.files("tune_cd.report") / name).read_text(encoding="utf-8")
