"""Headless Chromium, driven by Playwright, with axe-core. Tests that need them are skipped where they are not installed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SERIOUS = ("serious", "critical")
TIMEOUT_MS = 60_000


def program() -> str:
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; its pages have a bound for each wait."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_of(browser: Any, url: str, scheme: str = "light", width: int = 1280, expected: str = "status of 4") -> Iterator[Any]:
    """A page whose errors and refused loads fail the test, except for errors with a text that is expected."""
    context = browser.new_context(base_url=url, color_scheme=scheme, viewport={"width": width, "height": 800})
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" and expected not in line.text else None)
    page.on("request", lambda request: problems.append(request.url) if not request.url.startswith(url) else None)
    try:
        yield page
    finally:
        context.close()
    assert problems == []


def serious_violations(page: Any) -> list[str]:
    """What axe-core finds. Its script is evaluated by the driver, which the page's policy does not concern."""
    axe = pytest.importorskip("axe_playwright_python", reason="needs axe-core: pip install axe-playwright-python")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text()
    page.evaluate(script)
    found = page.evaluate("axe.run()")["violations"]
    return [f"{each['id']}: {node['html'][:120]}" for each in found if each["impact"] in SERIOUS for node in each["nodes"]]
