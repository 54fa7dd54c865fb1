"""Batch-, Layer-, RMS-, Instance-, Group-, Lp- and MeanVarianceNormalization, LRN."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import itemsize
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, SUMS, Ptr, Static, fabs, like, native, null, power, shift, span, sqrt
from ort_lite.shapes import product
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.kernels.access import fetch, put
from ort_lite_cpu.lowering.attributes import axis_of
from ort_lite_cpu.lowering.expression import define
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, channels_last
from ort_lite_cpu.operators.reshape import broadcast_to
from ort_lite_cpu.operators.targets import round_targets, target_of, wide_target_of
from ort_lite_cpu.registry import REAL, operator

NEAR = 2048
"""Elements of x that are near, in the first cache level, and as many of y with them."""


@operator("BatchNormalization", types=REAL)
def batch_normalization(op: NodeLowering) -> None:
    """Emit x * scale + shift with two numbers a channel, made here if the statistics are constants. Spec: ONNX BatchNormalization-15.

    Before opset 9 `spatial=0` asks for two numbers an element of an item; before 14 the outputs that are asked for say whether
    it is training.
    """
    x = op.raw(0)
    for index in range(1, 5):
        if not op.attr("spatial", 1):
            op.agree(op.raw(index).shape, x.shape[1:], f"input {index} has another shape than an item of the input")
    if op.attr("training_mode", 0) or op.wants(1):
        from ort_lite_cpu.operators.statistics import train_batch_normalization

        train_batch_normalization(op)
        return
    spatial = (1,) * max(len(x.shape) - 2, 0) if op.attr("spatial", 1) else ()
    constants = [op.constant(k) for k in range(1, 5)]
    epsilon = float(op.attr("epsilon", 1e-5))
    if all(array is not None for array in constants):
        scale, bias, mean, variance = (np.asarray(array, np.float64) for array in constants)
        factor = scale / np.sqrt(variance + epsilon)
        shift = bias - mean * factor
        dtype = np.dtype(x.dtype)
        operands = [op.array(a.astype(dtype).reshape(*a.shape, *spatial)) for a in (factor, shift)]
        define(op, "fma({0}, {1}, {2})", [x, *operands])
        return
    views = [op.view(op.input(k), (*op.raw(k).shape, *spatial)) for k in range(1, 5)]
    define(op, "fma(({0} - {3}) / sqrt({4} + {s0}), {1}, {2})", [x, *views], [epsilon], 1.0)


@native(fastmath=SUMS)
@extents(
    x="rows * n", scale="group * ceildiv(n, run)", bias="group * ceildiv(n, run)", y="rows * n", mean="rows", inverse="rows"
)
def normalise(
    x: Ptr,
    scale: Ptr,
    bias: Ptr,
    y: Ptr,
    mean: Ptr,
    inverse: Ptr,
    rows: int,
    n: int,
    group: int,
    run: int,
    epsilon: float,
    centred: Static,
    part: int,
    parts: int,
) -> int:
    """y[r, i] = (x[r, i] - mean) / sqrt(variance + epsilon) * scale[c] + bias[c], mean and variance of row r.

    c = (r % group) * (n // run) + i // run: layer norm has group 1, run 1; instance norm group C, run n. centred False: root
    mean square. scale, bias, mean and inverse may be null. Two passes in the element type, the second around the mean. n is a
    multiple of run: that of one row, of a channel or of its elements.
    """
    for row in span(rows, part, parts):
        p = row * n
        centre = like(x, 0)
        if centred:
            for i in range(n):
                centre += x[p + i]
            centre = centre / like(x, n)
        total = like(x, 0)
        for i in range(n):
            d = x[p + i] - centre
            total += d * d
        factor = like(x, 1) / sqrt(total / like(x, n) + like(x, epsilon))
        if not null(mean):
            mean[row] = centre
        if not null(inverse):
            inverse[row] = factor
        first = (row % group) * (n // run)
        if run == 1 and not null(scale):
            if null(bias):
                for i in range(n):
                    put(y, p + i, (fetch(x, p + i) - centre) * factor * fetch(scale, first + i))
            else:
                for i in range(n):
                    put(y, p + i, (fetch(x, p + i) - centre) * factor * fetch(scale, first + i) + fetch(bias, first + i))
            continue
        for c in range(n // run):
            s = factor if null(scale) else factor * scale[first + c]
            b = like(x, 0) if null(bias) else bias[first + c]
            for i in range(c * run, (c + 1) * run):
                put(y, p + i, (fetch(x, p + i) - centre) * s + b)
    return OK


ROW, CENTRED, PLAIN = 14.0, 0.065, 0.05
"""The nanoseconds of a row, and of a byte with and without the pass for the mean."""


def _emit(
    op: NodeLowering,
    operands: Sequence[Tensor | None],
    rows: Dim,
    n: Dim,
    group: Dim,
    run: Dim,
    epsilon: float,
    centred: bool = True,
) -> None:
    """Emit the kernel. operands: x, scale, bias, y, mean, inverse."""
    x, y = operands[0], operands[3]
    assert x is not None and y is not None
    sizes: dict[str, Any] = {"rows": rows, "n": n, "group": group, "run": run}
    work = linear_work(rows, ROW) + linear_work(x.size * itemsize(x.dtype), CENTRED if centred else PLAIN)
    op.emit(normalise, operands, **sizes, epsilon=epsilon, centred=centred, work=work, inplace=(3, 0))


@operator("MeanVarianceNormalization", since=9, types=REAL)
def mean_variance_normalization(op: NodeLowering) -> None:
    """Normalize to mean 0 and variance 1 over `axes`, which are brought to the end. Spec: ONNX MeanVarianceNormalization-13."""
    rank = len(op.raw(0).shape)
    axes = sorted({axis_of(op, axis, rank) for axis in op.attr("axes", [0, 2, 3])})
    order = (*(axis for axis in range(rank) if axis not in axes), *axes)
    x, y = op.input(0, order), op.output(0, order)
    n = product([x.shape[axis] for axis in axes])
    rows = product([x.shape[axis] for axis in order[: rank - len(axes)]])
    # The square of the 1e-9 that the specification adds to the deviation; it only counts where that is 0.
    _emit(op, [x, None, None, y, None, None], rows, n, 1, n, 1e-18)


@operator("LayerNormalization", since=1, types=REAL)
def layer_normalization(op: NodeLowering) -> None:
    """Normalize over the axes from `axis` on; outputs mean and inverse deviation if requested. Spec: ONNX LayerNormalization-17."""
    _normalize_from_axis(op, centred=True)


@operator("RMSNormalization", since=23, types=REAL)
@operator("SimplifiedLayerNormalization", types=REAL)
def rms_normalization(op: NodeLowering) -> None:
    """Emit RMSNormalization, or onnxruntime's SimplifiedLayerNormalization, which also returns the inverse deviation."""
    _normalize_from_axis(op, centred=False)


def _normalize_from_axis(op: NodeLowering, centred: bool) -> None:
    """Emit the operators that normalize all that lies from `axis` on. Statistics are rounded to the type that `stash_type` says.

    If the scale has another type than x, the result is converted to it in the end.
    """
    x = op.input(0)
    axis, y = axis_of(op, op.attr("axis", -1), len(x.shape)), target_of(op, 0, x.dtype)
    statistics = {index: wide_target_of(op, index) for index in (1, 2) if op.wants(index)}
    mean, inverse = (statistics.get(1), statistics.get(2)) if centred else (None, statistics.get(1))
    rows, n = product(x.shape[:axis]), product(x.shape[axis:])
    operands = [x, _full(op, 1, x, axis), _full(op, 2, x, axis) if centred else None, y, mean, inverse]
    _emit(op, operands, rows, n, 1, 1, float(op.attr("epsilon", 1e-5)), centred)
    round_targets(op, {0: y, **statistics})


def _full(op: NodeLowering, index: int, x: Tensor, axis: int) -> Tensor | None:
    """Return a scale or bias with one number for each normalised element; smaller ones are broadcast first."""
    given = op.optional(index)
    if given is None:
        return None
    given = op.cast(given, x.dtype)
    wanted = x.shape[axis:]
    lead = max(len(given.shape) - len(wanted), 0)
    op.agree(given.shape[:lead], (1,) * lead, "its scale has an axis too many")
    return broadcast_to(op, given, given.shape[lead:], wanted)


@operator("InstanceNormalization", types=REAL)
def instance_normalization(op: NodeLowering) -> None:
    """Normalize each (n, c) plane by itself. Spec: ONNX InstanceNormalization-22."""
    x, y = op.input(0), op.output(0)
    rows, n = product(x.shape[:2]), product(x.shape[2:])
    _emit(op, [x, op.input(1), op.input(2), y, None, None], rows, n, x.shape[1], n, float(op.attr("epsilon", 1e-5)))


@operator("GroupNormalization", since=18, types=REAL)
def group_normalization(op: NodeLowering) -> None:
    """Normalize groups of channels together; scale and bias a channel (opset 18: a group). Spec: ONNX GroupNormalization-21."""
    x, y = op.input(0), op.output(0)
    groups = op.attr("num_groups")
    channels = x.shape[1] // groups
    area = product(x.shape[2:])
    run = area if op.version >= 21 else channels * area
    operands = [x, op.input(1), op.input(2), y, None, None]
    _emit(op, operands, x.shape[0] * groups, channels * area, groups, run, float(op.attr("epsilon", 1e-5)))


@native
@extents(x="rows * c", y="rows * c")
def local_response(
    x: Ptr, y: Ptr, rows: int, c: int, alpha: float, beta: float, bias: float, size: Static, part: int, parts: int
) -> int:
    """y[r, i] = x[r, i] / (bias + alpha / size * sum of squares of size channels around i) ** beta, channels last.

    Some rows at a time, which stay in the first cache level, as one run of elements: vectors go on over the end of a row. What is
    wrong there, the sums at both ends of each row, is put right before it is used. Spec: ONNX LRN-13.
    """
    before, after = (size - 1) // 2, size // 2
    together = max(NEAR // max(c, 1), 1)
    for block in span((rows + together - 1) // together, part, parts):
        start, end = block * together * c, min((block + 1) * together, rows) * c
        _sums_of_squares(shift(x, start), shift(y, start), end - start, size)
        for p in range(start, end, c):
            _sums_at_ends(shift(x, p), shift(y, p), c, before, after)
        _divide_by_power(shift(x, start), shift(y, start), end - start, alpha / size, beta, bias)
    return OK


@native
def _sums_of_squares(x: Ptr, y: Ptr, n: int, size: Static) -> None:
    """y[i] = sum of `size` squares around x[i], where all of them are among the n; elsewhere y is left open."""
    before = (size - 1) // 2
    for i in range(n - size + 1):
        total = x[i] * x[i]
        for k in range(1, size):
            total += x[i + k] * x[i + k]
        y[before + i] = total


@native
def _sums_at_ends(x: Ptr, y: Ptr, c: int, before: int, after: int) -> None:
    """Compute `_sums_of_squares` for the ends of a row of c channels; channels beyond the row do not count."""
    for i in range(min(before, c)):
        y[i] = _sum_of_squares(x, 0, min(i + after + 1, c))
    for i in range(max(c - after, min(before, c)), c):
        y[i] = _sum_of_squares(x, max(i - before, 0), c)


@native
def _sum_of_squares(x: Ptr, first: int, last: int) -> object:
    total = like(x, 0)
    for k in range(first, last):
        total += x[k] * x[k]
    return total


@native
def _divide_by_power(x: Ptr, y: Ptr, n: int, factor: float, beta: float, bias: float) -> None:
    """y[i] = x[i] / (bias + factor * y[i]) ** beta."""
    if beta == 0.75:
        for i in range(n):
            root = sqrt(like(x, bias) + like(x, factor) * y[i])
            y[i] = x[i] / (root * sqrt(root))
    else:
        for i in range(n):
            y[i] = x[i] / power(like(x, bias) + like(x, factor) * y[i], like(x, beta))


@operator("LRN", types=REAL)
def lrn(op: NodeLowering) -> None:
    """Emit LRN over channels-last images."""
    if op.attr("size") < 1:
        raise op.reject(f"size {op.attr('size')}; it should be positive")
    order = channels_last(len(op.raw(0).shape))
    x, y = op.input(0, order), op.output(0, order)
    c = x.shape[1]
    rows, size = product([x.shape[0], *x.shape[2:]]), op.attr("size")
    alpha, beta, bias = float(op.attr("alpha", 1e-4)), float(op.attr("beta", 0.75)), float(op.attr("bias", 1.0))
    op.emit(local_response, [x, y], rows=rows, c=c, size=size, alpha=alpha, beta=beta, bias=bias, work=x.size * 4)


@native
@extents(x="outer * n * inner", y="outer * n * inner")
def lp_normalise(x: Ptr, y: Ptr, outer: int, n: int, inner: int, p: int, part: int, parts: int) -> int:
    """y[o, :, i] = x[o, :, i] / its p-norm; zero vectors stay zero."""
    for row in span(outer * inner, part, parts):
        base = (row // inner) * n * inner + row % inner
        total = like(x, 0)
        for k in range(n):
            v = x[base + k * inner]
            total += fabs(v) if p == 1 else v * v
        norm = total if p == 1 else sqrt(total)
        for k in range(n):
            y[base + k * inner] = like(x, 0) if norm == like(x, 0) else x[base + k * inner] / norm
    return OK


@operator("LpNormalization", types=REAL)
def lp_normalization(op: NodeLowering) -> None:
    """Emit LpNormalization with p 1 or 2."""
    x, y = op.input(0), op.output(0)
    axis = axis_of(op, op.attr("axis", -1), len(x.shape))
    if op.attr("p", 2) not in (1, 2):
        raise op.reject(f"p {op.attr('p')}; there are 1 and 2")
    outer, inner = product(x.shape[:axis]), product(x.shape[axis + 1 :])
    op.emit(lp_normalise, [x, y], outer=outer, n=x.shape[axis], inner=inner, p=op.attr("p", 2), work=x.size)
