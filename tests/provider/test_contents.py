"""Sizes and contents that a provider can read while it claims nodes and while it plans a run."""

from typing import Any

import numpy as np
import pytest

from ort_lite.errors import ShapeInferenceError
from ort_lite.graph import Graph, Value
from ort_lite.inference.annotate import annotate
from ort_lite.plugins import plugins
from ort_lite.provider import ExecutionProvider, Partition
from ort_lite.provider.contents import content_of, sizes_of
from tests.provider.texts import graph

HEADS = """(float[B, T, 384] x, int64[2] s) => (float[B, 12, T, 32] y, float[M, N] z, float[P, Q] u)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[2] rest = {12, 32}, int64[2] flat = {-1, 4}> {
    shape = Shape(x)
    b = Gather<axis = 0>(shape, zero)
    t = Gather<axis = 0>(shape, one)
    to = Concat<axis = 0>(b, t, rest)
    r = Reshape(x, to)
    y = Transpose<perm = [0, 2, 1, 3]>(r)
    double = Add(s, s)
    z = Reshape<allowzero = 1>(x, double)
    w = NonZero(x)
    size = Shape(w)
    v = Reshape(w, size)
    u = Cast<to = 1>(v)
}"""


def values(made: Graph) -> dict[str, Value]:
    annotate(made, plugins.shape_rules())
    known = {value.name: value for node in made for value in (*node.inputs, *node.outputs) if value is not None}
    return {**known, **{value.name: value for value in made.inputs}}


def whole(made: Graph) -> Partition:
    nodes = tuple(made)
    return Partition("all", ExecutionProvider(), nodes, tuple(made.inputs), tuple(made.outputs), plugins.shape_rules())


class TestWhileClaiming:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("rest", "[12 32]"),
            ("shape", "[B T 384]"),
            ("b", "[B]"),
            ("to", "[B T 12 32]"),
            ("s", "None"),
            ("double", "None"),
            ("x", "None"),
            ("w", "None"),
        ],
    )
    def test_contents_follow_from_constants_and_shapes(self, name: str, content: str) -> None:
        assert str(content_of(values(graph(HEADS))[name], plugins.shape_rules())) == content

    def test_numbers_have_the_type_of_the_value(self) -> None:
        made = values(graph(HEADS.replace("[B, T, 384] x", "[2, 7, 384] x").replace("B, 12, T", "2, 12, 7")))
        found = content_of(made["to"], plugins.shape_rules())
        assert found is not None and (found.dtype.name, found.tolist()) == ("int64", [2, 7, 12, 32])

    def test_a_body_reads_contents_of_the_graph_around_it(self) -> None:
        text = """(bool f, float[N] x) => (float[M] y) { s = Shape(x)  y = If (f) <
            then_branch = a () => (float[K] p) { t = Add(s, s)  p = Expand(x, t) },
            else_branch = b () => (float[L] q) { q = Abs(x) }> }"""
        made = graph(text)
        annotate(made, plugins.shape_rules())
        value = next(node for node in made.all_nodes() if node.op_type == "Add").output
        assert str(content_of(value, plugins.shape_rules())) == "[2*N]"


class TestWhilePlanning:
    @pytest.mark.parametrize(("b", "t"), [(1, 7), (2, 1), (3, 0)])
    def test_shapes_and_contents_of_a_run(self, b: int, t: int) -> None:
        made = graph(HEADS)
        known = values(made)
        to = np.array([b * t * 96, 1])
        sizes = sizes_of(whole(made), [(b, t, 384), (2,)], {known["s"]: to})
        assert sizes.shape(known["y"]) == (b, 12, t, 32)
        assert sizes.shape(known["z"]) == tuple(2 * to)
        content = sizes.content(known["to"])
        assert content is not None and (content.dtype.name, content.tolist()) == ("int64", [b, t, 12, 32])
        assert [sizes.content(known[name]) is None for name in ("double", "w", "size")] == [False, True, True]
        assert sizes.shape(known["w"]) is None

    def test_without_the_content_of_an_input(self) -> None:
        made = graph(HEADS)
        known = values(made)
        sizes = sizes_of(whole(made), [(1, 7, 384), (2,)])
        assert (sizes.content(known["double"]), sizes.shape(known["z"])) == (None, None)

    def test_sizes_of_an_operator_without_a_rule_follow_from_the_graph(self) -> None:
        made = graph("(float[N, 2] x) => (float[N, 2] y) { a = Abs(x)  y = Neg(a) }")
        known = values(made)
        for node in made:
            node.domain = "own"
        assert sizes_of(whole(made), [(5, 2)]).shape(known["a"]) == (5, 2)

    def test_shapes_that_do_not_fit_are_an_error(self) -> None:
        made = graph("(float[N] x, float[M] w) => (float[K] y) { y = Add(x, w) }")
        values(made)
        with pytest.raises(ShapeInferenceError, match="Add"):
            sizes_of(whole(made), [(2,), (3,)])

    def test_values_that_are_no_tensors(self) -> None:
        made = graph("(seq(float[N]) x, int64 k) => (float[N] y) { y = SequenceAt(x, k) }")
        known: Any = values(made)
        assert sizes_of(whole(made), [None, ()]).shape(known["k"]) == ()
