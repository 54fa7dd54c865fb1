"""What the kit draws: models that the CPU provider runs, the same each time, with names of their own; and how they are thinned."""

from collections import Counter

import numpy as np
import pytest

from ort_lite.errors import OrtLiteError
from ort_lite.plugins import plugins
from ort_lite.testing import Drawings, Kit, drawing
from ort_lite.testing.cases import node_cases
from ort_lite.testing.drawing import KINDS, sketches
from ort_lite.testing.drawing.patterns import of_patterns
from ort_lite.testing.drawing.schemas import varied
from ort_lite.testing.drawing.sketch import Sketch, graph, numbers, one, runs
from ort_lite.testing.kit import compare
from tests.testing.bad_provider import OPERATORS, BadProvider


def test_each_has_a_name_of_its_own_and_a_check() -> None:
    found = sketches()
    assert [name for name, times in Counter(sketch.name for sketch in found).items() if times > 1] == []
    assert {sketch.kind for sketch in found} == set(KINDS)


def test_they_are_the_same_each_time() -> None:
    first = sketches(["Conv", "Add"])
    drawing._drawn.cache_clear()
    second = sketches(["Conv", "Add"])
    assert not set(first) & set(second), "drawn again"
    assert [sketch.name for sketch in first] == [sketch.name for sketch in second]
    for one_, other in zip(first, second, strict=True):
        assert one_.model.SerializeToString() == other.model.SerializeToString()
        assert [compare([*a.values()], [*b.values()], 0, 0) for a, b in zip(one_.feeds, other.feeds, strict=True)] == [
            None
        ] * len(one_.feeds)


@pytest.mark.slow
def test_the_cpu_provider_runs_each() -> None:
    drawings = Drawings()
    refused = []
    for sketch in drawings.sketches:
        try:
            drawings.wanted(sketch)
        except Exception as error:  # noqa: BLE001  # all of them, by name
            refused.append(f"{sketch.name}: {error}")
    assert refused == []


def test_a_name_says_shapes_attributes_and_constants() -> None:
    sketch = one("Gemm", (3, 5), (4, 5), None, fixed=[1], transB=1)
    assert sketch.name == "Gemm(3x5, const 4x5, -) transB=1"
    assert list(sketch.feeds[0]) == ["a"] and list(sketch.constants) == ["b"]


def test_sizes_that_change_are_open_and_those_that_change_alike_are_one() -> None:
    sketch = runs(one("Relu", (3, 4)), (1, 4), (2, 4))
    dims = sketch.model.graph.input[0].type.tensor_type.shape.dim
    assert (dims[0].dim_param, dims[1].dim_value) == ("n1_2", 4)
    assert sketch.kind == "sizes"


def test_a_graph_is_written_as_text() -> None:
    sketch = graph("two", "p = Relu(x); y = Add(p, z)", {"x": (2,)}, {"z": ()})
    assert sketch.operators == ("Relu", "Add")
    (result,) = Drawings().wanted(sketch)[0]
    np.testing.assert_array_equal(result, np.maximum(sketch.feeds[0]["x"], 0) + sketch.constants["z"])


def test_numbers_are_the_same_for_the_same_shape_and_seed() -> None:
    assert np.array_equal(numbers((3, 4), 1), numbers((3, 4), 1))
    assert not np.array_equal(numbers((3, 4), 1), numbers((3, 4), 2))


def test_of_too_many_each_operator_keeps_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ort_lite.testing.kit.MOST", 40)
    kit = Kit(BadProvider, OPERATORS)
    assert len(kit.drawn) == 40
    assert {operator for sketch in kit.drawn for operator in sketch.operators} == set(OPERATORS)


def test_one_case_alone() -> None:
    name = sketches(["Relu"])[0].name
    kept: tuple[Sketch, ...] = Drawings(["Relu"], name).sketches
    assert [sketch.name for sketch in kept] == [name]


def test_attributes_that_no_family_varies_are_varied_as_the_schema_says() -> None:
    cases = node_cases(frozenset({"EyeLike"}))
    found = {sketch.name for sketch in varied(cases, ())}
    assert {name.partition(" with ")[2] for name in found} >= {"k=1"}
    assert [*varied(cases, {"EyeLike"})] == []


def test_patterns_of_fusions_are_drawn_as_models_that_run() -> None:
    drawn, runs_ = [*of_patterns(plugins.fusions())], Drawings(["Relu"])
    assert len({sketch.name for sketch in drawn}) == len(drawn) >= 50
    refused = 0
    for sketch in drawn:
        try:
            runs_.wanted(sketch)
        except OrtLiteError:
            refused += 1
    assert refused < len(drawn) / 4, "most are drawn well"
