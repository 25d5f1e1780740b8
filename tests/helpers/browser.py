"""A browser for tests of the report's page: no network, and nothing it complains about goes unseen. No test in here."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
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
def watched(running, path: Path, width: int = 1280, height: int = 900):
    """(page of a file, drawn to its end; the list that grows by whatever it logs as an error or a warning, raises, or
    asks a network for)."""
    with running.new_context(viewport={"width": width, "height": height}) as window:
        window.set_default_timeout(600_000)  # ms
        page = window.new_page()
        complaints = _complaints(page)
        window.route(lambda url: not url.startswith("file:"), lambda route: route.abort())
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        yield page, complaints


def _complaints(page) -> list[str]:
    found: list[str] = []

    def logged(message):
        if message.type in ("error", "warning"):
            found.append(f"{message.type}: {message.text}")

    def asked(request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            found.append(f"asked for {request.url}")

    page.on("console", logged)
    page.on("pageerror", lambda error: found.append(f"raised: {error}"))
    page.on("dialog", lambda dialog: (found.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", asked)
    return found
