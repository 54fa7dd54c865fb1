"""The kernels that models need where nothing may be compiled, whatever they fuse: a finite list, for a pack of kernels.

Of every elementwise operator one loop a formula and element type: over the output, its operands each of one element or as large as
that. What is broadcast is written out first, by the kernels that move data. `Builder` breaks a fused loop down to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import FLOATS, INTEGERS, DType, to_numpy, to_onnx
from ort_lite.errors import InvalidGraph
from ort_lite.graph import Node, TensorType, Value
from ort_lite.inference import Info, ShapeRules
from ort_lite.memory.planning import order_search, wide
from ort_lite.memory.planning.block_kernels import spec as planning_spec
from ort_lite.native.cpu import parse_target
from ort_lite.native.spec import Spec
from ort_lite.shapes import symbol
from ort_lite_cpu.kernels import jumps, primitives
from ort_lite_cpu.kernels.gemm.activation import KINDS, KINDS_OF_HALVES, activate_rows
from ort_lite_cpu.kernels.narrow import NARROW_FLOATS
from ort_lite_cpu.lowering.inline import EXPECT, REFUSE
from ort_lite_cpu.lowering.lower import Lowering
from ort_lite_cpu.lowering.lowered import Instruction
from ort_lite_cpu.lowering.values import Values
from ort_lite_cpu.operators import FAMILIES
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program.program import Program, machinery
from ort_lite_cpu.program.segment import NOTHING
from ort_lite_cpu.registry import NARROW, NATIVE, REAL, find
from ort_lite_cpu.run.kernels import Kernels

VERSION = 28
"""Of the nodes: the newest there are."""
_SIZES = ("u8", "u16", "u32", "u64")

_TWO = ("xx", "xs", "sx")
_BINARY = (
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul Or Sub "
    "Sum Xor"
)
_FORMS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(_BINARY.split(), _TWO),
    "Clip": ("x", "xs", "x-s", "xss"),
    "PRelu": ("xx", "xs"),
    "SwiGLU": ("xx",),
    "Where": ("bxx", "bxs", "bsx", "bss"),
}
"""Operands of operators that have not one: x as large as the output, s of one element, - left out; b: x of type bool."""
_ATTRIBUTES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "BitShift": ({"direction": "LEFT"}, {"direction": "RIGHT"}),
    "Gelu": ({}, {"approximate": "tanh"}),
    "IsInf": ({}, {"detect_positive": 0}, {"detect_negative": 0}),
    "Mod": ({}, {"fmod": 1}),
    "Shrink": ({}, {"bias": 1.0}),
}

_ENDS: Sequence[Mapping[str, Any]] = ({"axis": -1}, {"axis": 0})
_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
_OTHERS: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]] = {
    **{f"Reduce{kind} {axes}": (f"nmk {axes}", ({},)) for kind in _REDUCTIONS.split() for axes in ("#0", "#1", "#2")},
    "ArgMax": ("nm", _ENDS),
    "ArgMax of few": ("n22", ({"axis": 1},)),
    "ArgMin": ("nm", _ENDS),
    "ArgMin of few": ("n22", ({"axis": 1},)),
    "BatchNormalization": ("nm m m m m", ({},)),
    "Compress": ("nm bn", ({"axis": 0},)),
    "Concat": ("nm km", ({"axis": 0}, {"axis": 1})),
    "CumSum": ("nm #1", ({},)),
    "Expand": ("n1 #3,4", ({},)),
    "Gather": ("nm ik", ({"axis": 0}, {"axis": 1})),
    "GatherElements": ("nm inm", ({"axis": 0}, {"axis": 1})),
    "GatherND": ("nm ik2", ({},)),
    "GlobalAveragePool": ("nmkp", ({},)),
    "LayerNormalization": ("nm m m", ({},)),
    "LogSoftmax": ("nm", _ENDS),
    "MatMul": ("nm mk", ({},)),
    "NonZero": ("nm", ({},)),
    "Pad": ("nm #1,1,1,1", ({"mode": "constant"}, {"mode": "edge"}, {"mode": "reflect"})),
    "ScatterElements": ("nm ikp kp", ({"axis": 0}, {"axis": 0, "reduction": "add"})),
    "ScatterND": ("nm ik2 k", ({},)),
    "Slice": ("nm #1,1 #-1,-1 #0,1 #2,2", ({},)),
    "Softmax": ("nm", _ENDS),
    "Split": ("nm #2,3", ({"axis": 1},)),
    "Tile": ("nm #2,2", ({},)),
    "TopK": ("nm #3", _ENDS),
    "Transpose": ("nmk", ({"perm": [1, 0, 2]}, {"perm": [2, 0, 1]})),
    "Trilu": ("nm", ({"upper": 0}, {"upper": 1})),
}
"""Inputs of other operators: open dimensions, those of indices behind an i and of conditions behind a b, constants behind #."""


