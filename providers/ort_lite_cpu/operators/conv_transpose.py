"""ConvTranspose: a stride of s makes s phases per axis, and each phase of the output is an ordinary convolution of the input.

Let u be the output position plus the padding in front. Then u = s * (input position) + d * tap: the taps that meet u are those with
d * tap = u mod s, and along a phase (one value of u mod s) neighbouring outputs read neighbouring inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations
from math import gcd, prod
from typing import Any

from ort_lite.dtypes import Array
from ort_lite.record import Record
from ort_lite.shapes import ceildiv, floordiv, maximum, same
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import transposed
from ort_lite_cpu.lowering.attributes import check_windows
from ort_lite_cpu.lowering.candidates import Candidate, choose, compare
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Tensor, channels_last
from ort_lite_cpu.operators.conv import require_equal, sizes_of
from ort_lite_cpu.operators.conv_channels import CHANNELS_LAST
from ort_lite_cpu.operators.conv_layouts import FEW_OUTPUTS
from ort_lite_cpu.operators.conv_pixels import PIXELS
from ort_lite_cpu.operators.convolutions import ConvCase, Epilogue, Geometry, Weight
from ort_lite_cpu.operators.fill import emit_fill
from ort_lite_cpu.registry import REAL, operator

MOST_PHASES, MOST_TAPS = 4096, 1 << 16
"""The most phases, and taps along an axis, for which convolutions are emitted; their number grows with both. Others are plain loops."""


class OutputPhase(Record):
    """One phase of one axis: `count` output positions first, first + stride, ..., and the taps that meet them, in order of input."""

    taps: tuple[int, ...]
    dilation: int
    pad: Dim
    first: Dim
    count: Dim


@operator("ConvTranspose", types=REAL)
@operator("ConvTransposeWithDynamicPads", domain="com.microsoft", types=REAL)
def conv_transpose(op: NodeLowering) -> None:
    """Emit a convolution for each phase, or plain loops.

    Spec: ONNX ConvTranspose-22, onnxruntime ConvTransposeWithDynamicPads-1.
    """
    image, w, shape, groups = op.raw(0).shape, op.raw(1).shape, op.info().shape, op.attr("group", 1)
    assert shape is not None
    rank = len(image) - 2
    check_windows(op, rank, shape[2:])
    kernel = op.attr("kernel_shape") or w[2:]
    require_equal(op, [(k, dim, "kernel_shape and weight") for k, dim in zip(kernel, w[2:], strict=True)])
    strides = op.attr("strides") or (1,) * rank
    dilations = op.attr("dilations") or (1,) * rank
    pads = _pads(op, image[2:], shape[2:], kernel, strides, dilations)
    perm: tuple[int, ...] | None = channels_last(rank + 2)
    if not all(isinstance(k, int) and k <= MOST_TAPS for k in kernel) or prod(strides) > MOST_PHASES:
        sizes = sizes_of(image, shape, kernel, strides, pads, dilations, groups)
        operands = [op.input(0, perm), op.input(1), _bias(op), op.output(0, perm)]
        op.emit(transposed.conv_transpose, operands, g=sizes.shape, window=sizes.window, work=sizes.work * 20)
        return
    axes = [_phases(k, s, d, p, out) for k, s, d, p, out in zip(kernel, strides, dilations, pads, shape[2:], strict=True)]
    candidates = _candidates(op, axes, shape, groups) if all(axes) else CHANNELS_LAST
    perm = None if candidates == (PIXELS,) else perm
    x, y = op.input(0, perm), op.output(0, perm)
    for phases in combinations(*axes):
        if all(same(s, 1) for s in strides):
            _emit_phase(op, candidates, x, y, phases, groups)
        else:
            part = op.builder.new(x.dtype, (x.shape[0], y.shape[1], *(phase.count for phase in phases)), perm)
            if all(phase.taps for phase in phases):
                _emit_phase(op, candidates, x, part, phases, groups)
            else:
                _emit_bias(op, part)
            _scatter(op, part, y, phases, strides)


def _phases(kernel: int, stride: int, dilation: int, pad: Dim, out: Dim) -> list[OutputPhase]:
    """Return the phases of an axis that have outputs."""
    found = []
    common = gcd(stride, dilation)
    meeting: dict[int, list[int]] = {}
    for tap in reversed(range(kernel)):
        meeting.setdefault(tap * dilation % stride, []).append(tap)
    for rest in range(stride):
        taps = tuple(meeting.get(rest, ()))
        first = ceildiv(pad - rest, stride)
        count = maximum(floordiv(out - 1 + pad - rest, stride) - first + 1, 0)
        if same(count, 0):
            continue
        front = (taps[0] * dilation - rest) // stride - first if taps else 0
        found.append(OutputPhase(taps, dilation // common, front, first * stride + rest - pad, count))
    return found


def _candidates(
    op: NodeLowering, axes: Sequence[Sequence[OutputPhase]], shape: Shape, groups: int
) -> Sequence[Candidate[ConvCase]]:
    """Return the candidates for each phase: vectors of pixels if they are cheapest for the largest phase, or those of channels last.

    Phases with many outputs are combined faster channels last, where pixels are runs of memory.
    """
    sizes = _sizes(op, [max(own, key=lambda phase: len(phase.taps)) for own in axes], shape, groups)
    few = isinstance(sizes.outputs, int) and sizes.outputs <= sizes.groups * FEW_OUTPUTS and 0 not in sizes.kernel
    candidates = (PIXELS, *CHANNELS_LAST) if few else CHANNELS_LAST
    case = ConvCase(op, sizes, Weight(op.constant(1)), _no_operands, _no_operands, sizes.numbers)
    taken = choose(op, candidates, case, prod(map(len, axes)))
    return (PIXELS,) if taken is PIXELS else CHANNELS_LAST


def _no_operands(perm: tuple[int, ...] | None) -> Any:
    raise AssertionError("the largest phase is only compared")


def _emit_phase(
    op: NodeLowering,
    candidates: Sequence[Candidate[ConvCase]],
    x: Tensor,
    y: Tensor,
    phases: Sequence[OutputPhase],
    groups: int,
) -> None:
    """Compute y, one phase of the output that taps meet, from x."""
    sizes = _sizes(op, phases, y.shape, groups)
    weight, epilogue = _weight(op, phases, groups), Epilogue(_bias(op))
    case = ConvCase(op, sizes, weight, lambda perm: epilogue, lambda perm: (x, y), sizes.numbers)
    taken = PIXELS.name if candidates == (PIXELS,) else compare(op, candidates, case).taken
    next(candidate for candidate in candidates if candidate.name == taken).emit(case)


def _bias(op: NodeLowering) -> Tensor | None:
    """Return the bias, which follows the pads if they are an input."""
    return op.optional(3 if _has_pads(op) else 2)


def _has_pads(op: NodeLowering) -> bool:
    return op.node.op_type == "ConvTransposeWithDynamicPads"


def _emit_bias(op: NodeLowering, y: Tensor) -> None:
    """Fill y, a phase of the output that no tap meets, with the bias, whatever the input, which may be infinite."""
    bias = _bias(op)
    if bias is None:
        emit_fill(op, y, 0)
        return
    axes, dims = y.perm or tuple(range(len(y.shape))), y.storage_shape
    emit_strided_copy(op, bias, y, dims, [1 if axis == 1 else 0 for axis in axes], contiguous(dims))


def _sizes(op: NodeLowering, phases: Sequence[OutputPhase], shape: Shape, groups: int) -> Geometry:
    """Return the sizes of the convolution of one phase; `shape` begins with the batch and the channels of the output."""
    kernel = [len(phase.taps) for phase in phases]
    pads, dilations = [phase.pad for phase in phases], [phase.dilation for phase in phases]
    x, counts = op.raw(0).shape, [phase.count for phase in phases]
    image = (x[0], op.raw(1).shape[0], *x[2:])
    return sizes_of(image, (*shape[:2], *counts), kernel, [1] * len(phases), pads, dilations, groups)


def _weight(op: NodeLowering, phases: Sequence[OutputPhase], groups: int) -> Weight:
    """Return the weight (C, O / groups, *kernel) as (O, C / groups, *taps), as a convolution reads it."""
    array, taps = op.constant(1), [phase.taps for phase in phases]
    if array is not None:
        form = f"transposed {groups} {taps}"
        made = op.pack(array, form, lambda: _select(array, groups, taps))
        assert made.buffer is not None and made.buffer.constant is not None
        return Weight(made.buffer.constant, None, array, form)
    w = op.input(1)
    channels, outputs = floordiv(w.shape[0], groups), w.shape[1]
    counts = [len(own) for own in taps]
    made = op.temporary(w.dtype, (outputs * groups, channels, *counts))
    steps = contiguous((groups, channels, outputs, *w.shape[2:]))
    jumps: list[Dim] = [(own[1] - own[0]) * step if len(own) > 1 else 0 for own, step in zip(taps, steps[3:], strict=True)]
    start: Dim = 0
    for own, step in zip(taps, steps[3:], strict=True):
        start = start + own[0] * step
    dims = (groups, outputs, channels, *counts)
    emit_strided_copy(op, w, made, dims, [steps[0], steps[2], steps[1], *jumps], contiguous(dims), start, 0)
    return Weight(tensor=made)


def _select(array: Array, groups: int, taps: Sequence[Sequence[int]]) -> Array:
    """Select the taps of one phase, in that order."""
    channels, outputs = array.shape[0] // groups, array.shape[1]
    turned = array.reshape(groups, channels, outputs, *array.shape[2:]).swapaxes(1, 2)
    turned = turned[:, :, :, *map(_slice, taps)]
    return turned.reshape(groups * outputs, channels, *turned.shape[3:])


def _slice(numbers: Sequence[int]) -> slice:
    """Return numbers with equal steps between them as a slice."""
    if not numbers:
        return slice(0)
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    end = numbers[-1] + step
    return slice(numbers[0], None if end < 0 else end, step)


def _scatter(op: NodeLowering, part: Tensor, y: Tensor, phases: Sequence[OutputPhase], strides: Sequence[int]) -> None:
    """Copy one phase to its places in y."""
    steps, axes = contiguous(y.storage_shape), y.perm or tuple(range(len(y.shape)))
    start: Dim = 0
    targets = list(steps)
    for place, axis in enumerate(axes):
        if axis > 1:
            start = start + phases[axis - 2].first * steps[place]
            targets[place] = steps[place] * strides[axis - 2]
    dims = part.storage_shape
    emit_strided_copy(op, part, y, dims, contiguous(dims), targets, 0, start)


# --- Sizes
def _pads(
    op: NodeLowering, size: Shape, result: Shape, kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int]
) -> Sequence[Dim]:
    """Return the padding in front of each axis. If the output's shape is given, padding makes up the difference."""
    mode, rank = op.attr("auto_pad") or "NOTSET", len(size)
    if not op.attr("output_shape") and mode not in ("SAME_UPPER", "SAME_LOWER"):
        if _has_pads(op):
            return op.contents(2)[:rank] if op.has(2) else (0,) * rank
        return (op.attr("pads") or (0,) * rank)[:rank] if mode == "NOTSET" else (0,) * rank
    extra = op.attr("output_padding") or (0,) * rank
    pads = []
    for dim, out, k, stride, dilation, more in zip(size, result, kernel, strides, dilations, extra, strict=True):
        total = maximum((dim - 1) * stride + more + (k - 1) * dilation + 1 - out, 0)
        pads.append(floordiv(total, 2) if mode == "SAME_UPPER" else total - floordiv(total, 2))
    return pads
