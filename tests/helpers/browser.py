"""A browser for tests of the report's page: no network, and nothing it complains about goes unseen. No test in here."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@contextmanager
def browser():
    """A running Chromium; skips the test, with the reason, where playwright or the browser is absent."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: no browser to look at the page with"
    )
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed: no browser to look at the page with")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield running
        running.close()


@contextmanager
def opened(running, path: Path, width: int = 1280, height: int = 900, **context):
    """The page of a file, drawn to its end; afterwards it is an error that it logged an error or a warning, raised, or
    asked a network for anything."""
    with running.new_context(viewport={"width": width, "height": height}, **context) as window:
        page = window.new_page()
        complaints, asked = [], []
        page.on(
            "console",
            lambda message: (
                complaints.append(f"{message.type}: {message.text}") if message.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(f"raised: {error}"))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                asked.append(request.url) if not request.url.startswith(("file:", "data:", "blob:")) else None
            ),
        )
        window.route(lambda url: not url.startswith("file:"), lambda route: route.abort())
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached", timeout=30_000)
        yield page
        assert not complaints, complaints
        assert not asked, asked
