"""The playground in a browser: what is changed in its panel is what the page shows next."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from ort_lite.tools.cli.desk_command import playground_page
from ort_lite.tools.playground.server import PlaygroundServer
from tests.browser.pages import HOSTILE, hostile
from tests.browser.test_page import IN_THEMES, grave
from tests.tools.playground.served import ENDLESS, served, write


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlaygroundServer]:
    folder = tmp_path_factory.mktemp("models")
    write(folder / "chain.onnx")
    write(folder / "endless.onnx", ENDLESS)
    (folder / "<b onclick=alert(1)>.onnx").write_bytes(hostile())
    with served(folder, page=playground_page()) as made:
        yield made


@pytest.fixture
def playground(server: PlaygroundServer, new_page: Callable[[], Page]) -> Page:
    """Once it shows its first model, chain.onnx."""
    page = new_page()
    page.goto(server.address)
    page.get_by_label("Model", exact=True).select_option("chain.onnx")
    shown(page, "chain.onnx")
    return page


def shown(page: Page, title: str) -> None:
    expect(page.locator("#title")).to_have_text(title)
    expect(page.locator("#playground-said")).to_contain_text("Done in")


def provider(page: Page, name: str) -> Locator:
    return page.locator(f'li[data-name="{name}ExecutionProvider"]')


def order(page: Page) -> list[str]:
    return [row.get_attribute("data-name") or "" for row in page.locator(".playground-providers li").all()]


def shares(page: Page) -> Locator:
    return page.locator("table").filter(has_text="Who runs what").locator("tbody")


def output(page: Page) -> Locator:
    return page.locator("table.output")


def test_another_provider_changes_the_partition(playground: Page, picture: Callable[[Page, str], None]) -> None:
    expect(shares(playground)).to_have_text("CPU31")
    provider(playground, "Sample").get_by_role("checkbox").check()
    expect(playground.locator("#playground-said")).to_contain_text("Done in")
    expect(shares(playground)).to_have_text("CPU31")  # the CPU provider is asked first
    for _ in range(order(playground).index("SampleExecutionProvider")):
        provider(playground, "Sample").get_by_role("button", name="earlier").click()
    expect(shares(playground)).to_have_text("Sample31")
    expect(playground.locator(".playground-results li")).to_have_text(["3 nodes: CPU → Sample"])
    picture(playground, "playground-partition")


def test_the_order_is_changed_by_keyboard(playground: Page) -> None:
    box = provider(playground, "Sample").get_by_role("checkbox")
    box.press("Space")
    for _ in order(playground):
        box.press("Alt+ArrowUp")
    assert order(playground)[0] == "SampleExecutionProvider"
    expect(box).to_be_focused()
    expect(shares(playground)).to_have_text("Sample31")
    box.press("Alt+ArrowDown")
    assert order(playground)[1] == "SampleExecutionProvider"


def test_the_order_is_changed_by_dragging(playground: Page) -> None:
    provider(playground, "Sample").get_by_role("checkbox").check()
    provider(playground, "Sample").drag_to(provider(playground, "CPU"), target_position={"x": 5, "y": 2})
    rows = order(playground)
    assert rows.index("SampleExecutionProvider") < rows.index("CPUExecutionProvider")
    expect(shares(playground)).to_have_text("Sample31")


def test_a_run_shows_its_outputs(playground: Page) -> None:
    playground.get_by_text("Inputs", exact=True).click()
    playground.get_by_label("x: shape").fill("3")
    playground.get_by_label("x: value").fill("0")
    playground.get_by_role("button", name="Run").click()
    expect(output(playground).get_by_role("row", name="shape")).to_contain_text("[3]")
    expect(output(playground).get_by_role("row", name="mean")).to_contain_text("1")


def test_what_is_wrong_is_said_and_the_page_stays(playground: Page) -> None:
    playground.get_by_text("Inputs", exact=True).click()
    playground.get_by_label("x: shape").fill("many")
    playground.get_by_role("button", name="Run").click()
    expect(playground.locator("#playground-said")).to_contain_text("InvalidArgument: --shape x=many")
    expect(playground.locator("#title")).to_have_text("chain.onnx")


def run_without_end(playground: Page) -> None:
    playground.get_by_label("Model", exact=True).select_option("endless.onnx")
    shown(playground, "endless.onnx")
    playground.get_by_role("button", name="Run").click()
    expect(playground.locator("#playground-said")).to_contain_text("Running on")


def test_a_run_without_end_can_be_ended(playground: Page) -> None:
    run_without_end(playground)
    playground.get_by_role("button", name="End it").click()
    expect(playground.locator("#playground-said")).to_have_text("Ended, as it was asked for.")


def test_another_choice_ends_a_run(playground: Page) -> None:
    run_without_end(playground)
    playground.get_by_label("Model", exact=True).select_option("chain.onnx")
    shown(playground, "chain.onnx")


def test_names_are_text(playground: Page) -> None:
    """The name of a file and the names inside it."""
    name = "<b onclick=alert(1)>.onnx"
    playground.get_by_label("Model", exact=True).select_option(name)
    shown(playground, name)
    playground.get_by_text("Inputs", exact=True).click()
    playground.get_by_role("button", name="Run").click()
    expect(output(playground)).to_contain_text(HOSTILE)
    expect(playground.locator("img, b[onclick]")).to_have_count(0)


def test_the_panel_folds(playground: Page) -> None:
    button = playground.get_by_role("button", name="Playground", exact=True)
    expect(button).to_have_attribute("aria-expanded", "true")
    button.press("Enter")
    expect(playground.get_by_role("complementary", name="Playground")).to_be_hidden()
    expect(button).to_have_attribute("aria-expanded", "false")


@pytest.mark.parametrize("context", [{"viewport": {"width": 900, "height": 700}}], indirect=True)
def test_where_there_is_little_room_the_panel_is_folded_at_first(
    server: PlaygroundServer, new_page: Callable[[], Page]
) -> None:
    page = new_page()
    page.goto(server.address)
    expect(page.get_by_role("button", name="Playground", exact=True)).to_have_attribute("aria-expanded", "false")
    page.get_by_role("button", name="Playground", exact=True).click()
    expect(page.get_by_label("Model", exact=True)).to_be_visible()


@IN_THEMES
def test_the_playground_keeps_nobody_out(playground: Page) -> None:
    for summary in playground.locator("#playground summary").all():
        summary.click()
    assert grave(playground) == []


def test_a_playground_that_does_not_answer_is_told(playground: Page, complaints: list[str]) -> None:
    playground.context.set_offline(True)
    playground.get_by_role("button", name="Run").click()
    expect(playground.locator("#playground-said")).to_contain_text("start ort-lite desk again")
    assert all("net::ERR" in said for said in complaints)
    complaints.clear()


def test_its_page_asks_this_machine_alone(server: PlaygroundServer, new_page: Callable[[], Page]) -> None:
    page, asked = new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(server.address)
    expect(page.locator("#playground-said")).to_contain_text("Done in")
    assert [url for url in asked if not url.startswith((server.address, "blob:"))] == []
