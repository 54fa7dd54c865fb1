"""No kernel is lowered that would touch more than its operands have, or read them as what they are not."""

import ast
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.graph import Node
from ort_lite.native.extents import contract, extents
from ort_lite.native.lang import OK
from ort_lite.native.marks import Ptr, Static, native
from ort_lite.native.spec import parameters
from ort_lite.shapes import Dim, symbol
from ort_lite_cpu.kernels.once import run_once
from ort_lite_cpu.lowering.builder import Builder
from ort_lite_cpu.lowering.lowered import Instruction, Requirement
from ort_lite_cpu.lowering.tensor import Buffer, Tensor, bits, pairs, reread

ROOT = Path(__file__).parents[2] / "providers" / "ort_lite_cpu"
NODE = Node("Test", (), (), name="node")


@native
@extents(x="n", y="n * m")
def spread(x: Ptr, y: Ptr, n: int, m: int, factor: float, part: int, parts: int) -> int:
    """A kernel that is never compiled."""
    return OK


def tensor(dtype: str, *shape: Dim) -> Tensor:
    made = Tensor(dtype, shape, name="{braces}")
    made.buffer = Buffer(made.nbytes)
    return made


def emitted(operands: Sequence[Tensor | None], *scalars: Dim | float, types: Sequence[str] | None = None) -> Builder:
    builder = Builder(parts=1)
    builder.emit(NODE, spread, operands, scalars, types=types)
    return builder


def test_a_call_that_fits_is_an_instruction() -> None:
    n = symbol("n")
    for builder in (
        emitted([tensor("float32", 3), tensor("int8", 3, 4)], 3, 4, 0.5),
        emitted([tensor("float32", n), tensor("float32", 4, n)], n, 4, 0.5),
        emitted([None, tensor("float32", 4, n)], n, 4, 0.5),
    ):
        assert [type(item) for item in builder.result.items] == [Instruction]


def test_a_call_that_does_not_fit_is_the_authors_mistake() -> None:
    x, y = tensor("float32", 3), tensor("float32", 3, 4)
    with pytest.raises(TypeError, match=r"spread: 2 scalars came, 3 are expected: n, m, factor"):
        emitted([x, y], 3, 4)
    with pytest.raises(TypeError, match=r"'factor' is 1 .int., expected a float"):
        emitted([x, y], 3, 4, 1)
    with pytest.raises(TypeError, match=r"Test 'node'.*: 1 operands came for kernel .*spread.*, it has x, y"):
        emitted([x], 3, 4, 0.5)


@native
@extents(x="n", y="n * lanes")
def scale(x: Ptr, y: Ptr, n: int, factor: float, lanes: Static, part: int, parts: int) -> int:
    """A kernel with a Static that is never compiled."""
    return OK


def called(**named: Any) -> Instruction:
    x, y = tensor("float32", 3), tensor("float32", 3, 4)
    builder = Builder(parts=1)
    builder.emit(NODE, scale, [x, y], named=named)
    [made] = builder.result.items
    assert isinstance(made, Instruction)
    return made


