"""com.microsoft's forms of operators that ONNX has too, or took over later, against onnxruntime."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import ort_lite
from ort_lite.dtypes import Array, from_numpy
from ort_lite.load.load import load
from ort_lite_cpu.registry import find_native
from tests.conformance.operator_table import microsoft_kernels
from tests.cpu.check import check_op, ints, ramp, run_op
from tests.cpu.ort import ort_op

HOW: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


def check(
    op: str, *inputs: Array | None, outputs: tuple[str, ...] = (), constants: tuple[int, ...] = (), **attributes: Any
) -> None:
    assert inputs[0] is not None
    outputs = outputs or (from_numpy(inputs[0].dtype),)
    want = ort_op(op, inputs, attributes, outputs=outputs, **HOW)
    check_op(op, *inputs, expected=want, outputs=len(outputs), constants=constants, **attributes, **HOW)


def test_expand_dims_of_strings_and_complex_numbers() -> None:
    axis = np.array(1, np.int32)
    for x in (np.array(["a", "b"], object), np.array([1 + 2j, 3])):
        check_op("ExpandDims", x, axis, constants=[1], expected=x[:, None], **HOW)


def test_gather_nd_of_strings_and_complex_numbers() -> None:
    for x in (np.array([["a", "b"], ["c", "d"]], object), np.array([[1j, 2], [3, 4 - 1j]])):
        check_op("GatherND", x, ints(1, 0)[None], expected=x[1:, 0], **HOW)


PAIR, BYTES = np.array([[0, 1], [2, -1]]), ramp((2, 7, 6, 5), "uint8")
FORMS: list[tuple[str, list[Array], tuple[int, ...], dict[str, Any]]] = [
    *(("ExpandDims", [ramp((3, 4)), np.array(axis, np.int32)], (1,), {}) for axis in (0, 1, -1, -3)),
    ("GatherND", [ramp((3, 4, 2)), PAIR], (), {}),
    ("GatherND", [ramp((3, 4), "int32"), PAIR.astype(np.int32)], (), {}),
    *(("Trilu", [ramp((2, 3, 4)), np.array(1)], (), {"upper": upper}) for upper in (0, 1)),
    ("Trilu", [ramp((3, 3), "int64")], (), {}),
    *(("Pad", [ramp((3, 4)), ints(1, 0, 2, 1)], (1,), {"mode": mode}) for mode in ("constant", "reflect", "edge")),
    *(("SampleOp", [ramp(shape)], (), {}) for shape in ((3, 4), (), (0, 2))),
    ("Pad", [ramp((3, 4)), ints(1, 0, 2, 1), np.array(7, np.float32)], (), {}),
    *(("Range", [np.array(2, dtype), np.array(7, dtype)], (0, 1), {}) for dtype in ("float32", "int64")),
    ("Range", [np.array(2), np.array(9), np.array(3)], (0, 1, 2), {}),
    ("NhwcMaxPool", [BYTES], (), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ("NhwcMaxPool", [BYTES.view(np.int8)], (), {"kernel_shape": [2, 2], "dilations": [2, 1], "auto_pad": "VALID"}),
    *((op, [ramp((3, 20), low=-6, high=6)], (), {}) for op in ("Gelu", "QuickGelu")),
]


@pytest.mark.parametrize(
    ("op", "inputs", "constants", "attributes"), FORMS, ids=[f"{k} {case[0]}" for k, case in enumerate(FORMS)]
)
def test_forms(op: str, inputs: list[Array], constants: tuple[int, ...], attributes: dict[str, Any]) -> None:
    check(op, *inputs, constants=constants, **attributes)


def test_quantised_and_back() -> None:
    x, scale = ramp((3, 4)), np.array(0.05, np.float32)
    check("QuantizeLinear", x, scale, np.array(7, np.uint8), outputs=("uint8",))
    check("QuantizeLinear", x, ramp((4,), low=0.01, high=0.1), np.zeros(4, np.int16), outputs=("int16",), axis=1)
    check("DequantizeLinear", ramp((3, 4), "int8"), scale, np.array(7, np.int8), outputs=("float32",))
    check("DequantizeLinear", ramp((3, 4), "int32"), scale, outputs=("float32",))


def test_unique_keeps_the_order() -> None:
    x = np.array([3, 1, 3, 2, 1, 3], np.float32)
    check("Unique", x, outputs=("float32", "int64", "int64"))
    texts = np.array(["b", "a", "b"], object)
    check_op("Unique", texts, expected=[np.array(["b", "a"], object), ints(0, 1, 0), ints(2, 1)], outputs=3, **HOW)


@pytest.mark.parametrize("shape", [(3, 3), (2, 1, 1), (2, 3, 5, 5)], ids=str)
def test_inverses(shape: tuple[int, ...]) -> None:
    x = ramp(shape) + 3 * np.eye(shape[-1], dtype=np.float32)
    check_op("Inverse", x, expected=np.linalg.inv(x), rtol=1e-4, atol=1e-5, **HOW)


def test_an_inverse_exchanges_rows() -> None:
    x = np.array([[0, 2], [1, 0]], np.float32)
    check_op("Inverse", x, expected=np.array([[0, 1], [0.5, 0]], np.float32), **HOW)


def test_singular_matrices_have_no_finite_inverse() -> None:
    [got] = run_op("Inverse", [np.ones((2, 2), np.float32)], {}, **HOW)
    assert not np.isfinite(got).all()


BARE: list[tuple[str, str, list[Array]]] = [
    ("com.microsoft", "Gelu", [ramp((3, 4))]),
    ("com.microsoft", "FusedMatMul", [ramp((3, 4)), ramp((4, 5))]),
    ("com.microsoft", "CDist", [ramp((3, 4)), ramp((5, 4))]),
    ("com.microsoft", "SkipLayerNormalization", [ramp((2, 3, 8)), ramp((2, 3, 8), low=0), ramp((8,))]),
    ("", "SimplifiedLayerNormalization", [ramp((3, 8)), ramp((8,))]),
]


@pytest.mark.parametrize(("domain", "op", "inputs"), BARE, ids=[op for _, op, _ in BARE])
def test_models_need_not_import_the_domain(domain: str, op: str, inputs: list[Array]) -> None:
    """As in onnxruntime, whose name for root mean square normalisation is even in ONNX's own domain."""
    names = [f"in{k}" for k in range(len(inputs))]
    infos = [helper.make_tensor_value_info(name, 1, x.shape) for name, x in zip(names, inputs, strict=True)]
    graph = helper.make_graph([helper.make_node(op, names, ["y"], domain=domain)], "g", infos, [onnx.ValueInfoProto(name="y")])
    graph.output[0].type.tensor_type.elem_type = 1
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    feeds = dict(zip(names, inputs, strict=True))
    [want] = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    np.testing.assert_allclose(ort_lite.InferenceSession(model).run(None, feeds)[0], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", sorted(microsoft_kernels()))
def test_every_operator_is_found_without_an_import(op: str) -> None:
    graph = helper.make_graph([helper.make_node(op, [], ["y"], domain="com.microsoft")], "g", [], [])
    [node] = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)).graph
    assert find_native(node) is not None or op == "Tokenizer"
