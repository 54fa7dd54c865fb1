"""The desk in a browser: what is changed in its panel is what the page shows next."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from ort_lite.tools.cli.desk_command import desk_page
from ort_lite.tools.playground.server import DeskServer
from tests.browser.pages import HOSTILE, hostile
from tests.browser.test_page import IN_THEMES, grave
from tests.tools.playground.served import ENDLESS, served, write


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskServer]:
    folder = tmp_path_factory.mktemp("models")
    write(folder / "chain.onnx")
    write(folder / "endless.onnx", ENDLESS)
    (folder / "<b onclick=alert(1)>.onnx").write_bytes(hostile())
    with served(folder, page=desk_page()) as made:
        yield made


@pytest.fixture
def desk(server: DeskServer, new_page: Callable[[], Page]) -> Page:
    """Once it shows its first model, chain.onnx."""
    page = new_page()
    page.goto(server.address)
    page.get_by_label("Model", exact=True).select_option("chain.onnx")
    shown(page, "chain.onnx")
    return page


def shown(page: Page, title: str) -> None:
    expect(page.locator("#title")).to_have_text(title)
    expect(page.locator("#desk-said")).to_contain_text("Done in")


def provider(page: Page, name: str) -> Locator:
    return page.locator(f'li[data-name="{name}ExecutionProvider"]')


def order(page: Page) -> list[str]:
    return [row.get_attribute("data-name") or "" for row in page.locator(".desk-providers li").all()]


def shares(page: Page) -> Locator:
    return page.locator("table").filter(has_text="Who runs what").locator("tbody")


def output(page: Page) -> Locator:
    return page.locator("table.output")


def test_another_provider_changes_the_partition(desk: Page, picture: Callable[[Page, str], None]) -> None:
    expect(shares(desk)).to_have_text("CPU31")
    provider(desk, "Sample").get_by_role("checkbox").check()
    expect(desk.locator("#desk-said")).to_contain_text("Done in")
    expect(shares(desk)).to_have_text("CPU31")  # the CPU provider is asked first
    for _ in range(order(desk).index("SampleExecutionProvider")):
        provider(desk, "Sample").get_by_role("button", name="earlier").click()
    expect(shares(desk)).to_have_text("Sample31")
    expect(desk.locator(".desk-results li")).to_have_text(["3 nodes: CPU → Sample"])
    picture(desk, "desk-partition")


def test_the_order_is_changed_by_keyboard(desk: Page) -> None:
    box = provider(desk, "Sample").get_by_role("checkbox")
    box.press("Space")
    for _ in order(desk):
        box.press("Alt+ArrowUp")
    assert order(desk)[0] == "SampleExecutionProvider"
    expect(box).to_be_focused()
    expect(shares(desk)).to_have_text("Sample31")
    box.press("Alt+ArrowDown")
    assert order(desk)[1] == "SampleExecutionProvider"


def test_the_order_is_changed_by_dragging(desk: Page) -> None:
    provider(desk, "Sample").get_by_role("checkbox").check()
    provider(desk, "Sample").drag_to(provider(desk, "CPU"), target_position={"x": 5, "y": 2})
    rows = order(desk)
    assert rows.index("SampleExecutionProvider") < rows.index("CPUExecutionProvider")
    expect(shares(desk)).to_have_text("Sample31")


def test_a_run_shows_its_outputs(desk: Page) -> None:
    desk.get_by_text("Inputs", exact=True).click()
    desk.get_by_label("x: shape").fill("3")
    desk.get_by_label("x: value").fill("0")
    desk.get_by_role("button", name="Run").click()
    expect(output(desk).get_by_role("row", name="shape")).to_contain_text("[3]")
    expect(output(desk).get_by_role("row", name="mean")).to_contain_text("1")


def test_what_is_wrong_is_said_and_the_page_stays(desk: Page) -> None:
    desk.get_by_text("Inputs", exact=True).click()
    desk.get_by_label("x: shape").fill("many")
    desk.get_by_role("button", name="Run").click()
    expect(desk.locator("#desk-said")).to_contain_text("InvalidArgument: --shape x=many")
    expect(desk.locator("#title")).to_have_text("chain.onnx")


def run_without_end(desk: Page) -> None:
    desk.get_by_label("Model", exact=True).select_option("endless.onnx")
    shown(desk, "endless.onnx")
    desk.get_by_role("button", name="Run").click()
    expect(desk.locator("#desk-said")).to_contain_text("Running on")


def test_a_run_without_end_can_be_ended(desk: Page) -> None:
    run_without_end(desk)
    desk.get_by_role("button", name="End it").click()
    expect(desk.locator("#desk-said")).to_have_text("Ended, as it was asked for.")


def test_another_choice_ends_a_run(desk: Page) -> None:
    run_without_end(desk)
    desk.get_by_label("Model", exact=True).select_option("chain.onnx")
    shown(desk, "chain.onnx")


def test_names_are_text(desk: Page) -> None:
    """Those of a file, and those in it."""
    name = "<b onclick=alert(1)>.onnx"
    desk.get_by_label("Model", exact=True).select_option(name)
    shown(desk, name)
    desk.get_by_text("Inputs", exact=True).click()
    desk.get_by_role("button", name="Run").click()
    expect(output(desk)).to_contain_text(HOSTILE)
    expect(desk.locator("img, b[onclick]")).to_have_count(0)


def test_the_panel_folds(desk: Page) -> None:
    button = desk.get_by_role("button", name="Desk", exact=True)
    expect(button).to_have_attribute("aria-expanded", "true")
    button.press("Enter")
    expect(desk.get_by_role("complementary", name="Desk")).to_be_hidden()
    expect(button).to_have_attribute("aria-expanded", "false")


@pytest.mark.parametrize("context", [{"viewport": {"width": 900, "height": 700}}], indirect=True)
def test_where_there_is_little_room_the_panel_is_folded_at_first(server: DeskServer, new_page: Callable[[], Page]) -> None:
    page = new_page()
    page.goto(server.address)
    expect(page.get_by_role("button", name="Desk", exact=True)).to_have_attribute("aria-expanded", "false")
    page.get_by_role("button", name="Desk", exact=True).click()
    expect(page.get_by_label("Model", exact=True)).to_be_visible()


@IN_THEMES
def test_the_desk_keeps_nobody_out(desk: Page) -> None:
    for summary in desk.locator("#desk summary").all():
        summary.click()
    assert grave(desk) == []


def test_a_desk_that_does_not_answer_is_told(desk: Page, complaints: list[str]) -> None:
    desk.context.set_offline(True)
    desk.get_by_role("button", name="Run").click()
    expect(desk.locator("#desk-said")).to_contain_text("start ort-lite desk again")
    assert all("net::ERR" in said for said in complaints)
    complaints.clear()


def test_its_page_asks_this_machine_alone(server: DeskServer, new_page: Callable[[], Page]) -> None:
    page, asked = new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(server.address)
    expect(page.locator("#desk-said")).to_contain_text("Done in")
    assert [url for url in asked if not url.startswith((server.address, "blob:"))] == []
