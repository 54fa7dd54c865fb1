"""The tabs of stages, memory, timeline and comparison, on a document whose numbers are known."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from ort_lite.tools.view.page import page_of
from tests.browser.plotted import plotted

OpenTab = Callable[[str], Page]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plots") / "plotted.html"
    path.write_text(page_of(plotted()), encoding="utf-8")
    return path


@pytest.fixture
def open_tab(new_page: Callable[[], Page], file: Path) -> OpenTab:
    def opened(title: str) -> Page:
        page = new_page()
        page.goto(file.as_uri())
        page.get_by_role("tab", name=title).click()
        return page

    return opened


def why_this_kernel(page: Page, key: str) -> str:
    """Return the text that the details of a node have on its kernel."""
    page.get_by_role("treeitem").filter(has_text=key).first.click()
    found = page.get_by_label("What is known of it").locator("section", has=page.get_by_role("heading", name="Why this kernel"))
    return found.inner_text() if found.count() else ""


def test_a_node_has_its_kernel_and_the_reasons_against_others(open_tab: OpenTab) -> None:
    page = open_tab("Graph")
    text = why_this_kernel(page, "Abs")
    for line in (
        *("kernel\nfirst", "predicted\n100 µs", "measured\n60 µs", "runner-up\nsecond, 150 µs, and 50 µs to change layouts"),
        *(
            "second: slower\n150 µs, and 50 µs to change layouts (2.0 times as much)",
            "third: does not fit\nits window is large",
        ),
        *("compiled as\nfirst<f32>", "Predictions are for one thread."),
    ):
        assert line in text
    assert "open dimensions" not in text and "not the cheapest" not in text
    text = why_this_kernel(page, "Neg")
    assert "first: faster\n100 µs (0.5 times as much)" in text and "The kernel is not the cheapest" in text
    assert "For open dimensions they assume nominal sizes" in text
    assert why_this_kernel(page, "Exp") == ""


def chart(page: Page) -> Locator:
    """The drawing of the tab that is shown, with its keys."""
    found = page.get_by_role("tabpanel").get_by_role("application")
    found.focus()
    return found


def pressed(page: Page, *keys: str) -> str:
    """What the page says after some keys."""
    for key in keys:
        page.keyboard.press(key)
    return page.locator("#said").text_content() or ""


def rows(page: Page) -> list[list[str]]:
    """Cells of the table that is shown, without its head."""
    table = page.get_by_role("tabpanel").locator(".rows table").last
    return [row.get_by_role("cell").all_text_contents() for row in table.locator("tbody tr").all()]


def test_keys_walk_from_tensor_to_tensor_and_select_their_nodes(open_tab: OpenTab) -> None:
    page = open_tab("Memory")
    chart(page)
    assert pressed(page, "ArrowRight") == "large, made by Abs_0, Abs, 3 MB at 0, steps 0 to 2: Abs_0 to Exp_2"
    assert pressed(page, "ArrowRight").startswith("small, made by Neg_1")
    assert pressed(page, "ArrowRight") == "nothing there"
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Table").click()
    expect(page.locator("tr.chosen")).to_contain_text("small")


def test_a_tensor_is_where_its_bytes_and_steps_are(open_tab: OpenTab) -> None:
    page = open_tab("Memory")
    box = chart(page).bounding_box()
    assert box is not None
    tip = page.locator(".tip:visible")
    for part_x, part_y, name in ((0.2, 0.7, "large"), (0.9, 0.7, "large"), (0.9, 0.08, "small")):
        page.mouse.move(box["x"] + part_x * box["width"], box["y"] + part_y * box["height"])
        expect(tip.locator("strong")).to_have_text(name)
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.08 * box["height"])
    expect(tip).to_have_count(0)


def test_a_wheel_zooms_a_chart_about_the_pointer_and_zero_shows_all_of_it(open_tab: OpenTab) -> None:
    page = open_tab("Timeline")
    box = chart(page).bounding_box()
    assert box is not None
    tip = page.locator(".tip:visible strong")

    def at(x: float) -> None:
        page.mouse.move(box["x"] + x, box["y"] + 18)
        page.mouse.move(box["x"] + x + 1, box["y"] + 18)

    at(box["width"] - 40)
    expect(tip).to_have_text("SampleExecutionProvider_0")
    at(120)
    page.mouse.wheel(0, -400)
    expect(tip).to_have_count(0)
    at(box["width"] - 40)
    expect(tip).to_have_text("CPUExecutionProvider_0")
    page.keyboard.press("0")
    page.wait_for_timeout(400)
    at(box["width"] - 40)
    expect(tip).to_have_text("SampleExecutionProvider_0")


def test_a_part_that_is_dragged_over_with_shift_fills_the_chart(open_tab: OpenTab) -> None:
    page = open_tab("Memory")
    box = chart(page).bounding_box()
    assert box is not None
    y = box["y"] + 0.08 * box["height"]
    expect(page.locator(".tip:visible")).to_have_count(0)
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 0.7 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], y, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_timeout(400)
    page.mouse.move(box["x"] + 0.15 * box["width"], y)
    expect(page.locator(".tip:visible strong")).to_have_text("small")


def test_a_head_sorts_its_table(open_tab: OpenTab) -> None:
    page = open_tab("Memory")
    page.get_by_role("button", name="Table").click()
    assert [row[0] for row in rows(page)] == ["large", "small"]
    size = page.get_by_role("columnheader", name="Size")
    expect(size).to_have_attribute("aria-sort", "descending")
    size.get_by_role("button").click()
    expect(size).to_have_attribute("aria-sort", "ascending")
    assert [row[0] for row in rows(page)] == ["small", "large"]


def test_the_plan_is_said_beside_its_bound(open_tab: OpenTab) -> None:
    facts = open_tab("Memory").get_by_label("About this memory")
    for text in ("Planned4 MB", "No plan needs less than3.50 MB", "Above that bound14.3 %", "(0.9 times as much)"):
        expect(facts).to_contain_text(text)


def test_a_timeline_goes_down_into_what_an_event_holds(open_tab: OpenTab) -> None:
    page = open_tab("Timeline")
    chart(page)
    assert pressed(page, "ArrowRight") == "CPUExecutionProvider_0, Step, CPUExecutionProvider, 100 µs, from 0 µs"
    assert pressed(page, "ArrowDown") == "Abs_0, Kernel, CPUExecutionProvider, 60 µs, from 0 µs"
    assert pressed(page, "ArrowRight").startswith("Neg_1")
    assert pressed(page, "ArrowUp").startswith("CPUExecutionProvider_0")
    assert pressed(page, "ArrowRight").startswith("copy x, Step")


def test_what_takes_longest_counts_no_time_twice(open_tab: OpenTab) -> None:
    page = open_tab("Timeline")
    assert [row[:4] for row in rows(page)] == [
        ["Abs_0", "60 µs", "57.1 %", "Abs"],
        ["Neg_1", "30 µs", "28.6 %", "Neg"],
        ["copy x", "10 µs", "9.52 %", "copies"],
        ["Exp_2", "5 µs", "4.76 %", "Exp"],
    ]
    page.locator("tr", has_text="Neg_1").click()
    expect(page.locator("tr.chosen")).to_have_count(1)
    assert "Neg_1" in page.evaluate("decodeURIComponent(location.hash)")


def test_stages_are_beside_each_other_with_what_each_rule_changed(open_tab: OpenTab) -> None:
    page = open_tab("Stages")
    side = page.get_by_label("Stages and what changed")
    chosen = side.get_by_role("option", selected=True)
    expect(chosen).to_have_text("2. remove_no_op−1")
    expect(side.get_by_role("button")).to_have_text("−1 +0 Identity_3 → nothing")
    expect(page.get_by_label("Before", exact=True)).to_contain_text("1 go")
    assert pressed(page, "n") == "remove_no_op: Identity_3 became nothing"
    chosen.focus()
    page.keyboard.press("ArrowDown")
    expect(chosen).to_be_focused()
    expect(chosen).to_have_text("3. Partitioned")
    expect(side).to_contain_text("No rule changed anything here.")


def test_a_comparison_says_who_runs_what_and_why_not_as_before(open_tab: OpenTab) -> None:
    page = open_tab("Compare")
    expect(page.get_by_role("button", name="Moved (1)")).to_have_attribute("aria-pressed", "true")
    ((name, here, there, operator, why),) = rows(page)
    assert (name, operator) == ("Exp_2", "Exp")
    assert (here, there) == ("SampleExecutionProvider", "CPUExecutionProvider")
    assert why == "SampleExecutionProvider declined: no kernel of Exp"
    page.get_by_role("button", name="With times (2)").click()
    assert [row[:4] for row in rows(page)] == [["Abs_0", "+40 µs", "60 µs", "100 µs"], ["Neg_1", "-5 µs", "30 µs", "25 µs"]]
    expect(page.locator(".totals tr", has_text="Time of all nodes")).to_contain_text("90 µs125 µs+39 %")
