"""Operands against the shapes of a schema: what the text means, what a message says, what is left to a run."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from ort_lite.graph import Node, TensorType, Value
from ort_lite.inference import Info
from ort_lite.inference.schema import Schemas
from ort_lite.inference.schema_text import op_schema
from ort_lite.inference.shape_agreement import check_operands
from ort_lite.shapes import Dim, equal, symbol

N = symbol("n")
M = symbol("m")
Shape = Sequence[Dim] | None


def check(inputs: str, shapes: Sequence[Shape], require: Any = None, contents: Any = None, **attributes: Any) -> None:
    """Check operands a, b, ... of these shapes; the last one has the contents."""
    schema = op_schema(f"Op-1 {inputs} -> y:T", "own")
    values = [Value(name) for name, _ in zip("abcd", shapes, strict=False)]
    node = Node("Op", values, [Value("y")], attributes, domain="own", version=1, name="n")
    infos = [Info(None if shape is None else TensorType("int64", tuple(shape))) for shape in shapes]
    if contents is not None:
        infos[-1] = infos[-1].replace(contents=tuple(contents))
    check_operands(node, Schemas([schema]).templates(node), infos, ValueError, require)


FITS: list[tuple[str, list[Shape], dict[str, Any]]] = [
    ("x:T[N,C,...] w:T[C]", [(2, 3, 5, 7), (3,)], {}),
    ("x:T[N,C,...] w:T[C]", [(2, N), (3,)], {}),
    ("x:T[N,C] w:T[C]", [None, (3,)], {}),
    ("x:T[group:1*C] w:T[C]", [(6,), (3,)], {"group": 2}),
    ("x:T[group:1*C] w:T[C]", [(3,), (3,)], {}),
    ("x:T[K/size] w:T[K*bits/8]", [(3,), (4,)], {"K": 9, "size": 4, "bits": 3}),
    ("x:T[P] w:T[P:0+S] v:T[S]", [(3,), (5,), (2,)], {}),
    ("x:T[P] w:T[P:0+S] v:T[S]", [(N,), (5,), (2,)], {}),
    ("x:T[P] w:T[P:0+S] v:T[S]", [None, (5,), (2,)], {}),
    ("x:T[M,K]transA=1[K,M] w:T[K]", [(2, 3), (3,)], {}),
    ("x:T[M,K]transA=1[K,M] w:T[K]", [(2, 3), (2,)], {"transA": 1}),
    ("x:T[D...] w:T[~D...]", [(2, 3, 5), (3, 1)], {}),
    ("x:T[M,K] w:T[~M,K]", [(2, 3), (3,)], {}),
    ("x:T[...,S@axis:-1] w:T[S]", [(2, 3), (3,)], {}),
    ("x:T[...,S@axis:-1] w:T[S]", [(2, 3), (2,)], {"axis": 0}),
    ("x:T[...,@+axis]", [(2, 3)], {"axis": 2}),
    ("x:T[...] w:T[rank]", [(2, 3), (2,)], {}),
    ("x:T[#] w:T[#]", [(), (1,)], {}),
    ("x:T[#...] w:T[#...]", [(), (1, 1, 1)], {}),
    ("x:T[1|2,B] w:T[1|B]", [(2, 7), (7,)], {}),
    ("x:T[B,H*E,H=heads] w:T[E]", [(1, 6), (3,)], {"heads": 2}),
    ("x:T[directions]", [(2,)], {"direction": "bidirectional"}),
    ("x:T*1[N]", [(2,), (2,), (2,)], {}),
]


@pytest.mark.parametrize(("inputs", "shapes", "attributes"), FITS, ids=str)
def test_what_fits(inputs: str, shapes: list[Shape], attributes: dict[str, Any]) -> None:
    check(inputs, shapes, **attributes)


MISFITS: list[tuple[str, list[Shape], dict[str, Any], str]] = [
    (
        "x:T[N,C,...] w:T[C]", [(2, 3, 5), (4,)], {},
        "dimension 0 of input 1 (w, 'b') is 4, but C is 3, dimension 1 of input 0 (x, 'a')",
    ),
    ("x:T[N,C,...]", [(2,)], {}, "input 0 (x, 'a') has rank 1; it should have 2 or more, [N,C,...]"),
    ("x:T[N,4]", [(2, 5)], {}, "dimension 1 of input 0 (x, 'a') is 5, it should be 4"),
    ("x:T[2*size]", [(5,)], {"size": 3}, "is 5, but 2*size is 6 by the attribute"),
    ("x:T[M%group]", [(5,)], {"group": 2}, "is 5, no multiple of group, which is 2 by the attribute"),
    ("x:T[group:1*C] w:T[M]", [(5,), (1,)], {"group": 2}, "is 5, no multiple of group, which is 2"),
    ("x:T[D...] w:T[D...]", [(2, 3), (2, 4)], {}, "dimension 1 of input 1 (w, 'b') is 4, but it is 3 in input 0 (x, 'a')"),
    ("x:T[D...] w:T[D...]", [(2, 3), (2,)], {}, "input 1 (w, 'b') has shape [2]; it should have [2, 3] as input 0 (x, 'a') has"),
    ("x:T[D...] w:T[~D...]", [(2, 3), (2,)], {}, "dimension 0 of input 1 (w, 'b') is 2; it should broadcast to 3 of input 0 (x, 'a')"),
    ("x:T[D...] w:T[~D...]", [(3,), (1, 3)], {}, "has shape [1, 3], rank 2; it should broadcast to [3] of input 0 (x, 'a')"),
    ("x:T[...,@axis]", [(2, 3)], {"axis": 2}, "axis 2 is out of range [-2, 2)"),
    ("x:T[...,@axes]", [(2, 3)], {"axes": [0, -3]}, "axis -3 is out of range [-2, 2)"),
    ("x:T[#]", [(2,)], {}, "input 0 (x, 'a') has 2 elements; it should be one element"),
    ("x:T[#...]", [(1, 3)], {}, "input 0 (x, 'a') has 3 elements; it should be one element"),
    ("x:T[1|2]", [(3,)], {}, "is 3; it should be 1 or 2"),
    ("x:T*1[N]", [(2,), (2,), (3,)], {}, "dimension 0 of input 2 (x, 'c') is 3, but N is 2"),
]  # fmt: skip


@pytest.mark.parametrize(("inputs", "shapes", "attributes", "message"), MISFITS, ids=str)
def test_what_does_not_fit(inputs: str, shapes: list[Shape], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        check(inputs, shapes, **attributes)


@pytest.mark.parametrize(("elements", "fits"), [((0, 2), True), ((-3,), True), ((3,), False), ((-4,), False)])
def test_limits_of_elements(elements: tuple[int, ...], fits: bool) -> None:
    inputs, shapes = "x:T[S] i:T[...]=-S..S-1", [(3,), (len(elements),)]
    if fits:
        check(inputs, shapes, contents=elements)
        return
    with pytest.raises(ValueError, match=rf"input 1 \(i, 'b'\) has the element {elements[0]}; it should be from -3 to 2"):
        check(inputs, shapes, contents=elements)


def test_a_run_is_asked_for_what_is_open_alone() -> None:
    required: list[tuple[Any, ...]] = []

    def require(*given: Any) -> None:
        required.append(given)

    check("x:T[N,C] w:T[C] v:T[N]", [(N, 3), (3,), (N,)], require)
    assert required == []
    check("x:T[N,C] w:T[C] v:T[N]", [(N, M), (3,), (2,)], require)
    assert [condition for condition, *_ in required] == [equal(3, M), equal(2, N)]
    message, *numbers = required[0][1:]
    assert message.format(*numbers) == "dimension 0 of input 1 (w, 'b') is 3, but C is m, dimension 1 of input 0 (x, 'a')"


def test_names_with_braces_are_shown_as_they_are() -> None:
    node = Node("Op", [Value("{a}")], [Value("y")], domain="own", version=1)
    templates = Schemas([op_schema("Op-1 x:T[4] -> y:T", "own")]).templates(node)
    with pytest.raises(ValueError, match=r"input 0 \(x, '\{a\}'\) is 5, it should be 4"):
        check_operands(node, templates, [Info(TensorType("int64", (5,)))], ValueError)
