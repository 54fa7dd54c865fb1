"""Reading and writing at indices: Gather, GatherElements, GatherND, ScatterElements, ScatterND."""

from collections.abc import Sequence

from ort_lite.dtypes import itemsize
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    Ptr,
    Static,
    failed,
    fmax,
    fmin,
    from_end,
    imax,
    imin,
    native,
    span,
    wadd,
    wmul,
)
from ort_lite.shapes import Dim, product
from ort_lite_cpu import primitives
from ort_lite_cpu.strided import contiguous
from ort_lite_cpu.op import Op
from ort_lite_cpu.registry import MOVABLE, operator
from ort_lite_cpu.tensor import BY_SIZE, Tensor

OUT_OF_RANGE = "the index at position {index} of its indices is out of range"


@native
def gather(x: Ptr, index: Ptr, y: Ptr, outer: int, axis: int, count: int, inner: int, part: int, parts: int) -> int:
    """y[o, c, :] = x[o, index[c], :] for x (outer, axis, inner), index (count,), y (outer, count, inner), contiguous."""
    for row in span(outer * count, part, parts):
        j = from_end(index[row % count], axis)
        if j < 0 or j >= axis:
            return failed(INDEX_OUT_OF_RANGE, row % count)
        source = (row // count * axis + j) * inner
        for i in range(inner):
            y[row * inner + i] = x[source + i]
    return OK


@operator("Gather", types=MOVABLE)
def lower_gather(op: Op) -> None:
    """One pass over y. Negative indices count from the end. Spec: ONNX Gather-13."""
    x, index = op.input(0), op.input(1)
    axis = op.attr("axis", 0) % len(x.shape)
    y = op.output(0)
    numbers = (product(x.shape[:axis]), x.shape[axis], index.size, product(x.shape[axis + 1 :]))
    op.emit(gather, [x, index, y], *numbers, types=_types(x, index, y), work=y.size, message=OUT_OF_RANGE)


def _types(x: Tensor, index: Tensor, y: Tensor) -> list[str]:
    width = BY_SIZE[itemsize(x.dtype)]
    return [width, index.native, width]


@native
def gather_elements(
    x: Ptr, index: Ptr, y: Ptr, axis: int, stride: int, n0: int, n1: int, n2: int, n3: int, n4: int, n5: int,
    s0: int, s1: int, s2: int, s3: int, s4: int, s5: int, part: int, parts: int,
) -> int:  # fmt: skip
    """y[i] = x[i with its index along the axis replaced]; s: strides of x, 0 along the axis, whose stride is `stride`."""
    for at in span(n0 * n1 * n2 * n3 * n4 * n5, part, parts):
        i5 = at % n5
        rest = at // n5
        i4 = rest % n4
        rest = rest // n4
        i3 = rest % n3
        rest = rest // n3
        i2 = rest % n2
        rest = rest // n2
        base = (rest // n1) * s0 + (rest % n1) * s1 + i2 * s2 + i3 * s3 + i4 * s4 + i5 * s5
        j = from_end(index[at], axis)
        if j < 0 or j >= axis:
            return failed(INDEX_OUT_OF_RANGE, at)
        y[at] = x[base + j * stride]
    return OK


def _six(op: Op, values: Sequence[Dim], fill: Dim) -> list[Dim]:
    if len(values) > 6:
        raise op.reject(f"rank {len(values)}; up to 6 is there")
    return [*([fill] * (6 - len(values))), *values]


@operator("GatherElements", types=MOVABLE)
def lower_gather_elements(op: Op) -> None:
    x, index, y = op.input(0), op.input(1), op.output(0)
    axis = op.attr("axis", 0) % len(x.shape)
    strides = contiguous(x.shape)
    others = [0 if k == axis else stride for k, stride in enumerate(strides)]
    numbers = (x.shape[axis], strides[axis], *_six(op, index.shape, 1), *_six(op, others, 0))
    op.emit(gather_elements, [x, index, y], *numbers, types=_types(x, index, y), work=y.size * 4, message=OUT_OF_RANGE)


@native
def gather_nd(
    x: Ptr, index: Ptr, y: Ptr, batch: int, count: int, depth: int, inner: int, whole: int,
    n0: int, n1: int, n2: int, n3: int, n4: int, n5: int, part: int, parts: int,
) -> int:  # fmt: skip
    """y[b, c, :] = x[b][index[b, c]] for index (batch, count, depth); n: the dims indexed, last ones first; whole: a batch of x."""
    for row in span(batch * count, part, parts):
        source = (row // count) * whole
        stride = inner
        for k in range(depth):
            n = n0 if k == 0 else n1 if k == 1 else n2 if k == 2 else n3 if k == 3 else n4 if k == 4 else n5
            j = from_end(index[row * depth + depth - 1 - k], n)
            if j < 0 or j >= n:
                return failed(INDEX_OUT_OF_RANGE, row * depth + depth - 1 - k)
            source += j * stride
            stride *= n
        for i in range(inner):
            y[row * inner + i] = x[source + i]
    return OK


def _depth(op: Op) -> int:
    depth = op.dim(1, -1)
    if depth > 6:
        raise op.reject(f"indices whose last dimension is {depth}; up to 6 is there")
    return depth


@operator("GatherND", types=MOVABLE)
def lower_gather_nd(op: Op) -> None:
    depth, batches = _depth(op), op.attr("batch_dims", 0)
    x, index, y = op.input(0), op.input(1), op.output(0)
    indexed = x.shape[batches : batches + depth]
    batch = product(x.shape[:batches])
    lengths = [*reversed(indexed), *([1] * (6 - depth))]
    numbers = (batch, product(index.shape[batches:-1]), depth, product(x.shape[batches + depth :]), product(x.shape[batches:]))
    op.emit(gather_nd, [x, index, y], *numbers, *lengths, types=_types(x, index, y), work=y.size * 2, message=OUT_OF_RANGE)


def _reduced(old: object, new: object, how: Static) -> object:
    """What lies at an index after `new` is written there. Works in the elements' own type."""
    if how == "add":
        return wadd(old, new)
    if how == "mul":
        return wmul(old, new)
    if how == "max":
        return fmax(old, new)
    if how == "min":
        return fmin(old, new)
    if how == "imax":
        return imax(old, new)
    if how == "imin":
        return imin(old, new)
    return new


@native
def scatter_elements(
    index: Ptr, updates: Ptr, y: Ptr, axis: int, stride: int, n0: int, n1: int, n2: int, n3: int, n4: int, n5: int,
    s0: int, s1: int, s2: int, s3: int, s4: int, s5: int, how: Static, part: int, parts: int,
) -> int:  # fmt: skip
    """y[i with its index along the axis replaced] = updates[i], in order, so that the last one of equal indices stays."""
    for at in range(n0 * n1 * n2 * n3 * n4 * n5):
        i5 = at % n5
        rest = at // n5
        i4 = rest % n4
        rest = rest // n4
        i3 = rest % n3
        rest = rest // n3
        i2 = rest % n2
        rest = rest // n2
        base = (rest // n1) * s0 + (rest % n1) * s1 + i2 * s2 + i3 * s3 + i4 * s4 + i5 * s5
        j = from_end(index[at], axis)
        if j < 0 or j >= axis:
            return failed(INDEX_OUT_OF_RANGE, at)
        target = base + j * stride
        y[target] = _reduced(y[target], updates[at], how)
    return OK


def _copied(op: Op) -> tuple[Tensor, Tensor]:
    """(input, output that holds a copy of it)."""
    x, y = op.input(0), op.output(0)
    width = BY_SIZE[itemsize(x.dtype)]
    op.emit(primitives.copy, [x, y], x.size, types=[width] * 2, work=x.size // 4, inplace=(1, 0))
    return x, y


def _reduction(op: Op, x: Tensor) -> tuple[str, str]:
    """(how, pointer type): writing moves elements of any type, the others compute in it."""
    how = op.attr("reduction", "none")
    if how == "none":
        return how, BY_SIZE[itemsize(x.dtype)]
    if x.dtype in ("float16", "bfloat16", "bool"):
        raise op.reject(f"reduction {how} over {x.dtype}")
    floating = x.dtype.startswith("float")
    return (how if floating or how in ("add", "mul") else "i" + how), x.native


@operator("ScatterElements", "Scatter", types=MOVABLE)
def lower_scatter_elements(op: Op) -> None:
    """Runs on one thread: updates are applied in their order."""
    index, updates = op.input(1), op.input(2)
    x, y = _copied(op)
    axis = op.attr("axis", 0) % len(x.shape)
    how, width = _reduction(op, x)
    strides = contiguous(x.shape)
    others = [0 if k == axis else stride for k, stride in enumerate(strides)]
    numbers = (x.shape[axis], strides[axis], *_six(op, index.shape, 1), *_six(op, others, 0))
    op.emit(
        scatter_elements, [index, updates, y], *numbers, types=[index.native, width, width], statics={"how": how}, work=0,
        message=OUT_OF_RANGE,
    )  # fmt: skip


@native
def scatter_nd(
    index: Ptr, updates: Ptr, y: Ptr, count: int, depth: int, inner: int,
    n0: int, n1: int, n2: int, n3: int, n4: int, n5: int, how: Static, part: int, parts: int,
) -> int:  # fmt: skip
    """y[index[c]] = updates[c, :] for index (count, depth); n: the dims indexed, last ones first."""
    for row in range(count):
        target = 0
        stride = inner
        for k in range(depth):
            n = n0 if k == 0 else n1 if k == 1 else n2 if k == 2 else n3 if k == 3 else n4 if k == 4 else n5
            j = from_end(index[row * depth + depth - 1 - k], n)
            if j < 0 or j >= n:
                return failed(INDEX_OUT_OF_RANGE, row * depth + depth - 1 - k)
            target += j * stride
            stride *= n
        for i in range(inner):
            y[target + i] = _reduced(y[target + i], updates[row * inner + i], how)
    return OK


@operator("ScatterND", types=MOVABLE)
def lower_scatter_nd(op: Op) -> None:
    """Runs on one thread: updates are applied in their order."""
    depth = _depth(op)
    index, updates = op.input(1), op.input(2)
    x, y = _copied(op)
    how, width = _reduction(op, x)
    lengths = [*reversed(x.shape[:depth]), *([1] * (6 - depth))]
    numbers = (product(index.shape[:-1]), depth, product(x.shape[depth:]), *lengths)
    op.emit(
        scatter_nd, [index, updates, y], *numbers, types=[index.native, width, width], statics={"how": how}, work=0,
        message=OUT_OF_RANGE,
    )  # fmt: skip
