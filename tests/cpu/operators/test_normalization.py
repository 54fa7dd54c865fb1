"""Normalisation over batches, layers, instances, groups, neighbouring channels and vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ort_lite import InferenceSession
from ort_lite.dtypes import Array, from_numpy
from ort_lite.errors import InvalidArgument, OrtLiteError
from tests.cpu.check import assert_close, assert_same, check_op, op_program, ramp, run_op
from tests.cpu.ort import ort_op

Shape = tuple[int, ...]
TOLERANCE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


def check(op: str, *inputs: Array, opset: int = 17, constants: Sequence[int] = (), **attributes: Any) -> None:
    expected = ort_op(op, inputs, attributes, opset=opset)
    check_op(op, *inputs, opset=opset, expected=expected, constants=constants, **attributes, **TOLERANCE)


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 3, 4, 5), -1), ((2, 3, 4, 5), 1), ((4, 130), 1), ((0, 5), 1), ((7,), 0)], ids=str
)
def test_layer_normalization(shape: Shape, axis: int) -> None:
    x, scale, bias = ramp(shape), ramp(shape[axis:]), ramp(shape[axis:], low=0)
    check("LayerNormalization", x, scale, axis=axis)
    check("LayerNormalization", x, scale, bias, axis=axis, constants=[1, 2])


@pytest.mark.parametrize("big", [3e19, 1e30])
def test_a_variance_beyond_the_largest_number_gives_zeros(big: float) -> None:
    x = np.array([[1, 2, big, -3, 4] * 8, [1, 2, 3, 4, 5] * 8], np.float32)
    [y] = run_op("LayerNormalization", [x, np.ones(40, np.float32)], {}, opset=17)
    assert np.array_equal(y[0], np.zeros(40, np.float32))
    assert np.isfinite(y[1]).all()
    [y] = run_op("RMSNormalization", [x, np.ones(40, np.float32)], {}, opset=23)
    assert np.array_equal(y[0], np.zeros(40, np.float32))


def test_scales_of_a_layer_are_broadcast() -> None:
    x, scale, bias = ramp((2, 3, 4)), ramp((4,)), ramp((3, 1))
    [normal] = run_op("LayerNormalization", [x, np.ones((3, 4), np.float32)], {"axis": 1})
    check_op("LayerNormalization", x, scale, bias, axis=1, expected=normal * scale + bias, **TOLERANCE)


def test_scales_that_do_not_fit_are_refused() -> None:
    program = op_program("LayerNormalization", [ramp((2, 3)), ramp((4,))], {"axis": -1})
    with pytest.raises(InvalidArgument, match=r"Scale, .* is 4[,;] it should broadcast to 3"):
        program([ramp((2, 3)), ramp((4,))])
    program = op_program("InstanceNormalization", [ramp((2, 3, 5)), ramp((4,)), ramp((4,))])
    with pytest.raises(InvalidArgument, match=r"scale, .* is 4, but C is 3"):
        program([ramp((2, 3, 5)), ramp((4,)), ramp((4,))])


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 1), (1, 3, 2, 2, 2)], ids=str)
def test_instance_normalization(shape: Shape) -> None:
    check("InstanceNormalization", ramp(shape), ramp((3,)), ramp((3,), low=0))


def test_instances_of_nothing() -> None:
    x = ramp((2, 3, 0))
    check_op("InstanceNormalization", x, ramp((3,)), ramp((3,)), expected=x)


@pytest.mark.parametrize(("opset", "size"), [(18, 2), (21, 6)])
@pytest.mark.parametrize("shape", [(2, 6, 3, 4), (2, 6, 1), (1, 6)], ids=str)
def test_group_normalization(shape: Shape, opset: int, size: int) -> None:
    check("GroupNormalization", ramp(shape), ramp((size,)), ramp((size,), low=0), num_groups=2, opset=opset)


def test_channels_make_up_whole_groups() -> None:
    program = op_program("GroupNormalization", [ramp((2, 6, 3)), ramp((6,)), ramp((6,))], {"num_groups": 2})
    with pytest.raises(InvalidArgument, match=r"X, .* is 5[,;] no multiple of num_groups, which is 2 by the attribute"):
        program([ramp((2, 5, 3)), ramp((5,)), ramp((5,))])


@pytest.mark.parametrize(("size", "beta"), [(3, 0.75), (5, 0.5), (9, 0.75)])
@pytest.mark.parametrize("shape", [(2, 6, 3, 4), (2, 37, 7, 10)], ids=str)
def test_local_response_normalization(shape: Shape, size: int, beta: float) -> None:
    check("LRN", ramp(shape), size=size, beta=beta, alpha=0.5, bias=2.0)


def test_local_response_is_the_same_for_any_number_of_threads() -> None:
    """Rows of 37 channels: ends of rows lie anywhere in a vector."""
    attributes = {"size": 5, "alpha": 0.5}
    alone, *shared = [run_op("LRN", [ramp((1, 37, 40, 50))], attributes, threads=n, fixed=True)[0] for n in (1, 2, 3)]
    for result in shared:
        assert_same(alone, result, "threads change the result")


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [-1, 1])
def test_vectors_of_length_one(p: int, axis: int) -> None:
    x = ramp((2, 3, 4))
    x[0, 0] = x[:, :, 1] = 0
    check("LpNormalization", x, axis=axis, p=p)


@pytest.mark.parametrize("position", [1, 2, 3, 4])
@pytest.mark.parametrize("training", [0, 1])
@pytest.mark.parametrize("constants", [(), (1, 2, 3, 4)], ids=str)
def test_batch_normalization_needs_a_number_for_each_channel(position: int, training: int, constants: Shape) -> None:
    inputs = [ramp((2, 3, 4)), *(ramp((3,), low=1) for _ in range(4))]
    how: dict[str, Any] = {"opset": 15, "constants": constants, "outputs": 1 + 2 * training}
    for other in (ramp((2,)), ramp((4,)), ramp((3, 1))):
        inputs[position] = other
        with pytest.raises(InvalidArgument, match=r"(scale|B|input_mean|input_var), .* (is \d, but C is \d|has rank 2)"):
            run_op("BatchNormalization", inputs, {"training_mode": training}, **how)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("RMSNormalization", [(2, 3), (3,)], {"axis": 2}, "axis 2 is out of range"),
        ("LRN", [(2, 3, 4)], {"size": 0}, "size 0"),
        ("LpNormalization", [(2, 3)], {"axis": -3}, "axis -3 is out of range"),
        ("LpNormalization", [(2, 3)], {"p": 3}, "p 3"),
        ("LpNormalization", [()], {}, "axis -1 is out of range"),
        ("LRN", [(3,)], {"size": 1}, "rank 1"),
        ("MeanVarianceNormalization", [(2, 3)], {"axes": [2]}, "axis 2 is out of range"),
        ("InstanceNormalization", [(3,), (3,), (3,)], {}, "rank 1"),
        ("GroupNormalization", [(3,), (3,), (3,)], {"num_groups": 1}, "rank 1"),
    ],
    ids=str,
)
def test_attributes_that_do_not_fit_are_refused(op: str, inputs: list[Shape], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(OrtLiteError, match=f"{op} 'node' .*{message}"):
        op_program(op, [ramp(shape) for shape in inputs], attributes, opset=23)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_statistics_are_rounded_to_the_type_that_stash_type_says(dtype: str) -> None:
    x = ramp((2, 3), dtype)
    _, mean, inverse = run_op("LayerNormalization", [x, ramp((3,), dtype)], {"stash_type": 16}, outputs=3)
    wide = x.astype(np.float64)
    wanted = wide.mean(-1, keepdims=True), 1 / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    for got, want in zip((mean, inverse), wanted, strict=True):
        assert from_numpy(got.dtype) == "bfloat16"
        assert_close(got, want.astype(np.float32).astype(got.dtype), 1e-2, 0, "statistics")


def test_channels_without_items_are_normalised() -> None:
    check_op("LRN", np.zeros((2, 0, 4), np.float32), size=3, expected=np.zeros((2, 0, 4), np.float32))


@pytest.mark.parametrize("scale", ["float16", "float32", "float64"])
@pytest.mark.parametrize("x", ["float16", "float32", "float64"])
def test_before_opset_17_the_result_has_the_type_of_the_scale(x: str, scale: str) -> None:
    """As onnxruntime's own form: what its converters to 16 bits leave behind."""
    types = {"float16": "float16", "float32": "float", "float64": "double"}
    text = f"{types[x]}[2,8] x, {types[scale]}[8] s) => ({types[scale]}[2,8] y) {{ y = LayerNormalization(x, s) }}"
    session = InferenceSession(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 16]> main ({text}'))
    data, factors = ramp((2, 8), x), ramp((8,), scale)
    wide = data.astype(np.float64)
    want = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5) * factors
    [y] = session.run(None, {"x": data, "s": factors})
    assert_close(y, want.astype(scale), 4e-3 if "float16" in (x, scale) else 1e-5, 1e-5, f"{x}, {scale}")


def test_an_infinite_row_has_an_inverse_of_zero() -> None:
    x = np.array([[np.inf, 1], [3, 4]], np.float32)
    y, inverse = run_op("SimplifiedLayerNormalization", [x, np.ones(2, np.float32)], {"epsilon": 0.0}, opset=17, outputs=2)
    np.testing.assert_allclose(inverse, [[0], [1 / np.sqrt(12.5)]], rtol=1e-6)
    np.testing.assert_allclose(y, [[np.nan, 0], x[1] / np.sqrt(12.5)], rtol=1e-6)
