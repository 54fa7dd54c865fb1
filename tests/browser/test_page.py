"""The page of any model: it loads without a complaint, asks nothing of a network, is small, and keeps nobody out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pages import HOSTILE, VIEWS

MODELS = tuple(VIEWS)
LARGEST = 2_000_000
"""Bytes."""
GRAVE = ("serious", "critical")
IN_THEMES = pytest.mark.parametrize("context", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True, ids=str)


def drawn(page: Page) -> Page:
    """Once there is a tab and its panel."""
    expect(page.get_by_role("tab").first).to_be_visible()
    expect(page.get_by_role("tabpanel")).to_have_count(1)
    return page


@pytest.mark.parametrize("model", MODELS)
def test_a_page_loads_without_a_complaint(model: str, open_page: OpenPage) -> None:
    drawn(open_page(model))


@pytest.mark.parametrize("model", MODELS)
def test_a_page_asks_nothing_of_a_network(model: str, new_page: Callable[[], Page], files: Callable[[str], Path]) -> None:
    page, asked = new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(files(model).as_uri())
    drawn(page)
    assert [url for url in asked if not url.startswith(("blob:", "data:"))] == [files(model).as_uri()]


@pytest.mark.parametrize("model", ["squeezenet", "minilm", "bodies"])
def test_a_page_is_small(model: str, files: Callable[[str], Path]) -> None:
    assert files(model).stat().st_size < LARGEST


@IN_THEMES
@pytest.mark.parametrize("model", ["squeezenet", "bodies"])
def test_every_tab_keeps_nobody_out(model: str, open_page: OpenPage) -> None:
    """Names of buttons, roles, contrast, order of headings: axe-core's rules, in both themes."""
    page = drawn(open_page(model))
    for tab in page.get_by_role("tab").all():
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        assert grave(page) == [], tab.text_content()


def test_names_and_texts_of_a_model_are_no_markup(open_page: OpenPage) -> None:
    page = drawn(open_page("hostile"))
    for tab in page.get_by_role("tab").all():
        tab.click()
        expect(page.locator("img")).to_have_count(0)
    expect(page.locator("#panels")).to_contain_text(HOSTILE)


def grave(page: Page) -> list[str]:
    """Rule, and the elements that break it."""
    found: dict[str, Any] = Axe().run(page).response
    return [
        f"{broken['id']}: {broken['help']}: {', '.join(str(node['html']) for node in broken['nodes'][:5])}"
        for broken in found["violations"]
        if broken["impact"] in GRAVE
    ]


def test_what_keeps_people_out_is_found(new_page: Callable[[], Page]) -> None:
    page = new_page()
    page.set_content('<html lang="en"><title>x</title><main><button></button></main>')
    assert [line.split(":")[0] for line in grave(page)] == ["button-name"]


def test_a_page_that_complains_fails_its_test(new_page: Callable[[], Page], complaints: list[str]) -> None:
    page = new_page()
    page.set_content("<script>console.error('first'); console.warn('second'); undefined.third</script>")
    assert [said.split("(")[0] for said in complaints] == ["first", "second", "Cannot read properties of undefined "]
    complaints.clear()


@IN_THEMES
@pytest.mark.parametrize("model", MODELS)
def test_pictures(model: str, open_page: OpenPage, picture: Callable[[Page, str], None]) -> None:
    """One of each tab, for people to look at; each theme has its own background."""
    page = drawn(open_page(model))
    theme = "dark" if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else "light"
    for tab in page.get_by_role("tab").all():
        tab.click()
        page.wait_for_timeout(500)
        picture(page, f"{model}-{tab.get_attribute('data-id')}-{theme}")
    red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)")
    assert (red + green + blue > 384) == (theme == "light")


def test_keys_go_from_tab_to_tab(open_page: OpenPage) -> None:
    tabs = drawn(open_page("squeezenet")).get_by_role("tab")
    tabs.first.focus()
    for key, chosen in (("End", tabs.last), ("ArrowRight", tabs.first), ("ArrowLeft", tabs.last), ("Home", tabs.first)):
        tabs.page.keyboard.press(key)
        expect(chosen).to_be_focused()
        expect(chosen).to_have_attribute("aria-selected", "true")