def test_a_call_by_name_is_one_by_position() -> None:
    made = called(lanes=4, factor=0.5, n=3)
    assert made.scalars == (3, 0.5)
    assert dict(made.spec.statics) == {"lanes": 4}


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"n": 3, "factor": 0.5}, r"scale: 'lanes' missing; it takes n, factor, lanes"),
        ({"n": 3, "lanes": 4}, r"scale: 'factor' missing; it takes n, factor, lanes"),
        ({"n": 3, "factor": 0.5, "lanes": 4, "m": 4}, r"scale: 'm' unknown; it takes n, factor, lanes"),
        ({"n": 3, "factors": 0.5, "lanes": 4}, r"scale: 'factor' missing; 'factors' unknown; it takes n, factor, lanes"),
        ({"n": 3, "factor": 1, "lanes": 4}, r"scale: 'factor' is 1 .int., expected a float"),
        ({"n": 3.0, "factor": 0.5, "lanes": 4}, r"scale: 'n' is 3.0 .float., expected an integer"),
    ],
    ids=[
        "a missing static",
        "a missing scalar",
        "an unknown one",
        "a misspelt one",
        "an int for a float",
        "a float for an int",
    ],
)
def test_a_call_by_name_that_does_not_fit_names_kernel_and_parameter(named: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        called(**named)


def test_a_call_is_by_position_or_by_name() -> None:
    x, y = tensor("float32", 3), tensor("float32", 3, 4)
    with pytest.raises(TypeError, match=r"Test 'node'.* is called by position and by name .n."):
        Builder(parts=1).emit(NODE, spread, [x, y], (4, 0.5), named={"n": 3})


def test_an_operand_is_read_as_what_it_is() -> None:
    x, y = tensor("float32", 3), tensor("float32", 3, 4)
    with pytest.raises(TypeError, match=r"operand 'x' of kernel .* is f32 .float32., not u32"):
        emitted([x, y], 3, 4, 0.5, types=["u32", "f32"])
    emitted([bits(x), bits(y)], 3, 4, 0.5, types=["u32", "u32"])


@pytest.mark.parametrize(("n", "m"), [(4, 3), (3, 5), (2**62, 2)])
def test_known_sizes_are_refused_at_once(n: int, m: int) -> None:
    with pytest.raises(
        InvalidArgument, match=r"Test 'node'.*: kernel spread would touch elements 0 to .* of its operand '.'.*bytes"
    ):
        emitted([tensor("float32", 3), tensor("float32", 3, 4)], n, m, 0.5)


def test_open_sizes_are_a_requirement() -> None:
    n, m = symbol("n"), symbol("m")
    [requirement, instruction] = emitted([tensor("float32", n), tensor("float32", 3, m)], n, m, 0.5).result.items
    assert isinstance(requirement, Requirement)
    assert isinstance(instruction, Instruction)
    assert "{braces}" in requirement.message.format(1, 2, 3), "names of a model are no fields of the message"


def test_other_views_have_as_many_bytes() -> None:
    wide = tensor("complex128", 3)
    assert (bits(wide).dtype, bits(wide).shape) == ("uint64", (3, 2))
    assert (pairs(wide).dtype, pairs(wide).shape) == ("float64", (3, 2))
    with pytest.raises(TypeError, match=r"48 bytes of complex128 .3,.; int8 .47,. would be 47"):
        reread(wide, "int8", (47,))


def test_what_runs_at_once_is_compared_too() -> None:
    x, y = np.ones(3, np.float32), np.ones((3, 4), np.float32)
    with pytest.raises((TypeError, InvalidArgument), match="spread"):
        run_once(spread, [x, y], n=3, m=5, factor=0.5)
    with pytest.raises(TypeError, match=r"spread: 'factor' missing"):
        run_once(spread, [x, y], n=3, m=4)
    with pytest.raises(TypeError, match=r"spread: 'factor' is 1 .int., expected a float"):
        run_once(spread, [x, y], n=3, m=4, factor=1)


def native_functions() -> list[tuple[str, str]]:
    """(module, function) of all kernels: marked @native, with `part` and `parts` last, over memory."""
    found = []
    for file in sorted(ROOT.rglob("*.py")):
        module = ".".join(("ort_lite_cpu", *file.relative_to(ROOT).with_suffix("").parts))
        for item in ast.parse(file.read_text()).body:
            if isinstance(item, ast.FunctionDef) and [a.arg for a in item.args.args[-2:]] == ["part", "parts"]:
                marks = {node.id for mark in item.decorator_list for node in ast.walk(mark) if isinstance(node, ast.Name)}
                pointers = [a for a in item.args.args if isinstance(a.annotation, ast.Name) and a.annotation.id == "Ptr"]
                if "native" in marks and pointers:
                    found.append((module, item.name))
    return found


@pytest.mark.parametrize(("module", "name"), native_functions(), ids=str)
def test_every_kernel_says_what_it_touches(module: str, name: str) -> None:
    function = getattr(import_module(module), name)
    spec = contract(function)
    assert spec.extents is not None
    assert list(spec.pointers) == [name for name, kind in parameters(function) if kind == "pointer"]


def test_no_status_is_lost_between_a_kernel_and_the_loop() -> None:
    """A status ends a run because kernels return it to the loop: none comes from a helper whose caller might leave it there."""
    for file in sorted(ROOT.rglob("*.py")):
        for item in ast.walk(ast.parse(file.read_text())):
            if isinstance(item, ast.FunctionDef) and item.name != "failed":
                calls = {
                    node.func.id for node in ast.walk(item) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                }
                if "failed" in calls:
                    assert [a.arg for a in item.args.args[-2:]] == ["part", "parts"], f"{file.name}: {item.name}"
