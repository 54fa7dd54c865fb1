"""The documentation's site, as `make site` left it, opened as files."""

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

SITE = Path(__file__).parents[2] / "build" / "site"


def test_the_front_page_needs_no_network_and_its_search_finds_pages(new_page: Callable[[], Page]) -> None:
    page, requests = new_page(), []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((SITE / "index.html").as_uri())
    page.get_by_role("textbox", name="Search").fill("winograd")
    expect(page.get_by_text("matching documents")).to_be_visible()
    expect(page.locator("a.md-search-result__link").first).to_contain_text("Winograd")
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
