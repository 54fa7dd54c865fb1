"""Conv and onnxruntime's FusedConv: every kernel that lowering may choose.

Long, and one file: one oracle, and the choice between kernels, is what everything here is about.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, NotImplemented, ShapeInferenceError
from ort_lite.graph import Node, TensorType, Value
from ort_lite.inference import Info
from ort_lite.native.cpu import host
from ort_lite.shapes import symbol
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import winograd
from ort_lite_cpu.kernels.gemm.microkernel import Tile, tile_for
from ort_lite_cpu.operators import conv, conv_channels, conv_pixels, slices
from ort_lite_cpu.operators.conv_costs import work_of_channels, work_of_winograd
from ort_lite_cpu.operators.convolutions import Geometry, Weight
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program.program import Program
from tests.cpu.check import assert_close, assert_same, check_op, op_program, ramp, rules, run_op, text_program

Shape = tuple[int, ...]
MICROSOFT: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


def convolved(
    x: Array, w: Array, b: Array | None = None, *, strides: Any = None, pads: Any = None, dilations: Any = None, group: int = 1
) -> Array:
    """In double precision: windows of the padded input times the weight."""
    rank = x.ndim - 2
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    windows = sliding_window_view(x, extents, tuple(range(2, rank + 2)))
    index: Any = (..., *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilations))
    windows = windows[index].reshape(x.shape[0], group, -1, *windows[index].shape[2:])
    y = [
        np.tensordot(part, own, ([1, *range(-rank, 0)], range(1, rank + 2)))
        for part, own in zip(windows.swapaxes(0, 1), np.split(w.astype(np.float64), group), strict=True)
    ]
    result = np.moveaxis(np.concatenate(y, -1), -1, 1) + (0 if b is None else b.reshape(-1, *[1] * rank))
    typed: Array = result.astype(w.dtype)
    return typed


def names(program: Program) -> set[str]:
    """The kernels of a program."""
    assert program._only is not None
    return {instruction.spec.name.split("<")[0].rpartition(".")[2] for instruction in program._only.segment.instructions}


def weights(o: int, c: int, *kernel: int, dtype: str = "float32") -> Array:
    scaled: Array = (ramp((o, c, *kernel), dtype) / np.sqrt(c * np.prod(kernel))).astype(dtype)
    return scaled


# --- The general kernels, channels last and by pixels: for any number of lanes, as 21 outputs and 19 pixels are no multiple of them
@pytest.mark.parametrize("kernel", ["conv", "conv_pixels"])
@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 7, 9, 10), (21, 7, 3, 3), {"pads": [1, 2, 0, 1]}),
        ((2, 3, 19, 20), (20, 3, 7, 7), {"strides": [2, 2], "pads": [3, 3, 3, 3]}),
        ((1, 5, 6, 150), (17, 5, 1, 3), {"strides": [1, 1], "pads": [0, 1, 0, 1]}),
        ((1, 300, 5, 6), (7, 300, 3, 2), {"pads": [1, 1, 1, 1]}),
        ((1, 100, 9, 9), (9, 100, 5, 5), {"pads": [2, 2, 2, 2]}),
        ((2, 9, 14, 27), (300, 9, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),  # short rows, many outputs
        ((2, 4, 9, 10), (6, 4, 3, 2), {"strides": [3, 2], "dilations": [2, 3]}),
        ((2, 4, 9, 30), (6, 4, 3, 2), {"strides": [1, 2], "dilations": [3, 1], "pads": [4, 5, 4, 5]}),
        ((2, 8, 9, 10), (12, 2, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
        ((2, 8, 9, 10), (40, 4, 3, 3), {"group": 2, "dilations": [2, 2]}),
        ((2, 12, 5, 7), (21, 4, 1, 1), {"group": 3}),
        ((1, 32, 50, 60), (40, 8, 1, 1), {"group": 4}),
        ((2, 6, 3, 5, 4), (9, 2, 1, 1, 1), {"group": 3}),
        ((1, 4, 2, 2), (5, 4, 5, 5), {"pads": [3, 3, 3, 3]}),
        ((1, 2, 3, 3), (3, 2, 3, 3), {}),
        ((2, 8, 19), (20, 8, 3), {"strides": [2]}),
        ((1, 3, 700), (5, 3, 9), {"pads": [8, 0]}),
        ((2, 3, 5, 6, 7), (9, 3, 3, 3, 2), {"pads": [1, 0, 1, 0, 2, 1], "strides": [1, 2, 1]}),
        ((1, 4, 5, 6, 7), (6, 2, 1, 2, 2), {"group": 2, "dilations": [1, 2, 1], "strides": [2, 1, 1]}),
        ((1, 3, 40, 2000), (5, 3, 5, 4), {"strides": [3, 3], "dilations": [3, 2], "pads": [6, 7, 5, 4]}),
        # taps that most pixels, or all of them, see beside the image
        ((2, 40, 12, 11), (20, 40, 3, 3), {"dilations": [8, 7], "pads": [8, 7, 8, 7]}),
        ((3, 530, 10, 9), (21, 530, 3, 3), {"dilations": [6, 6], "pads": [6, 6, 6, 6]}),
        ((2, 20, 9, 8), (34, 10, 3, 3), {"group": 2, "dilations": [12, 12], "pads": [12, 12, 12, 12]}),
        ((1, 30, 16, 5), (18, 30, 3, 3), {"dilations": [2, 9], "pads": [2, 9, 1, 8], "strides": [2, 1]}),
        ((1, 30, 5, 40), (18, 30, 3, 3), {"dilations": [4, 25], "pads": [4, 25, 4, 25], "strides": [1, 3]}),
        ((2, 6, 3, 4), (5, 6, 3, 3), {"dilations": [7, 5], "pads": [20, 30, 20, 30]}),
    ],
    ids=str,
)
def test_conv(x: Shape, w: Shape, attributes: dict[str, Any], kernel: str) -> None:
    assert kernel in names(op_program("Conv", [ramp(x), weights(*w)], attributes, constants=(1,), fixed=True, pin=kernel))
    how: dict[str, Any] = {"expected": convolved, "constants": (1, 2), "atol": 1e-5}
    check_op("Conv", ramp(x), weights(*w), ramp((w[0],)), **how, pin=kernel, **attributes)
    if kernel == "conv":
        check_op("Conv", ramp(x), weights(*w), ramp((w[0],)), **how, **attributes)  # the weight is computed as well


@pytest.mark.parametrize(
    ("shape", "outputs", "kernel"), [((1, 3, 19, 20), 5, "conv_pixels"), ((1, 40, 6, 7), 40, "conv")], ids=str
)
def test_double_precision(shape: Shape, outputs: int, kernel: str) -> None:
    x, w = ramp(shape, "float64"), weights(outputs, shape[1], 3, 3, dtype="float64")
    how: dict[str, Any] = {"expected": convolved, "constants": (1,), "rtol": 1e-12, "atol": 1e-12, "pads": [1, 1, 1, 1]}
    check_op("Conv", x, w, **how, pin=kernel)


def chosen(x: str, w: Shape, body: str) -> set[str]:
    text = f"({x}, float[{','.join(map(str, w))}] w) => (float[A,B,C,D] y) {{ {body} }}"
    return names(text_program(text, constants={"w": weights(*w)})) & {"conv", "conv_pixels"}


@pytest.mark.parametrize(
    ("x", "w", "attributes", "kernel"),
    [
        ("float[1,32,30,30] x", (1, 32, 3, 3), "", "conv_pixels"),
        ("float[1,128,30,30] x", (128, 4, 3, 3), "<group=32>", "conv_pixels"),
        ("float[N,32,H,W] x", (1, 32, 3, 3), "", "conv_pixels"),
        ("float[1,128,30,30] x", (128, 128, 3, 3), "<dilations=[2,2]>", "conv"),
    ],
    ids=str,
)
def test_pixels_are_for_few_channels(x: str, w: Shape, attributes: str, kernel: str) -> None:
    assert chosen(x, w, f"y = Conv{attributes}(x, w)") == {kernel}


@pytest.mark.parametrize(
    ("body", "kernel"),
    [
        ("y = Conv(x, w)", "conv_pixels"),
        ("c = Conv(x, w) s = Sigmoid(c) y = Neg(s)", "conv_pixels"),
        ("c = Conv(x, w) s = Relu(c) y = MaxPool<kernel_shape=[2,2]>(s)", "conv"),
        ("c = Conv(x, w) s = Softmax(c) y = MaxPool<kernel_shape=[2,2]>(s)", "conv_pixels"),
        ("m = MaxPool<kernel_shape=[2,2]>(x) c = Conv(m, w) y = MaxPool<kernel_shape=[2,2]>(c)", "conv"),
        ("m = MaxPool<kernel_shape=[2,2]>(x) n = Neg(m) y = Conv(n, w)", "conv_pixels"),
        ("m = LpPool<kernel_shape=[2,2]>(x) c = Conv(m, w) y = Transpose<perm=[0,2,3,1]>(c)", "conv"),
    ],
)
def test_where_products_cost_the_same_changes_of_order_decide(body: str, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv_pixels, "work_of_pixels", lambda *_: 1.0)
    monkeypatch.setattr(conv_channels, "work_of_channels", lambda *_, **__: 1.0)
    assert chosen("float[1,1,30,30] x", (16, 1, 3, 3), body) == {kernel}


# --- The kernels for special cases
def test_pointwise_convolutions_are_one_product() -> None:
    assert "channels" in names(op_program("Conv", [ramp((2, 8, 5, 6)), weights(20, 8, 1, 1)], constants=(1,)))
    check_op("Conv", ramp((2, 8, 5, 6)), weights(20, 8, 1, 1), ramp((20,)), expected=convolved, constants=(1, 2), atol=1e-5)
    check_op("Conv", ramp((2, 8, 5)), weights(20, 8, 1), expected=convolved, constants=(1,), atol=1e-5)


@pytest.mark.parametrize("act", ["Relu", "Tanh"])
def test_pointwise_convolutions_of_wide_groups_are_a_product_each(act: str) -> None:
    """Between those who want channels last: here pools of one pixel."""
    text = f"""(float[2,21,h,w] x, float[111,7,1,1] w, float[111] b) => (float[2,111,h,w] y) {{ p = MaxPool<kernel_shape = [1,1]>(x)
        q = com.microsoft.FusedConv<group = 3, activation = "{act}">(p, w, b)  y = MaxPool<kernel_shape = [1,1]>(q) }}"""
    x, held, oracle = ramp((2, 21, 6, 7)), {"w": weights(111, 7, 1, 1), "b": ramp((111,))}, ACTIVATIONS[act][1]
    programs = [text_program(text, constants=held, threads=threads) for threads in (1, 3)]
    assert "channels" in names(programs[0])
    results = [program([x])[0] for program in programs]
    assert_close(results[0], oracle(convolved(x, held["w"], held["b"], group=3)), 1e-5, 1e-5, "groups")
    assert_same(results[0], results[1], "threads change the result")


@pytest.mark.parametrize("kernel", ["channels", "conv_pixels"])
def test_pointwise_convolutions_of_narrow_groups(kernel: str) -> None:
    """Channels last, groups that fit into a panel are one product; by pixels, an image is one line."""
    x, w, b = ramp((2, 24, 9, 13)), weights(30, 4, 1, 1), ramp((30,))
    assert kernel in names(op_program("Conv", [x, w, b], {"group": 6}, constants=(1, 2), fixed=True, pin=kernel))
    check_op("Conv", x, w, b, expected=convolved, constants=(1, 2), atol=1e-5, pin=kernel, group=6)


@pytest.mark.parametrize("kernel", [1, 3])
def test_an_infinity_reaches_its_own_group_alone(kernel: int) -> None:
    """The pools around the convolution keep channels last."""
    graph = f"""(float[1,16,9,9] x, float[16,4,{kernel},{kernel}] w) => (float[1,16,h,v] y) <float[1,16,9,9] p, float[1,16,h,v] q> {{
        p = MaxPool<kernel_shape = [1,1]>(x)  q = Conv<group = 4>(p, w)  y = MaxPool<kernel_shape = [1,1]>(q) }}"""
    x = ramp((1, 16, 9, 9))
    x[0, 0] = np.inf
    [y] = text_program(graph, constants={"w": np.ones((16, 4, kernel, kernel), np.float32)})([x])
    assert np.isposinf(y[0, :4]).all()
    assert np.isfinite(y[0, 4:]).all()


@pytest.mark.parametrize("kernel", [1, 3])
def test_what_is_added_and_not_read_again_is_written_over(kernel: int) -> None:
    """By the last instruction that reads it: the sum needs no memory of its own."""
    text = """(float[1,32,9,10] x, float[48,32,1,1] w, float[48,32,k,k] v) => (float[1,48,4,5] y) {{
        a = Conv(x, w)  b = com.microsoft.FusedConv<pads = [{p},{p},{p},{p}], activation = "Relu">(x, v, , a)
        y = MaxPool<kernel_shape = [2,2], strides = [2,2]>(b) }}"""
    x, held = ramp((1, 32, 9, 10)), {"w": weights(48, 32, 1, 1), "v": weights(48, 32, kernel, kernel)}
    pad = kernel // 2
    program = text_program(text.format(p=pad), constants=held)
    assert program._only is not None and not {"a", "b"} <= set(program._only.segment.names)
    added = np.maximum(convolved(x, held["v"], pads=[pad] * 4) + convolved(x, held["w"]), 0)
    want = added[:, :, :8].reshape(1, 48, 4, 2, 5, 2).max((3, 5))
    assert_close(program([x])[0], want, 1e-4, 1e-4, "in place")


JOINED = """(float[2,16,h,w] x, float[20,16,1,1] a, float[20] d, float[17,16,3,3] b, float[48,16,5,5] c) => (float[2,101,h,w] y)
    <float[2,20,h,w] p, float[2,17,h,w] q, float[2,48,h,w] r, float[2,16,h,w] s> {
    s = MaxPool<kernel_shape = [3,3], pads = [1,1,1,1]>(x)  p = com.microsoft.FusedConv<activation = "Tanh">(s, a, d)
    q = Conv<pads = [1,1,1,1]>(s, b)  r = Conv<pads = [2,2,2,2]>(s, c)  t = Concat<axis = 1>(p, s, q, r)
    y = MaxPool<kernel_shape = [1,1]>(t) }"""
"""Three kernels and a pool write into one result."""


@pytest.mark.parametrize("in_place", [True, False])
def test_convolutions_write_where_a_concat_wants_them(in_place: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads them elsewhere after all gets a copy."""
    if not in_place:
        monkeypatch.setattr(slices, "same_shape", lambda *_: False)
    held = {"a": weights(20, 16, 1, 1), "d": ramp((20,)), "b": weights(17, 16, 3, 3), "c": weights(48, 16, 5, 5)}
    programs = [text_program(JOINED, constants=held, threads=threads) for threads in (1, 3)]
    assert programs[0]._only is not None
    count = len(programs[0]._only.segment.instructions)
    x = ramp((2, 16, 12, 13))
    seen = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    s = sliding_window_view(seen, (3, 3), (2, 3)).max((-1, -2))
    p, q = np.tanh(convolved(s, held["a"], held["d"])), convolved(s, held["b"], pads=[1] * 4)
    want = np.concatenate([p, s, q, convolved(s, held["c"], pads=[2] * 4)], 1)
    results = [program([x])[0] for program in programs]
    assert_close(results[0], want, 1e-4, 1e-4, "joined")
    assert_same(results[0], results[1], "threads change the result")
    assert count == 5 + 2 + (1 if in_place else 4 + 3)  # kernels, changes of order, copies


