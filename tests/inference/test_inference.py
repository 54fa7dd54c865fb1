"""The driver of shape inference: what is open, bodies, errors."""

from collections.abc import Callable

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import ShapeInferenceError
from ort_lite.graph import Graph, Node, TensorType, Value
from ort_lite.inference import (
    UNKNOWN,
    ContentsUnknown,
    Inference,
    Info,
    NumbersUnknown,
    Op,
    RankUnknown,
    ShapeRules,
    constant_info,
    shape_rule,
)
from ort_lite.shapes import Dim, symbol

A, B, C = symbol("A"), symbol("B"), symbol("C")


def tensor(*dims: Dim, dtype: str = "float32") -> Info:
    return Info(TensorType(dtype, dims))


def rules(**functions: Callable[[Op], list[Info]]) -> ShapeRules:
    return ShapeRules(rule for name, function in functions.items() for rule in shape_rule(name)(function))


def needs_rank(op: Op) -> list[Info]:
    return [op.tensor("int64", (op.rank(0),))]


def node(op_type: str, *inputs: Value, **attributes: object) -> Node:
    return Node(op_type, inputs, [Value("y")], attributes, version=20, name="n")


def infer(known: ShapeRules, of: Node, *infos: Info, strict: bool = False) -> Info:
    given = {value: info for value, info in zip(of.inputs, infos, strict=True) if value is not None}
    return Inference(known, given, strict=strict).node(of)[0]


class TestRules:
    def test_the_newest_rule_not_newer_than_the_node_applies(self) -> None:
        made = [*shape_rule("F", since=1)(lambda op: [tensor(1)]), *shape_rule("F", since=20)(lambda op: [tensor(20)])]
        known = ShapeRules(made + shape_rule("F", since=21)(lambda op: [tensor(21)]))
        assert infer(known, node("F")) == tensor(20)

    def test_a_node_without_a_rule_has_its_declared_type_with_fresh_dims(self) -> None:
        y = Value("y", TensorType("float32", (3, A)))
        strange = Node("Strange", [], [y])
        (info,) = Inference(ShapeRules(())).node(strange)
        assert str(info.type) == "float32[y#1, y#2]"

    def test_an_open_rank_leaves_the_type(self) -> None:
        known = ShapeRules(shape_rule("F", types=("int64",))(needs_rank))
        open_ = Info(TensorType("float32"))
        assert infer(known, node("F", Value("x")), open_) == Info(TensorType("int64"))
        with pytest.raises(RankUnknown):
            infer(known, node("F", Value("x")), open_, strict=True)

    def test_the_type_of_an_output_may_be_that_of_an_input_or_computed(self) -> None:
        def asks(op: Op) -> list[Info]:
            raise ContentsUnknown(0)

        x, open_ = Value("x"), Info(TensorType("float16"))
        assert infer(ShapeRules(shape_rule("F")(asks)), node("F", x), open_) == open_
        computed = shape_rule("F", types=(lambda op: op.attr("to"),))(asks)
        assert infer(ShapeRules(computed), node("F", x, to="bool"), open_) == Info(TensorType("bool"))
        assert infer(ShapeRules(shape_rule("F", types=())(asks)), node("F", x), open_) == UNKNOWN
        assert infer(ShapeRules(shape_rule("F")(asks)), node("F", x), UNKNOWN) == UNKNOWN

    def test_numbers_are_contents_of_a_kind(self) -> None:
        assert issubclass(NumbersUnknown, ContentsUnknown)

    def test_an_error_names_the_node_and_its_inputs(self) -> None:
        def fails(op: Op) -> list[Info]:
            raise KeyError("axis")

        with pytest.raises(ShapeInferenceError, match=r"F 'n': 'axis'; inputs are float32\[3\] \(KeyError\)"):
            infer(rules(F=fails), node("F", Value("x")), tensor(3))

    def test_an_axis_is_counted_from_the_front(self) -> None:
        seen: list[int] = []

        def takes(op: Op) -> list[Info]:
            seen.append(op.axis(op.attr("axis"), 3))
            return [UNKNOWN]

        infer(rules(F=takes), node("F", axis=-1))
        assert seen == [2]
        with pytest.raises(ShapeInferenceError, match=r"axis 3 is out of range \[-3, 3\)"):
            infer(rules(F=takes), node("F", axis=3))

    def test_an_input_that_is_left_out_is_named(self) -> None:
        def reads(op: Op) -> list[Info]:
            return [op.info(1)]

        with pytest.raises(ShapeInferenceError, match="input 1 is missing"):
            infer(rules(F=reads), node("F", Value("x")), tensor(3))


class TestContents:
    @pytest.mark.parametrize(
        ("shape", "contents", "kept"),
        [((2,), (1, A), True), ((), (A,), True), ((2, 1), (1, 2), True), ((3,), (1, 2), False), ((A,), (1,), False)],
        ids=str,
    )
    def test_contents_must_fill_the_shape(self, shape: tuple[Dim, ...], contents: tuple[Dim, ...], kept: bool) -> None:
        info = infer(rules(F=lambda op: [op.tensor("int64", shape, contents)]), node("F"))
        assert info.contents == (contents if kept else None)

    def test_contents_are_small_integers(self) -> None:
        assert infer(rules(F=lambda op: [op.tensor("float32", (1,), (1,))]), node("F")).contents is None
        assert infer(rules(F=lambda op: [op.tensor("int64", (65,), range(65))]), node("F")).contents is None

    @pytest.mark.parametrize(
        ("array", "contents"),
        [
            (np.array([3, 4]), (3, 4)),
            (np.array(True), (1,)),
            (np.array([[1], [2]], np.int32), (1, 2)),
            (np.array([0.5]), None),
            (np.zeros(65, np.int64), None),
            (np.zeros(3, np.uint64), None),
        ],
        ids=str,
    )
    def test_constants_have_contents(self, array: Array, contents: tuple[int, ...] | None) -> None:
        info = constant_info(array)
        assert info.contents == contents
        assert info.constant is array


class TestSymbols:
    def test_two_inferences_over_one_model_make_different_symbols_for_different_nodes(self) -> None:
        known = rules(F=lambda op: [op.tensor("float32", (op.fresh(),))])
        one, other = Node("F", [], [Value("one")]), Node("F", [], [Value("other")])
        assert Inference(known).node(one) != Inference(known).node(other)

    def test_what_a_body_makes_is_inner_to_it(self) -> None:
        seen: list[bool] = []

        def outer(op: Op) -> list[Info]:
            before = op.fresh()
            scope = op.scope()
            (info,) = op.body(op.attr("body"), [])
            assert info.shape is not None
            seen.extend(op.is_inner(dim, scope) for dim in (before, info.shape[0], info.shape[0] * 2 + before, A))
            return [UNKNOWN]

        body = Graph("body")
        inner = body.append(Node("F", [], [Value("z")]))
        body.set_outputs([inner.output])
        infer(rules(F=lambda op: [op.tensor("float32", (op.fresh(),))], Outer=outer), node("Outer", body=body))
        assert seen == [False, True, True, False]

    def test_a_body_is_open_where_a_strict_inference_would_end(self) -> None:
        body = Graph("body", [x := Value("x", TensorType("float32"))])
        inner = body.append(Node("F", [x], [Value("z")], version=20))
        body.set_outputs([inner.output])
        known = rules(F=needs_rank, Outer=lambda op: op.body(op.attr("body"), [Info(TensorType("float32"))]))
        assert infer(known, node("Outer", body=body), strict=True) == Info(TensorType("float32"))
