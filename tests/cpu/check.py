"""`check_op`: one operator through the CPU provider, against an oracle, in all the ways a model may bring it.

Inputs come with open dimensions (equal sizes share a symbol) and with fixed ones; those listed come as constants too. Every
instruction is cut into three parts, which must give the same bits as one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnx.parser
from onnx.reference import ReferenceEvaluator

from ort_lite.dtypes import Array, from_numpy
from ort_lite.graph import Node, TensorType, Value
from ort_lite.inference import Inference, Info, ShapeRules
from ort_lite.load.load import load
from ort_lite.memory.pool import ScratchPool
from ort_lite.plugins import shape_rules
from ort_lite.shapes import symbol
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program import segment
from ort_lite_cpu.program.program import Program
from ort_lite_cpu.run.run_context import RunContext
from ort_lite_cpu.types import HALVES

Inputs = Sequence[Array | None]
GUARD = 256  # bytes on both sides of an array
Expected = Callable[..., Any] | Array | Sequence[Any] | None


@cache
def rules() -> ShapeRules:
    return shape_rules()


def op_program(
    op_type: str,
    inputs: Inputs,
    attributes: Mapping[str, Any] | None = None,
    *,
    opset: int = 21,
    domain: str = "",
    outputs: int | Sequence[int] = 1,
    constants: Sequence[int] = (),
    fixed: bool = False,
    threads: int = 1,
    steps: bool = False,
    pin: str = "",
) -> Program:
    """A program of one node, 'node'. `outputs`: how many, or which; `constants`: positions of inputs that are initialisers.

    pin: the candidate that computes it.
    """
    values: list[Value | None] = []
    feeds: list[tuple[Value, Info]] = []
    for k, array in enumerate(inputs):
        if array is None:
            values.append(None)
        elif k in constants:
            values.append(Value(f"in{k}", None, array))
        else:
            fixed_here = fixed or (array.ndim == 1 and array.dtype == np.int64)  # models know how many axes they name
            shape = tuple([n if fixed_here or n == 1 else symbol(f"n{n}") for n in array.shape])
            value = Value(f"in{k}", TensorType(from_numpy(array.dtype), shape))
            values.append(value)
            feeds.append((value, Info(value.type)))
    wanted = {k: Value(f"out{k}") for k in (range(outputs) if isinstance(outputs, int) else outputs)}
    places = [wanted.get(k) for k in range(max(wanted) + 1)]
    results = list(wanted.values())
    node = Node(op_type, values, places, attributes or {}, domain=domain, version=opset, name="node")
    inference = Inference(rules(), dict(feeds))
    inference.node(node)
    for result in results:
        result.type = inference.of(result).type
    with patch.multiple(segment, GRAIN=1, ROUND_GRAIN=1, PART_GRAIN=0):  # whatever has work to share is shared, however small
        pins = (("node", pin),) if pin else ()
        options = CPUOptions(threads=threads, steps=frozenset(HALVES if steps else ()), pins=pins)
        return Program([node], feeds, results, rules(), options, {})


def text_program(
    text: str,
    *,
    opset: int = 21,
    threads: int = 1,
    fusion: bool = True,
    constants: Mapping[str, Array] | None = None,
    options: CPUOptions | None = None,
) -> Program:
    """A program of the nodes of `text`, ONNX's text of a graph; inputs named in `constants` are initialisers."""
    options = options or CPUOptions(threads=threads, fusion=fusion)
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "ai.onnx.ml" : 3, "com.microsoft" : 1]>'
    graph = load(onnx.parser.parse_model(f"{header} main {text}")).graph
    feeds: list[tuple[Value, Info]] = []
    for value in graph.inputs:
        if constants is not None and value.name in constants:
            value.constant = constants[value.name]
        else:
            feeds.append((value, Info(value.type)))
    with patch.multiple(segment, GRAIN=1, ROUND_GRAIN=1, PART_GRAIN=0):
        return Program(list(graph), feeds, graph.outputs, rules(), options, {})


def run_op(op_type: str, inputs: Inputs, attributes: Mapping[str, Any] | None = None, **how: Any) -> list[Any]:
    """The outputs of `op_program`, which must be the same in a second run and leave the inputs alone.

    In the two runs, memory that nobody has written yet, and what lies around inputs and outputs, is filled with other bytes.
    """
    program = op_program(op_type, inputs, attributes, **how)
    fed = [array for k, array in enumerate(inputs) if array is not None and k not in how.get("constants", ())]
    got, again = (_guarded_run(program, fed, byte, op_type) for byte in (0xA5, 0x5A))
    for first, second in zip(got, again, strict=True):
        assert_same(first, second, f"{op_type}: two runs differ")
    return got