@pytest.mark.parametrize("channels", [1, 7, 8, 20, 48])
@pytest.mark.parametrize(
    ("size", "kernel", "attributes"),
    [
        ((9, 23), (3, 3), {"pads": [1, 1, 1, 1]}),
        ((9, 23), (3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ((8, 9), (5, 3), {"pads": [1, 0, 3, 1], "dilations": [1, 2]}),
        ((2, 2), (5, 5), {"pads": [2, 2, 2, 2]}),
        ((3, 5), (2, 4), {"dilations": [2, 1], "strides": [1, 3], "pads": [0, 4, 2, 1]}),
    ],
    ids=str,
)
def test_depthwise(channels: int, size: Shape, kernel: Shape, attributes: dict[str, Any]) -> None:
    x, w, b = ramp((2, channels, *size)), weights(channels, 1, *kernel), ramp((channels,))
    check_op("Conv", x, w, b, expected=convolved, constants=(1, 2), atol=1e-5, group=channels, **attributes)


def test_depthwise_over_one_axis_and_with_more_outputs_than_inputs() -> None:
    x = ramp((2, 20, 11))
    check_op("Conv", x, weights(20, 1, 5), expected=convolved, constants=(1,), atol=1e-5, group=20, pads=[2, 2])
    check_op("Conv", x, weights(40, 1, 5), expected=convolved, constants=(1,), atol=1e-5, group=20, pads=[2, 2])


LANES = tile_for("f32", host()).lanes
"""Channels come in whole vectors of this machine's."""


@pytest.mark.parametrize(
    ("channels", "size", "taps", "stride"),
    [
        (LANES + 3, (4, 7), 3, 1),
        (LANES + 3, (5, 15), 3, 2),
        (4 * LANES + 5, (3, 14), 3, 1),
        (4 * LANES + 5, (5, 21), 5, 1),
        (2 * LANES, (5, 17), 5, 1),
        (4 * LANES, (3, 3), 3, 1),
        (32, (130, 265), 3, 2),
    ],
    ids=str,
)
def test_tiles_of_depthwise(channels: int, size: Shape, taps: int, stride: int) -> None:
    """Of 7, 8 and 4 pixels and one vector or two, the last of which some compute again; an image that is fetched ahead."""
    x, w, b = ramp((1, channels, *size)), weights(channels, 1, taps, taps), ramp((channels,))
    given: dict[str, Any] = {"group": channels, "strides": [stride] * 2, "pads": [taps // 2] * 4}
    assert "depthwise" in names(op_program("Conv", [x, w, b], given, constants=(1, 2), fixed=True, pin="depthwise"))
    [got] = run_op("Conv", [x, w, b], given, constants=(1, 2), fixed=True, pin="depthwise")
    assert_close(got, convolved(x, w, b, **given), 1e-5, 1e-5, "depthwise")


@pytest.mark.parametrize(("edge", "stride", "tolerance"), [(2, 1, 3e-6), (2, 2, 3e-6), (4, 1, 3e-5)])
@pytest.mark.parametrize("pads", [[1, 1, 1, 1], [0, 0, 0, 0], [2, 0, 1, 2]], ids=str)
@pytest.mark.parametrize(
    ("size", "channels", "outputs"),
    [
        ((9, 10), 2 * LANES, 5 * LANES),
        ((30, 31), 32, 128 + LANES),
        ((16, 16), 128 + LANES, 32),
        ((9, 10), 2 * LANES + 1, 64 + LANES - 1),
        ((9, 10), LANES + 7, 193),
    ],
    ids=["few", "two blocks of outputs and a vector", "many channels", "parts of vectors", "more parts of vectors"],
)
def test_winograd(
    size: Shape,
    channels: int,
    outputs: int,
    pads: list[int],
    edge: int,
    stride: int,
    tolerance: float,
) -> None:
    x, w, b = ramp((2, channels, *size)), weights(outputs, channels, 3, 3), ramp((outputs,))
    attributes: dict[str, Any] = {"pads": pads, "strides": [stride, stride]}
    want = convolved(x, w, b, **attributes)
    # Judged by the largest magnitude: sums of terms that cancel lose more than those of a direct convolution.
    how: dict[str, Any] = {"expected": want, "constants": (1, 2), "rtol": 0, "atol": tolerance * np.abs(want).max()}
    check_op("Conv", x, w, b, **how, pin=f"winograd-{edge}", **attributes)


@pytest.mark.parametrize(("edge", "taps", "groups"), [(2, 5, 1), (2, 5, 2), (4, 3, 3)])
@pytest.mark.parametrize("size", [(9, 10), (5, 5)], ids=str)
def test_winograd_of_groups_and_of_five_taps(size: Shape, edge: int, taps: int, groups: int) -> None:
    """Outputs of a group: two sets of columns, the second one of parts of vectors."""
    x, w = ramp((2, groups * (LANES + 7), *size)), weights(groups * (32 + LANES + 1), LANES + 7, taps, taps)
    b, attributes = ramp((len(w),)), dict[str, Any](pads=[2, 0, 1, 2], group=groups)
    want = convolved(x, w, b, **attributes)
    how: dict[str, Any] = {"expected": want, "constants": (1, 2), "rtol": 0, "atol": 3e-5 * np.abs(want).max()}
    check_op("Conv", x, w, b, **how, pin=f"winograd-{edge}", **attributes)


@pytest.mark.parametrize(("edge", "taps", "tolerance"), [(2, 3, 3e-6), (4, 3, 1e-5), (2, 5, 1e-5)])
@pytest.mark.parametrize("size", [(23,), (4,), (3, 14), (23, 1)], ids=str)
def test_winograd_along_one_axis(size: Shape, edge: int, taps: int, tolerance: float) -> None:
    """Over sound, lines of an image, a column of it; of two groups with parts of vectors. Lengths are known."""
    kernel = {1: (taps,), 2: (taps, 1) if size[-1] == 1 else (1, taps)}[len(size)]
    pads = {1: [2, 1], 2: [2, 0, 1, 0] if size[-1] == 1 else [1, 2, 0, 1]}[len(size)]
    x, w = ramp((2, 2 * (LANES + 7), *size)), weights(2 * (32 + LANES + 1), LANES + 7, *kernel)
    b, attributes = ramp((len(w),)), dict[str, Any](pads=pads, group=2)
    want = convolved(x, w, b, **attributes)
    for threads in (1, 3):
        how: dict[str, Any] = {"constants": (1, 2), "fixed": True, "threads": threads, "pin": f"winograd-{edge}"}
        [got] = run_op("Conv", [x, w, b], attributes, **how)
        assert_close(got, want, 0, tolerance * np.abs(want).max(), f"{threads} threads")


def edges(images: Dim, channels: int, size: Sequence[Dim], taps: int = 3, stride: int = 1, groups: int = 1) -> list[int]:
    """The sizes of Winograd tiles for results of that size on a wide register tile and on a narrow one; 0: there are none."""
    rank, results = len(size), (images, channels, *size)
    image, pads = (images, channels, *(n * stride for n in size)), (taps // 2,) * rank
    sizes = conv.sizes_of(image, results, (taps,) * rank, (stride,) * rank, pads, (1,) * rank, groups)
    return [_cheapest(sizes, Tile(12, 2, 16)), _cheapest(sizes, Tile(6, 2, 8))]


def _cheapest(sizes: Geometry, tile: Tile) -> int:
    costs = {0: work_of_channels(sizes.numbers, tile, dense=True)}
    for edge in (4, 2):
        if conv_channels._has_transform(sizes, edge):
            costs[edge] = work_of_winograd(sizes.numbers, edge, tile, sizes.axes)
    return min(costs, key=costs.__getitem__)


N, L = symbol("N"), symbol("L")


@pytest.mark.parametrize(
    ("images", "channels", "size", "taps", "stride", "groups", "expected"),
    [
        (1, 64, [400], 3, 1, 1, [4, 4]), (N, 64, [400], 5, 1, 1, [2, 2]), (1, 64, [400], 7, 1, 1, [0, 0]),
        (1, 256, [64], 3, 1, 1, [4, 4]), (1, 64, [4, 4], 3, 1, 1, [2, 2]), (2, 64, [7, 7], 3, 1, 1, [4, 4]),
        (N, 64, [14, 14], 3, 1, 1, [4, 4]), (1, 64, [L, L], 3, 1, 1, [4, 4]), (1, 64, [28, 28], 5, 1, 1, [2, 2]),
        (1, 64, [14, 14], 5, 1, 2, [2, 2]), (1, 64, [L, L], 5, 1, 1, [2, 2]), (1, 64, [12, 12], 3, 1, 2, [4, 4]),
        (1, 64, [14, 14], 3, 2, 1, [2, 2]), (1, 64, [7, 7], 3, 2, 1, [0, 0]), (1, 256, [14, 14], 3, 2, 1, [2, 2]),
        (1, 64, [L, L], 3, 2, 1, [2, 2]),
    ],
    ids=str,
)  # fmt: skip
def test_the_cheapest_tiles_of_winograd(
    images: Dim, channels: int, size: Sequence[Dim], taps: int, stride: int, groups: int, expected: list[int]
) -> None:
    """As they were measured, one image where the batch is open, on wide and narrow tiles of registers; 0: the general kernel."""
    assert edges(images, channels, size, taps, stride, groups) == expected


@pytest.mark.parametrize(
    ("attributes", "fixed", "kernel"), [({}, True, True), ({}, False, False), ({"group": 64}, True, False)]
)
def test_winograd_along_one_axis_is_for_lengths_that_are_known(attributes: dict[str, Any], fixed: bool, kernel: bool) -> None:
    inputs = [ramp((1, 64, 400)), weights(64, 64 // attributes.get("group", 1), 3)]
    assert ("winograd" in names(op_program("Conv", inputs, attributes, constants=(1,), fixed=fixed))) == kernel


@pytest.mark.parametrize(
    ("channels", "size", "usual", "tiles", "block"),
    [
        (64, 28, 24, 49, 36),
        (256, 28, 48, 49, 52),
        (64, 12, 12, 9, 12),
        (64, symbol("N"), 24, 36, 24),
        (64, symbol("N"), 24, 80, 28),
    ],
    ids=str,
)
def test_blocks_of_tiles_are_about_as_large(channels: int, size: Dim, usual: int, tiles: int, block: int) -> None:
    """Reading all filters for a last tile would cost more than its products."""
    image = (1, channels, size, size)
    sizes = conv.sizes_of(image, image, (3, 3), (1, 1), (1, 1), (1, 1), 1)
    assert conv_channels._block(sizes, 4, Tile(12, 2, 16)) == usual
    assert winograd.block_of(tiles, usual, 12) == block


@pytest.mark.parametrize("rows", [12, 6, 3])
def test_blocks_of_tiles_fit_the_scratch(rows: int) -> None:
    for usual in range(rows, 8 * rows, rows):
        blocks = [winograd.block_of(tiles, usual, rows) for tiles in range(400)]
        assert all(0 < block <= usual + usual // 2 and block % winograd.step_of(rows) == 0 for block in blocks)


@pytest.mark.parametrize(("channels", "usual"), [(64, 48), (128, 48), (160, 24)])
def test_blocks_of_a_stride_of_two_are_small_where_channels_are_many(channels: int, usual: int) -> None:
    sizes = conv.sizes_of((1, channels, 56, 56), (1, channels, 28, 28), (3, 3), (2, 2), (1, 1), (1, 1), 1)
    assert conv_channels._block(sizes, 2, Tile(12, 2, 16)) == usual


@pytest.mark.parametrize(
    ("tiles", "sets", "expected"),
    [
        (49, 8, [(0, 49, 0, 4), (0, 49, 4, 8)]),
        (144, 3, [(0, 72, 0, 3), (72, 144, 0, 3)]),
        (16, 8, [(0, 16, 0, 4), (0, 16, 4, 8)]),
    ],
    ids=["a tile more than a block", "three blocks, three sets", "few tiles"],
)
def test_two_parts_of_winograd_have_about_as_much_to_do(tiles: int, sets: int, expected: list[tuple[int, ...]]) -> None:
    assert [winograd.share_of(tiles, sets, 36, 36 * 32, 12, part, 2) for part in range(2)] == expected


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(("size", "stride", "edge"), [((26, 26), 1, 4), ((14, 14), 1, 2), ((26, 26), 2, 2)], ids=str)
def test_parts_of_winograd_give_the_same_bits(size: Shape, stride: int, edge: int, fixed: bool, threads: int) -> None:
    """The last of 49 tiles sums its products in a different order than the others."""
    attributes: dict[str, Any] = {"pads": [1, 1, 1, 1], "strides": [stride, stride]}
    inputs, how = (
        [ramp((1, 128, *size)), weights(32, 128, 3, 3)],
        {"constants": (1,), "fixed": fixed, "pin": f"winograd-{edge}"},
    )
    one, several = (run_op("Conv", inputs, attributes, threads=n, **how)[0] for n in (1, threads))
    assert_same(one, several, "threads change the result")


def test_winograd_can_be_turned_off() -> None:
    x, w = ramp((1, 32, 9, 9)), weights(32, 32, 3, 3)
    x_value, y = Value("x", TensorType("float32", x.shape)), Value("y", TensorType("float32", (1, 32, 7, 7)))
    node = Node("Conv", [x_value, Value("w", None, w)], [y], {}, version=21)
    program = Program([node], [(x_value, Info(x_value.type))], [y], rules(), CPUOptions(winograd=False), {})
    assert "winograd" not in names(program)
    assert_close(program([x])[0], convolved(x, w), 1e-5, 1e-5, "direct")


@pytest.mark.parametrize(("channels", "outputs", "kernel"), [(31, 64, True), (64, 33, True), (4, 64, False), (64, 3, False)])
def test_winograd_is_for_a_vector_of_channels_at_least(channels: int, outputs: int, kernel: bool) -> None:
    program = op_program("Conv", [ramp((1, channels, 9, 9)), weights(outputs, channels, 3, 3)], constants=(1,))
    assert ("winograd" in names(program)) == kernel


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_blocks_of_columns_leave_a_vector_at_least(lanes: int) -> None:
    for outputs in range(lanes, 700):
        columns = conv_channels._columns(outputs, lanes)
        assert lanes <= columns <= conv_channels.COLUMNS and (outputs % columns == 0 or outputs % columns >= lanes)


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((1, 8, 33, 20), (40, 8, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 8, 9, 10), (20, 8, 1, 1), {}),
        ((1, 8, 9, 10), (24, 4, 3, 3), {"group": 2}),
        ((1, 24, 19, 20), (24, 1, 3, 3), {"group": 24, "pads": [1, 1, 1, 1]}),
        ((1, 32, 40, 41), (96, 32, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 32, 7, 7), (96, 32, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 5, 9, 700), (5, 5, 3, 3), {"pads": [1, 1, 1, 1], "strides": [1, 2]}),
        ((1, 8, 9, 10), (300, 8, 5, 5), {"pads": [2, 2, 2, 2]}),
        ((1, 64, 9, 10), (192, 32, 5, 5), {"pads": [2, 2, 2, 2], "group": 2}),
        ((1, 9, 99, 99), (70, 9, 3, 3), {"strides": [2, 2]}),
        ((2, 300, 16, 16), (192, 300, 3, 3), {"dilations": [12, 12], "pads": [12, 12, 12, 12]}),
    ],
    ids=str,
)
def test_one_thread_and_several_give_the_same_bits(x: Shape, w: Shape, attributes: dict[str, Any]) -> None:
    how: dict[str, Any] = {"constants": (1,), "fixed": True}
    results = [run_op("Conv", [ramp(x), weights(*w)], attributes, threads=n, **how)[0] for n in (1, 2, 3, 7)]
    for result in results[1:]:
        assert_same(results[0], result, "threads change the result")


# --- Taps that see only padding
@pytest.mark.parametrize(
    ("size", "kernel", "attributes", "expected"),
    [
        ((16, 16), (3, 3), {"dilations": [24, 24], "pads": [24] * 4}, (1, 1)),
        ((16, 16), (3, 3), {"dilations": [12, 24], "pads": [12, 24] * 2}, (3, 1)),
        ((16, 16), (3, 3), {"dilations": [12, 12], "pads": [12] * 4}, (3, 3)),
        ((2,), (5,), {"pads": [2, 2]}, (3,)), ((1,), (3,), {"pads": [1, 1]}, (1,)),
        ((2, 2), (3, 3), {"strides": [2, 2], "pads": [1] * 4}, (2, 2)),
        ((3, 4), (3, 3), {"dilations": [7, 5], "pads": [20, 30] * 2}, (3, 3)),
    ],
    ids=str,
)  # fmt: skip
def test_taps_that_see_only_padding_are_left_out(
    size: Shape, kernel: Shape, attributes: dict[str, Any], expected: Shape
) -> None:
    x, w = ramp((2, 20, *size)), weights(18, 20, *kernel)
    check_op("Conv", x, w, expected=convolved, constants=(1,), atol=1e-5, **attributes)
    strides, pads, dilations = conv_attributes(len(size), attributes)
    sizes = conv.sizes_of(x.shape, convolved(x, w, **attributes).shape, kernel, strides, pads, dilations, 1)
    kept = conv.without_padding_taps(sizes, Weight(w, None, w))[0]
    assert kept.kernel[3 - len(size) :] == expected


def conv_attributes(rank: int, attributes: dict[str, Any]) -> list[Sequence[int]]:
    """Strides, pads in front and dilations."""
    given = {"strides": [1] * rank, "pads": [0] * 2 * rank, "dilations": [1] * rank} | attributes
    return [given["strides"], given["pads"][:rank], given["dilations"]]


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_weights_that_meet_only_padding_may_be_anything(value: float) -> None:
    """Sizes are known. onnxruntime leaves products with padding out, too."""
    x, w = ramp((1, 20, 8, 8)), np.full((18, 20, 3, 3), value, np.float32)
    w[:, :, 1:2, 1:2] = weights(18, 20, 1, 1)
    how: dict[str, Any] = {"constants": (1,), "fixed": True, "pin": "pointwise"}
    [got] = run_op("Conv", [x, w], {"dilations": [9, 9], "pads": [9] * 4}, **how)
    assert_close(got, convolved(x, w[:, :, 1:2, 1:2]), 0, 1e-5, str(value))


# --- FusedConv
def leaky(x: Array) -> Array:
    return np.where(x < 0, np.float32(0.25) * x, x)


ACTIVATIONS: dict[str, tuple[Sequence[float], Any]] = {
    "": ((), lambda x: x),
    "Relu": ((), lambda x: np.maximum(x, 0)),
    "Clip": ((-0.25, 0.5), lambda x: np.clip(x, np.float32(-0.25), np.float32(0.5))),
    "LeakyRelu": ((0.25,), leaky),
    "Sigmoid": ((), lambda x: 1 / (1 + np.exp(-x))),
    "Swish": ((1.5,), lambda x: x / (1 + np.exp(-1.5 * x))),
    "Elu": ((0.5,), lambda x: np.where(x < 0, 0.5 * np.expm1(x), x)),
    "Tanh": ((), np.tanh),
    "HardSigmoid": ((0.3, 0.4), lambda x: np.clip(np.float32(0.3) * x + np.float32(0.4), 0, 1)),
}
KERNELS: dict[str, tuple[Shape, Shape, dict[str, Any]]] = {
    "general": ((2, 7, 9, 10), (21, 7, 3, 3), {"pads": [1, 1, 1, 1]}),
    "taps apart": ((2, 40, 12, 11), (20, 40, 3, 3), {"dilations": [8, 7], "pads": [8, 7, 8, 7]}),
    "pixels": ((2, 8, 9, 10), (5, 8, 3, 3), {"pads": [1, 1, 1, 1]}),
    "pointwise": ((2, 8, 9, 10), (20, 8, 1, 1), {}),
    "depthwise": ((2, 20, 9, 10), (20, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 20}),
    "winograd": ((1, 32, 9, 10), (40, 32, 3, 3), {"pads": [1, 1, 1, 1]}),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("residual", [False, True], ids=["alone", "with Z"])
@pytest.mark.parametrize("name", ["Relu", "Clip", "LeakyRelu"])
def test_fused_conv(kernel: str, residual: bool, name: str) -> None:
    shape, weight, attributes = KERNELS[kernel]
    x, w, b, (params, oracle) = ramp(shape), weights(*weight), ramp((weight[0],)), ACTIVATIONS[name]
    plain = convolved(x, w, b, **attributes)
    z = ramp(plain.shape) if residual else None
    given: list[Array | None] = [x, w, b, z] if residual else [x, w, b]
    want = oracle(plain + (0 if z is None else z))
    atol = 3e-5 * float(np.abs(want).max())
    more: dict[str, Any] = {"activation": name} | ({"activation_params": list(params)} if params else {})
    check_op("FusedConv", *given, expected=want, constants=(1, 2), rtol=0, atol=atol, **attributes, **more, **MICROSOFT)


@pytest.mark.parametrize("name", ["", "Sigmoid", "Tanh", "HardSigmoid", "Swish", "Elu"])
def test_activations_of_a_fused_conv(name: str) -> None:
    x, w, (params, oracle) = ramp((2, 8, 9, 10)), weights(40, 4, 3, 3), ACTIVATIONS[name]
    more: dict[str, Any] = {"group": 2, "activation": name} | ({"activation_params": list(params)} if params else {})
    want = oracle(convolved(x, w, group=2)).astype(np.float32)
    check_op("FusedConv", x, w, expected=want, constants=(1,), atol=1e-5, **more, **MICROSOFT)


# --- Errors
def test_more_axes_than_there_are_kernels_for_are_an_error() -> None:
    with pytest.raises(NotImplemented, match="4 spatial axes"):
        op_program("Conv", [ramp((1, 1, 2, 2, 2, 2)), ramp((1, 1, 1, 1, 1, 1))])


@pytest.mark.parametrize(
    ("x", "w", "b", "message"),
    [
        ((1, 3, 5, 5), (4, 2, 3, 3), (4,), r"X, .* is 3, but group\*C is 2"),
        ((1, 3, 5, 5), (4, 3, 3, 3), (5,), "B, .* is 5, but M is 4"),
    ],
)
def test_operands_that_do_not_fit_are_an_error(x: Shape, w: Shape, b: Shape, message: str) -> None:
    for fixed in (False, True):
        with pytest.raises((InvalidArgument, ShapeInferenceError), match=message):
            run_op("Conv", [ramp(x), ramp(w), ramp(b)], fixed=fixed)


def test_depthwise_lines_without_pixels_leave_the_bias() -> None:
    """Tiles at an edge read a line's first column in place of those outside, which is not there."""
    x, w, b = np.zeros((2, 8, 3, 0), np.float32), weights(8, 1, 1, 2), ramp((8,))
    attributes: dict[str, Any] = {"pads": [0, 1, 0, 2], "group": 8}
    program = op_program("Conv", [x, w, b], attributes, constants=(1, 2))
    assert "depthwise" in names(program)
    check_op("Conv", x, w, b, **attributes, constants=(1, 2), expected=np.broadcast_to(b[:, None, None], (2, 8, 3, 2)))


def test_long_strides_are_not_unrolled() -> None:
    x, w = ramp((1, 8, 9, 200)), weights(8, 1, 3, 3)
    attributes: dict[str, Any] = {"strides": [1, 90], "group": 8}
    assert "depthwise" not in names(op_program("Conv", [x, w], attributes, constants=(1,)))
    check_op("Conv", x, w, **attributes, constants=(1,), rtol=1e-4, atol=1e-4)


# --- Planes: images that lie in ONNX's own order
PLANES: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((2, 5, 9, 30), (5, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 5}),
    ((2, 5, 9, 16), (5, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 5}),
    ((1, 3, 3, 17), (3, 1, 3, 3), {"pads": [2, 0, 2, 1], "group": 3}),
    ((1, 3, 9, 37), (3, 1, 3, 3), {"pads": [0, 1, 1, 1], "group": 3, "strides": [2, 2]}),
    ((1, 3, 9, 36), (3, 1, 3, 3), {"pads": [1, 0, 0, 1], "group": 3, "strides": [1, 2]}),
    ((1, 3, 11, 41), (3, 1, 5, 5), {"pads": [2, 2, 2, 2], "group": 3}),
    ((1, 2, 2, 20), (2, 1, 5, 5), {"pads": [4, 4, 4, 4], "group": 2}),
    ((2, 7, 5, 41), (13, 7, 1, 1), {}),
    ((1, 390, 3, 40), (9, 390, 1, 1), {}),
]
"""Rows and products with and without whole vectors on each CPU, more zeros than a kernel sees, more channels than one pass takes."""


@pytest.mark.parametrize(("x", "w", "attributes"), PLANES, ids=str)
def test_planes(x: Shape, w: Shape, attributes: dict[str, Any]) -> None:
    plain = [ramp(x), weights(*w), ramp((w[0],))]
    assert names(op_program("Conv", plain, attributes, constants=(1, 2), fixed=True)) & {"pointwise", "depthwise_planes"}
    check_op("Conv", *plain, expected=convolved, constants=(1, 2), rtol=1e-5, atol=1e-5, **attributes)


MASKED: list[tuple[int, int, int, int]] = [
    (window, stride, height, width)
    for window, stride in ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (7, 2), (4, 2))
    for height, width in ((4, 7), (7, 12), (9, 15), (14, 14), (17, 19), (29, 33), (8, 50))
]


@pytest.mark.parametrize(("window", "stride", "height", "width"), MASKED, ids=str)
def test_planes_of_any_width_and_height(window: int, stride: int, height: int, width: int) -> None:
    """Rows that are narrower than a vector, and numbers of rows that are no multiple of those of a tile."""
    x, w, b = ramp((1, 3, height, width)), weights(3, 1, window, window), ramp((3,))
    attributes: dict[str, Any] = {"pads": [window // 2] * 4, "strides": [stride, stride], "group": 3}
    check_op("Conv", x, w, b, expected=convolved, constants=(1, 2), rtol=1e-5, atol=1e-5, **attributes)


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 7, 9, 41), (13, 7, 1, 1), {"strides": [2, 2]}),
        ((1, 390, 6, 80), (9, 390, 1, 1), {"strides": [3, 1]}),
        ((1, 6, 200), (5, 6, 1), {"strides": [3]}),
        ((2, 3, 5, 8, 9), (4, 3, 1, 1, 1), {"strides": [2, 1, 2]}),
    ],
    ids=str,
)
def test_pointwise_convolutions_with_strides(x: Shape, w: Shape, attributes: dict[str, Any]) -> None:
    plain = [ramp(x), weights(*w), ramp((w[0],))]
    how: dict[str, Any] = {"constants": (1, 2), "fixed": True, "pin": "pointwise_strided"}
    for threads in (1, 3):
        assert {"pointwise", "copy_by_strides"} <= names(op_program("Conv", plain, attributes, threads=threads, **how))
        [got] = run_op("Conv", plain, attributes, threads=threads, **how)
        assert_close(got, convolved(*plain, **attributes), 1e-5, 1e-5, f"{threads} threads")


SEPARABLE = """(float[2,{c},{h},{w}] x, float[{c},1,3,3] w, float[{c}] b, float[{o},{c},1,1] v, float[{o}] d) => (float[2,{o},p,q] y) {{
    a = com.microsoft.FusedConv<activation = "Relu", group = {c}, pads = [1,1,1,1], strides = [{s},{s}]>(x, w, {b})
    y = com.microsoft.FusedConv<activation = "{act}">(a, v, {d}) }}"""


@pytest.mark.parametrize(
    ("c", "o", "h", "w", "s", "act", "biased"),
    [(5, 13, 11, 30, 1, "Relu", True), (5, 13, 21, 37, 2, "Tanh", True), (24, 3, 13, 68, 1, "Relu", False)],
)
def test_depthwise_and_pointwise_are_one_kernel(c: int, o: int, h: int, w: int, s: int, act: str, biased: bool) -> None:
    x, oracle = ramp((2, c, h, w)), ACTIVATIONS[act][1]
    held = {"w": weights(c, 1, 3, 3), "v": weights(o, c, 1, 1), "b": ramp((c,)), "d": ramp((o,))}
    b, d = ("b", "d") if biased else ("", "")
    text = SEPARABLE.format(c=c, o=o, h=h, w=w, s=s, act=act, b=b, d=d)
    programs = [text_program(text, constants=held, threads=threads) for threads in (1, 2, 3)]
    assert names(programs[0]) == {"separable"}
    between = np.maximum(convolved(x, held["w"], held.get(b), pads=[1] * 4, strides=[s, s], group=c), 0)
    results = [program([x])[0] for program in programs]
    assert_close(results[0], oracle(convolved(between, held["v"], held.get(d))), 1e-5, 1e-5, "one kernel")
    for result in results[1:]:
        assert_same(results[0], result, "threads change the result")


def test_planes_go_on_channels_last_where_that_moves_less() -> None:
    """The change of order comes before or after; what reads the result says which it is."""
    text = """(float[1,8,16,64] x, float[{o},8,1,1] w) => (float[1,{o},8,32] y) {{
        a = Conv(x, w)  y = MaxPool<kernel_shape = [2,2], strides = [2,2]>(a) }}"""
    for outputs, kernel in ((8, "pointwise"), (16, "channels")):
        held = {"w": weights(outputs, 8, 1, 1)}
        assert kernel in names(text_program(text.format(o=outputs), constants=held))