class Unfused(Kernels):
    """Holds generic kernels and no others."""

    def has_kernel(self, spec: Spec) -> bool:
        """Return False: fused kernels are missing."""
        return False

    def hold(self, specs: Iterable[Spec]) -> bool:
        """Return True: generic kernels are compiled in advance."""
        return True

    @property
    def all_come(self) -> bool:
        """False: no fused kernel is compiled."""
        return False


class UnfusedOptions(CPUOptions):
    """The options of programs without fused loops."""

    @property
    def kernels(self) -> Kernels:
        """The source of generic kernels."""
        return Unfused(parse_target(self.target))


def generic_specs(target: str, rules: ShapeRules) -> list[Spec]:
    """Return the generic specs of a named target, each once.

    `rules`: those for shapes, of ONNX's operators (`ort_lite.plugins.shape_rules`).
    """
    options = UnfusedOptions(target=target)
    found = dict.fromkeys(_running())
    found.update(dict.fromkeys((*_moving(), *_activations())))
    for node in _nodes():
        found.update(dict.fromkeys(specs_of(node, rules, options)))
    return list(found)


def _running() -> Iterator[Spec]:
    """Return the specs that run every program, and those that plan its memory."""
    yield from (*machinery(threads=2), NOTHING, EXPECT, REFUSE)
    for kernel in (order_search.improve, wide.count_per_range, wide.first_fit_wide):
        yield planning_spec(kernel)
    yield from (Spec(jumps.unless, ["u8"]), Spec(jumps.always))
    loop = ("i64", "i64", "u8")
    yield from (Spec(jumps.begin, loop), Spec(jumps.again, loop))


def _moving() -> Iterator[Spec]:
    """Return the specs that copy and reorder memory, by the size of an element."""
    for size in _SIZES:
        two = (size, size)
        yield Spec(primitives.copy, two)
        yield from (Spec(kernel, (size, "i64", size)) for kernel in (jumps.take, jumps.give))
        yield Spec(primitives.copy_by_table, (*two, "i64"))
        yield Spec(primitives.swap, two, {"of_bytes": size == "u8"})
        for dense in (False, True):
            yield Spec(primitives.copy_by_strides, two, {"dense": dense})
        for few in (1, 2, 3, 4):
            yield Spec(primitives.weave, two, {"few": few})
            yield Spec(primitives.unweave, two, {"few": few})
    for integer in ("i32", "i64"):
        yield Spec(primitives.store, (integer,))


def _activations() -> Iterator[Spec]:
    """Return the specs of activations that end epilogues of products and convolutions, alone."""
    for kind in (*KINDS, *KINDS_OF_HALVES):
        for element in ("f32", "f64") if kind in KINDS else ("f32",):
            yield Spec(activate_rows, [element], {"kind": kind})


def specs_of(node: Node, rules: ShapeRules, options: CPUOptions) -> Iterator[Spec]:
    """Return the specs that compute one node; nothing is compiled."""
    inputs = [(value, Info(value.type)) for value in dict.fromkeys(node.inputs) if value is not None and value.constant is None]
    lowering = Lowering(Values(inputs, rules, options, {}, Program))
    try:
        items = lowering.run([node], [value for value in node.outputs if value is not None]).items
    except InvalidGraph:  # a type that kernels take, and ONNX does not
        return iter(())
    return (item.spec for item in items if isinstance(item, Instruction))


# --- One node of each kind
def _nodes() -> Iterator[Node]:
    yield from _casts()
    for domain, op_type in (key for key, family in FAMILIES.items() if family == "elementwise"):
        for attributes in _ATTRIBUTES.get(op_type, ({},)):
            yield from _elementwise(domain, op_type, attributes)
    yield from _clips_before_11()
    yield from _powers()
    yield from _quantization_nodes()
    yield from _others()


