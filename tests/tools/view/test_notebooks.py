"""What objects show of themselves in a notebook: static, small, and harmless whatever names a model has."""

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_lite
from ort_lite.memory.planning.lifetimes import TensorLifetime
from ort_lite.memory.planning.plan import ArenaUsage, MemoryPlan, TensorAllocation
from ort_lite.tools.view.node_times import NodeTime, Profile
from ort_lite.tools.view.tables import MOST_BYTES, collapsible_list, collapsible_table, table
from tests.provider.numpy_provider import OtherDevice

VOID = {"rect", "line"}
"""Elements of SVG that may be closed at once."""


class Seen(HTMLParser):
    """The elements, their texts, and those that are left open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID, tag
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown(thing: Any) -> Seen:
    html = thing if isinstance(thing, str) else thing._repr_html_()
    assert len(html.encode()) < 50_000
    found = Seen(html)
    assert found.open == []
    assert not {"script", "iframe", "img", "style", "link", "a", "foreignobject"} & set(found.tags)
    assert not [name for name, value in found.attributes if name.startswith("on") or "url(" in (value or "") or name == "href"]
    return found


def chain(length: int, name: str = "{}") -> onnx.ModelProto:
    """Abs of Neg of Abs and so on; names are made by `name`."""
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> m (float[N] x) => (float[N] y) { y = Abs(x) }')
    del model.graph.node[:]
    values = ["x", *(name.format(f"v{k}") for k in range(length - 1)), "y"]
    for k in range(length):
        operator = ("Abs", "Neg")[k % 2]
        model.graph.node.append(onnx.helper.make_node(operator, [values[k]], [values[k + 1]], name.format(f"n{k}")))
    return model


def things(model: onnx.ModelProto) -> Iterator[Any]:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.creation_trace", "1")
    providers: list[Any] = [OtherDevice(lambda node: node.op_type == "Neg"), "CPUExecutionProvider"]
    session = ort_lite.InferenceSession(model, options, providers=providers)
    session.run(None, {"x": np.ones(3, np.float32)})
    yield session
    yield session.explain()
    yield session.explain().assignment
    yield session.creation_trace
    yield from session.memory_plans().values()


def test_everything_is_static_and_well_formed() -> None:
    session, explanation, *_ = [shown(thing) for thing in things(chain(4))]
    assert {"svg", "table"} <= set(session.tags)
    assert " BoxExecutionProvider: 2 nodes, " in session.texts
    assert {"x", "y", "tensor(float)", "['N']"} <= set(session.texts)
    assert "4 nodes: BoxExecutionProvider 2, CPUExecutionProvider 2" in explanation.texts
    assert {"n0", "n3", "Neg", "BoxExecutionProvider_0"} <= set(explanation.texts)


def test_names_of_a_stranger_are_text() -> None:
    name = "</td></svg><script>alert('{}')</script><img src=x onerror=\"alert(1)\">&amp;"
    texts = [text for thing in things(chain(3, name)) for text in shown(thing).texts]
    assert name.format("n1") in texts


def test_large_models_are_shown_in_part() -> None:
    for thing in things(chain(600, "a_rather_long_name_as_exporters_make_them/{}")):
        shown(thing)


def plan(count: int, memory: str = "cpu") -> MemoryPlan:
    made = MemoryPlan(arena_usages={memory: ArenaUsage(memory, 10 * count, 10 * count)}, planner="best")
    for k in range(count):
        name = f"<tensor {k}>"
        made.tensor_allocs[name] = TensorAllocation(name, memory, 10 * k, 10)
        made.tensor_lifetimes[name] = TensorLifetime(name, k, k + 1)
    return made


def test_a_plan_is_rectangles_with_time_across_and_bytes_up() -> None:
    seen = shown(plan(2))
    boxes = [value for name, value in seen.attributes if name in ("x", "y", "width", "height")]
    first = ["0.0", "132.0", "480.0", "110.0"]
    assert [boxes[k : k + 4] for k in range(len(boxes)) if boxes[k : k + 4] == first] == [first], (
        "the lower half, two of three steps"
    )
    assert "<tensor 1>: 10 bytes at 10, operators 1 to 2" in seen.texts
    assert "lower bound 20 bytes" in seen.texts


def test_of_a_large_plan_the_largest_tensors_are_drawn() -> None:
    seen = shown(plan(1000))
    assert seen.tags.count("rect") == 250
    assert "The 750 smallest of 1000 tensors are not drawn." in seen.texts


def test_of_many_arenas_three_are_drawn() -> None:
    made = MemoryPlan()
    for k in range(5):
        other = plan(k + 1, f"cpu:{k}")
        made.arena_usages.update(other.arena_usages)
        made.tensor_allocs.update({f"{k} {name}": slot for name, slot in other.tensor_allocs.items()})
        made.tensor_lifetimes.update({f"{k} {name}": life for name, life in other.tensor_lifetimes.items()})
    seen = shown(made)
    assert (seen.tags.count("svg"), seen.tags.count("rect")) == (3, 3 + 4 + 5)
    assert "2 smaller arenas are not drawn." in seen.texts


def test_a_plan_before_a_run_says_so() -> None:
    assert "Nothing is planned yet: a run plans its memory." in shown(MemoryPlan()).texts


def test_a_profile_is_a_table() -> None:
    line = NodeTime("conv<1>", "Conv", "float32[1]", 2e-6, 0.5, 4.0, None)
    told = line.replace(name="conv<2>", kernel="winograd-4", runner_up="conv_pixels", predicted=1.5e-6)
    seen = shown(Profile((line, told), 4e-6, 3))
    assert {"conv<1>", "Conv", "2.0", "50.0%", "4.0 us a run, 3 runs"} <= set(seen.texts)
    assert {"winograd-4", "conv_pixels", "1.5"} <= set(seen.texts)


@pytest.mark.parametrize(("width", "rows"), [(2, 200), (1000, 0)])
def test_tables_stop_at_so_many_rows_or_bytes(width: int, rows: int) -> None:
    html = table(("name",), [("&" * width,)] * 1000)
    seen = shown(html)
    count = seen.tags.count("td")
    assert f"and {1000 - count} more rows" in seen.texts
    assert count == rows or MOST_BYTES < len(html) < MOST_BYTES + 2000


def test_lines_are_folded_where_they_are_many() -> None:
    assert shown(collapsible_list("notes", ["a", "b"])).tags == ["div", "div"]
    assert shown(collapsible_list("notes", ["a"] * 100)).texts[:2] == ["100 notes", "a"]
    assert "and 40 more" in shown(collapsible_list("notes", ["a"] * 100)).texts
    assert shown(collapsible_table("all", ("n",), [("1",)], ("n",))).attributes == [("style", "text-align:right")] * 2
