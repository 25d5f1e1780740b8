"""The report's page: one HTML file with its styles, scripts and data, which works without a network."""

import html
import json
import re
from importlib import resources


def render(payload: dict) -> str:
    """The whole page: 50 kB, and about a kilobyte a trial.

    payload: the result of `tune_cd.report.payload`. Raises ValueError if it holds a number that is not finite.
    """
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    parts = {
        "title": html.escape(payload["title"]),
        "css": _template("page.css"),
        # `<` and Unicode's two line separators are escaped, so that the data cannot end their script element
        "payload": text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"),
        "scripts": _template("charts.js") + _template("page.js"),
    }
    # one pass, so that data that look like a placeholder are kept
    page = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _template("page.html"))
    return re.sub("[\ud800-\udfff]", "\ufffd", page)  # halves of characters, which have no UTF-8


def _template(name: str) -> str:
    return (resources.files("tune_cd.report") / name).read_text(encoding="utf-8")