def _elementwise(domain: str, op_type: str, attributes: Mapping[str, Any]) -> Iterator[Node]:
    first = find(_node(op_type, [None], attributes, domain))
    assert first is not None
    if op_type == "Pow":  # see `_powers`
        return
    types = NATIVE if op_type == "Where" else first.types
    for dtype in sorted(types):
        for form in _FORMS.get(op_type, ("x",)):
            yield _node(op_type, [_operand(kind, k, dtype) for k, kind in enumerate(form)], attributes, domain)


def _operand(kind: str, number: int, dtype: DType) -> Value | None:
    if kind == "-":
        return None
    shape = () if kind == "s" else (symbol("n"),)
    return Value(f"x{number}", TensorType("bool" if kind == "b" else dtype, shape))


def _node(
    op_type: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any], domain: str = "", version: int = 0
) -> Node:
    version = version or (1 if domain else VERSION)
    outputs = [Value("y"), Value("z")] if op_type in ("Split", "TopK") else [Value("y")]
    return Node(op_type, inputs, outputs, attributes, domain=domain, version=version, name=op_type)


def _others() -> Iterator[Node]:
    """Yield nodes of one form each: other attributes and sizes need other kernels, as models show."""
    for name, (forms, ways) in _OTHERS.items():
        op_type = name.partition(" ")[0]
        registration = find(_node(op_type, [None], {}))
        assert registration is not None
        for dtype in sorted(registration.types & NATIVE):
            for way in ways:
                yield _node(op_type, [_input(form, k, dtype) for k, form in enumerate(forms.split())], way)


def _input(form: str, number: int, dtype: DType) -> Value:
    if form[0] == "#":
        numbers = np.array([int(text) for text in form[1:].split(",")])
        return Value(f"c{number}", TensorType("int64", numbers.shape), numbers)
    kind = {"i": "int64", "b": "bool"}.get(form[0], dtype)
    dims = [int(letter) if letter.isdigit() else symbol(letter) for letter in form.lstrip("ib")]
    return Value(f"x{number}", TensorType(kind, tuple(dims)))


def _casts() -> Iterator[Node]:
    for source in sorted(NATIVE | NARROW):
        for target in sorted((NATIVE | NARROW) - {source}):
            ways: list[dict[str, Any]] = [{}]
            if target in NARROW_FLOATS:
                ways.append({"saturate": 0})
            for way in ways:
                yield _node("Cast", [_operand("x", 0, source)], {"to": to_onnx(target), **way})


def _clips_before_11() -> Iterator[Node]:
    """Yield Clips whose bounds are attributes."""
    for dtype in sorted(REAL):
        yield _node("Clip", [_operand("x", 0, dtype)], {}, version=6)


def _powers() -> Iterator[Node]:
    for base in ("float32", "float64", "int32", "int64"):
        for exponent in sorted(FLOATS | INTEGERS if base in REAL else REAL | {"int32", "int64"}):
            for form in _TWO:
                yield _node("Pow", [_operand(form[0], 0, base), _operand(form[1], 1, exponent)], {})
        for number in (2.0, 3.0, 0.5, 1.0, -1.0) if base in REAL else ():
            yield _node("Pow", [_operand("x", 0, base), _constant(number, base)], {})


def _constant(number: float, dtype: DType) -> Value:
    return Value(f"c{number}", TensorType(dtype, ()), np.array(number, to_numpy(dtype)))


def _quantization_nodes() -> Iterator[Node]:
    """Yield nodes of the quantized types in use; scale and zero point are constant, computed, or one per element of an axis."""
    for scale in (_constant(0.25, "float32"), _operand("s", 1, "float32"), _operand("x", 1, "float32")):
        for integer in ("uint8", "int8", "uint16", "int16"):
            kind = "s" if scale is None or not scale.shape else "x"
            for zero in (_constant(3, integer), _operand(kind, 2, integer)):
                yield _node("QuantizeLinear", [_operand("x", 0, "float32"), scale, zero], {"axis": 0})
                yield _node("DequantizeLinear", [_operand("x", 0, integer), scale, zero], {"axis": 0})
        for integer in ("uint8", "int8", "uint16", "int16", "int32"):
            yield _node("DequantizeLinear", [_operand("x", 0, integer), scale], {"axis": 0})
        yield _node("QuantizeLinear", [_operand("x", 0, "float32"), scale], {"axis": 0})
        for narrow in sorted(NARROW):
            way = {"axis": 0, "output_dtype": to_onnx(narrow)}
            yield _node("QuantizeLinear", [_operand("x", 0, "float32"), scale], way)
            yield _node("DequantizeLinear", [_operand("x", 0, narrow), scale], {"axis": 0})