def _guarded_run(program: Program, inputs: Sequence[Array], byte: int, who: str) -> list[Any]:
    """A run in which kernels that read or write beyond their arrays, or read what is not written, are found out."""
    made: list[tuple[Array, int]] = []
    take, empty = ScratchPool.lease, np.empty

    def guarded_empty(shape: Any, dtype: Any = np.float64, **more: Any) -> Any:
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if np.dtype(dtype) == object or more:
            return empty(shape, dtype, **more)
        block = np.full(GUARD + nbytes + GUARD, byte, np.uint8)
        made.append((block, nbytes))
        return block[GUARD : GUARD + nbytes].view(dtype).reshape(shape)

    def filled_take(pool: ScratchPool[RunContext], scratch: int) -> RunContext:
        lease = take(pool, scratch)
        ctypes.memset(lease.address, byte, scratch)
        return lease

    arrays = []
    for array in inputs:
        arrays.append(guarded_empty(array.shape, array.dtype))
        arrays[-1][...] = array
    with patch.object(np, "empty", guarded_empty), patch.object(ScratchPool, "lease", filled_take):
        outputs = program(arrays)
    for array, original in zip(arrays, inputs, strict=True):
        assert_same(array, np.require(original, requirements="C"), f"{who} wrote to its input")
    for block, nbytes in made:
        around = np.concatenate([block[:GUARD], block[GUARD + nbytes :]])
        assert (around == byte).all(), f"{who} wrote beyond an array of {nbytes} bytes"
    return outputs


def reference(
    op_type: str, inputs: Inputs, attributes: Mapping[str, Any] | None, opset: int, domain: str, outputs: int
) -> list[Any]:
    """What onnx.reference computes."""
    names = ["" if array is None else f"in{k}" for k, array in enumerate(inputs)]
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape))
        for name, array in zip(names, inputs, strict=True)
        if array is not None
    ]
    results = [f"out{k}" for k in range(outputs)]
    node = onnx.helper.make_node(op_type, names, results, domain=domain, **(attributes or {}))
    graph = onnx.helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in results])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(domain, opset)])
    feeds = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    return list(ReferenceEvaluator(model).run(None, feeds))


def check_op(
    op_type: str,
    *inputs: Array | None,
    expected: Expected | Any = None,
    opset: int | Any = 21,
    domain: str | Any = "",
    outputs: int | Any = 1,
    constants: Sequence[int] | Any = (),
    rtol: float | Any = 1e-5,
    atol: float | Any = 1e-6,
    steps: bool | Any = False,
    pin: str | Any = "",
    **attributes: Any,
) -> None:
    """Compares with `expected`: arrays, a function of the inputs and attributes, or None for onnx.reference.

    Integers, bools and strings must be equal. `constants`: positions that are also tried as initialisers, with a pinned candidate
    only so. Options are typed
    "or Any" because type checkers hold the values of a `**dict` of attributes against every keyword.
    """
    if expected is None:
        wanted = reference(op_type, inputs, attributes, opset, domain, outputs)
    else:
        made = expected(*inputs, **attributes) if callable(expected) else expected
        wanted = list(made) if isinstance(made, (list, tuple)) else [made]
    variants: list[dict[str, Any]] = [{}, {"threads": 3}, {"fixed": True, "constants": constants}]
    if constants:
        variants.append({"constants": constants})
    if pin:
        variants = [{"constants": constants, "pin": pin, **variant} for variant in variants[:3]]
    first: list[Any] = []
    for variant in variants:
        got = run_op(op_type, inputs, attributes, opset=opset, domain=domain, outputs=outputs, steps=steps, **variant)
        shapes = ", ".join("none" if a is None else f"{a.dtype} {a.shape}" for a in inputs)
        what = f"{op_type}-{opset} {attributes or ''} of {shapes}, {variant or 'open shapes'}"
        for index, (result, want) in enumerate(zip(got, wanted, strict=True)):
            assert_close(result, np.asarray(want), rtol, atol, f"{what}, output {index}")
        first = first or got
        if "threads" in variant:
            for a, b in zip(first, got, strict=True):
                assert_same(a, b, f"{what}: three parts give other bits than one")


def assert_close(got: Any, want: Array, rtol: float, atol: float, what: str) -> None:
    """Same shape and element type; floats within `rtol` and `atol` (NaN is NaN), what else there is equal."""
    got = np.asarray(got)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, expected {want.dtype}"
    if want.dtype == object or want.dtype.kind not in "fcV":
        close = got == want
    else:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        close = np.isclose(got.astype(wide), want.astype(wide), rtol, atol, equal_nan=True)
    if not np.all(close):
        at = tuple(int(k) for k in np.argwhere(~np.asarray(close))[0])
        bad = int(np.size(close) - np.count_nonzero(close))
        raise AssertionError(
            f"{what}: {bad} of {got.size} elements differ, the first at {at}: got {got[at]}, expected {want[at]}"
        )


def assert_same(a: Any, b: Any, what: str) -> None:
    """Bit-equal."""
    if isinstance(a, np.ndarray) and a.dtype != object:
        assert a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes(), what
    else:
        assert np.array_equal(a, b), what


def ramp(shape: Sequence[int], dtype: str = "float32", low: float = -2.0, high: float = 3.0) -> Any:
    """Different values in every position, from `low` to `high`, shuffled by a fixed seed; integers wrap around 100."""
    size = int(np.prod(shape))
    order = np.random.default_rng(size).permutation(size)
    if np.dtype(dtype).kind == "f":
        return (low + (high - low) * (order + 0.5) / max(size, 1)).astype(dtype).reshape(shape)
    if dtype == "bool":
        return (order % 2 == 0).reshape(shape)
    return (order % 100 if np.dtype(dtype).kind == "u" else order % 100 - 50).astype(dtype).reshape(shape)


def ints(*values: int) -> Array:
    """A vector of int64: axes, shapes, pads."""
    return np.array(values, np.int64)
