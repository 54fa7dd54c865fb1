"""No kernel is lowered that would touch more than its operands have, or read them as what they are not."""

import ast
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.graph import Node
from ort_lite.native.cpu import host
from ort_lite.native.extents import contract, extents
from ort_lite.native.lang import OK, Ptr, native
from ort_lite.native.spec import parameters
from ort_lite.shapes import Dim, symbol
from ort_lite_cpu.kernels.once import run_once
from ort_lite_cpu.kernels.primitives import weave
from ort_lite_cpu.lowering.builder import Builder
from ort_lite_cpu.lowering.lowered import Instruction, Requirement
from ort_lite_cpu.lowering.tensor import Buffer, Tensor, bits, pairs, reread
from ort_lite_cpu.run.kernels import Kernels

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


def emitted(
    operands: Sequence[Tensor | None], n: Dim, m: Dim, factor: Dim | float, types: Sequence[str] | None = None
) -> Builder:
    builder = Builder(1, Kernels(host()))
    builder.emit(NODE, spread, operands, named={"n": n, "m": m, "factor": factor}, types=types)
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
    with pytest.raises(TypeError, match=r"'factor' is 1 .int., expected a float"):
        emitted([x, y], 3, 4, 1)
    with pytest.raises(TypeError, match=r"Test 'node'.*: 1 operands came for kernel .*spread.*, it has x, y"):
        emitted([x], 3, 4, 0.5)


GOOD: dict[str, Dim | float] = {"n": 3, "m": 4, "factor": 0.5}


def called(named: Mapping[str, object]) -> Instruction:
    """What a call of `spread` by name becomes."""
    builder = Builder(1, Kernels(host()))
    builder.emit(NODE, spread, [tensor("float32", 3), tensor("float32", 3, 4)], named=named)
    [instruction] = builder.result.items
    assert isinstance(instruction, Instruction)
    return instruction


def test_scalars_by_name_come_in_the_order_of_the_kernel() -> None:
    for names in permutations(GOOD):
        assert called({name: GOOD[name] for name in names}).scalars == (3, 4, 0.5)


def test_statics_by_name_are_those_of_the_kernel() -> None:
    builder = Builder(1, Kernels(host()))
    few = {"few": 2, "count": 3, "outer": 1}
    builder.emit(NODE, weave, [tensor("int8", 6), tensor("int8", 6)], named=few)
    [instruction] = builder.result.items
    assert isinstance(instruction, Instruction)
    assert instruction.scalars == (1, 3)
    assert instruction.spec.statics == (("few", 2),)
    del few["few"]
    with pytest.raises(TypeError, match=r"kernel .*weave: 'few' missing; it takes outer, count, few"):
        builder.emit(NODE, weave, [tensor("int8", 6), tensor("int8", 6)], named=few)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"n": 3, "factor": 0.5}, "spread: 'm' missing; it takes n, m, factor"),
        ({**GOOD, "size": 3}, "spread: 'size' unknown; it takes n, m, factor"),
        ({"n": 3, "k": 4, "factor": 0.5}, "spread: 'm' missing; 'k' unknown; it takes n, m, factor"),
        ({**GOOD, "part": 0}, "spread: 'part' unknown; it takes n, m, factor"),
        ({**GOOD, "x": 0}, "spread: 'x' unknown; it takes n, m, factor"),
        ({**GOOD, "factor": 1}, "spread: 'factor' is 1 (int), expected a float"),
        ({**GOOD, "factor": symbol("n")}, "spread: 'factor' is n (Expr), expected a float"),
        ({**GOOD, "n": 3.0}, "spread: 'n' is 3.0 (float), expected an integer"),
    ],
)
def test_a_call_by_name_that_does_not_fit_names_kernel_and_parameter(named: Mapping[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=rf"kernel \S*{re.escape(message)}$"):
        called(named)


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
        run_once(spread, [x, y], Kernels(host()), n=3, m=5, factor=0.5)
    with pytest.raises(TypeError, match=r"spread: 'factor' missing"):
        run_once(spread, [x, y], Kernels(host()), n=3, m=4)
    with pytest.raises(TypeError, match=r"spread: 'factor' is 1 .int., expected a float"):
        run_once(spread, [x, y], Kernels(host()), n=3, m=4, factor=1)


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


@pytest.mark.slow
def test_no_status_is_lost_between_a_kernel_and_the_loop() -> None:
    """A status ends a run because kernels return it to the loop: none comes from a helper whose caller might leave it there."""
    for file in sorted(ROOT.rglob("*.py")):
        for item in ast.walk(ast.parse(file.read_text())):
            if isinstance(item, ast.FunctionDef) and item.name != "failure_status":
                calls = {
                    node.func.id for node in ast.walk(item) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                }
                if "failure_status" in calls:
                    assert [a.arg for a in item.args.args[-2:]] == ["part", "parts"], f"{file.name}: {item.name}"
