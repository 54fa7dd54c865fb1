"""`check_op`: one operator through the CPU provider, against an oracle, in all the ways a model may bring it.

Inputs come with open dimensions, with fixed ones, and (those listed) as constants; one thread and three give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ort_lite.dtypes import Array, from_numpy
from ort_lite.graph import Node, TensorType, Value
from ort_lite.inference import Inference, Info, ShapeRules
from ort_lite.plugins import shape_rules
from ort_lite.shapes import symbol
from ort_lite_cpu.options import Options
from ort_lite_cpu.program import Program

Inputs = Sequence[Array | None]


@cache
def rules() -> ShapeRules:
    return shape_rules()


def run_op(
    op_type: str,
    inputs: Inputs,
    attributes: Mapping[str, Any] | None = None,
    *,
    opset: int = 21,
    domain: str = "",
    outputs: int = 1,
    constants: Sequence[int] = (),
    fixed: bool = False,
    threads: int = 1,
) -> list[Any]:
    """The outputs of a program of one node. `constants` are positions of inputs that are initialisers."""
    values: list[Value | None] = []
    feeds: list[tuple[Value, Info]] = []
    for k, array in enumerate(inputs):
        if array is None:
            values.append(None)
        elif k in constants:
            values.append(Value(f"in{k}", None, array))
        else:
            shape = tuple(array.shape) if fixed else tuple(symbol(f"in{k}_{axis}") for axis in range(array.ndim))
            value = Value(f"in{k}", TensorType(from_numpy(array.dtype), shape))
            values.append(value)
            feeds.append((value, Info(value.type)))
    results = [Value(f"out{k}") for k in range(outputs)]
    node = Node(op_type, values, results, attributes or {}, domain=domain, version=opset, name="node")
    inference = Inference(rules(), dict(feeds))
    inference.node(node)
    for result in results:
        result.type = inference.of(result).type
    program = Program([node], feeds, results, rules(), Options(threads=threads), {})
    arrays = [np.require(inputs[k], requirements="C") for k in range(len(inputs)) if inputs[k] is not None and k not in constants]
    before = [array.copy() for array in arrays]
    got = program(arrays)
    again = program(arrays)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy, err_msg=f"{op_type} wrote to its input")
    for first, second in zip(got, again, strict=True):
        assert_same(first, second, f"{op_type}: two runs differ")
    return got


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
    expected: Callable[..., Any] | Array | Sequence[Array] | None = None,
    opset: int = 21,
    domain: str = "",
    outputs: int = 1,
    constants: Sequence[int] = (),
    rtol: float = 1e-5,
    atol: float = 1e-6,
    **attributes: Any,
) -> None:
    """Compares with `expected`: arrays, a function of the inputs and attributes, or None for onnx.reference.

    Integers, bools and strings must be equal. `constants`: positions that are also tried as initialisers.
    """
    if expected is None:
        wanted = reference(op_type, inputs, attributes, opset, domain, outputs)
    else:
        made = expected(*inputs, **attributes) if callable(expected) else expected
        wanted = list(made) if isinstance(made, (list, tuple)) else [made]
    keywords: dict[str, Any] = {"opset": opset, "domain": domain, "outputs": outputs}
    variants: list[dict[str, Any]] = [{}, {"fixed": True}, {"threads": 3}]
    if constants:
        variants.append({"constants": constants})
    first: list[Any] | None = None
    for variant in variants:
        got = run_op(op_type, inputs, attributes, **keywords, **variant)
        what = f"{op_type}-{opset} {attributes or ''} {[None if a is None else (str(a.dtype), a.shape) for a in inputs]} {variant}"
        for index, (result, want) in enumerate(zip(got, wanted, strict=True)):
            assert_close(result, np.asarray(want), rtol, atol, f"{what}, output {index}")
        if "threads" in variant and first is not None:
            for a, b in zip(first, got, strict=True):
                assert_same(a, b, f"{what}: three threads give other bits than one")
        first = first or got


def assert_close(got: Any, want: Array, rtol: float, atol: float, what: str) -> None:
    got = np.asarray(got)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, expected {want.dtype}"
    if want.dtype.kind in "fcV" and want.dtype != object:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, err_msg=what)


def assert_same(a: Any, b: Any, what: str) -> None:
    """Bit-equal."""
    if isinstance(a, np.ndarray) and a.dtype != object:
        assert a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes(), what
    else:
        assert np.array_equal(a, b), what


def ramp(shape: Sequence[int], dtype: str = "float32", low: float = -2.0, high: float = 3.0) -> Array:
    """Different values in every position, from `low` to `high`, shuffled by a fixed seed; integers wrap around 100."""
    size = int(np.prod(shape))
    order = np.random.default_rng(size).permutation(size)
    if np.dtype(dtype).kind == "f":
        return (low + (high - low) * (order + 0.5) / max(size, 1)).astype(dtype).reshape(shape)
    return (order % 100 if np.dtype(dtype).kind == "u" else order % 100 - 50).astype(dtype).reshape(shape)
