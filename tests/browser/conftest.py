"""Chromium, and pages in it that fail a test as soon as they complain.

`open_page("squeezenet")` answers the page of a model of `tests/browser/pages.py`. What a page asks of the network is in
`requests_of`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.chromium import chromium
from tests.browser.pages import VIEWS

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
PATIENCE = 20_000
"""Milliseconds until something that is waited for counts as missing."""

OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a page, by its model; each is made once."""
    folder = tmp_path_factory.mktemp("pages")

    def file(name: str) -> Path:
        path = folder / f"{name}.html"
        return path if path.exists() else VIEWS[name]().save(path)

    return file


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    """What the consoles of pages say, which must be nothing."""
    said: list[str] = []
    yield said
    assert said == []


@pytest.fixture
def context(browser: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """Of one test; `@pytest.mark.parametrize("context", [{...}], indirect=True)` gives it settings."""
    made = browser.new_context(**{"viewport": {"width": 1400, "height": 900}} | getattr(request, "param", {}))
    made.set_default_timeout(PATIENCE)
    yield made
    made.close()


@pytest.fixture
def new_page(context: BrowserContext, complaints: list[str]) -> Callable[[], Page]:
    """An empty one whose errors and warnings are complaints."""

    def made() -> Page:
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    return made


@pytest.fixture
def open_page(new_page: Callable[[], Page], files: Callable[[str], Path]) -> OpenPage:
    def opened(name: str) -> Page:
        page = new_page()
        page.goto(files(name).as_uri())
        return page

    return opened


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[Any, str], None]:
    """Keeps what a page looks like, for people to look at."""

    def taken(page: Page, name: str) -> None:
        page.screenshot(path=SCREENSHOTS / f"{name}.png")

    return taken
