"""Scaler, Normalizer, Imputer, Binarizer: feature by feature, (N, C) or (C)."""

import numpy as np

from ort_lite.dtypes import to_numpy
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, STRICT, Ptr, Static, cast, copysign, fabs, like, native, span, sqrt
from ort_lite.shapes import equal, product
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.attributes import one_of
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.registry import operator

ML = "ai.onnx.ml"
INPUTS = frozenset({"float32", "float64", "int32", "int64"})
RUN = 256
"""Elements that one offset is repeated for: the kernel's inner loop is as long."""


@native
@extents(x="count", offset="columns", scale="columns", y="count")
def scale_features(x: Ptr, offset: Ptr, scale: Ptr, y: Ptr, count: int, columns: int, part: int, parts: int) -> int:
    """y = (x - offset) * scale, both repeated every `columns` elements; computed in offset's type."""
    i, last = count * part // parts, count * (part + 1) // parts  # as `span`
    while i < last:
        first = i % columns
        for k in range(first, min(columns, first + last - i)):
            y[i] = like(y, (like(offset, x[i]) - offset[k]) * scale[k])
            i += 1
    return OK


@operator("Scaler", domain=ML, types=INPUTS)
def scaler(op: NodeLowering) -> None:
    """Emit Scaler. Spec: ONNX-ML Scaler-1."""
    x = _rows(op)
    dtype = np.float64 if x.dtype == "float64" else np.float32
    scale = np.array(op.attr("scale") or (1.0,), dtype)
    offset = np.array(op.attr("offset") or (0.0,) * len(scale), dtype)
    if len(offset) != len(scale):
        raise op.reject(f"there are {len(offset)} offsets for {len(scale)} scales")
    _require_features(op, x, len(scale))
    if len(scale) == 1:
        offset, scale = np.repeat(offset, RUN), np.repeat(scale, RUN)
    op.emit(scale_features, [x, op.table(offset), op.table(scale), op.output(0)], count=x.size, columns=len(scale))


def _rows(op: NodeLowering) -> Tensor:
    x = op.input(0)
    if len(x.shape) > 2:
        raise op.reject(f"the input has rank {len(x.shape)}; it should be (N, C) or (C)")
    return x


def _require_features(op: NodeLowering, x: Tensor, count: int) -> None:
    """Require an attribute to have one value for all features, or one for each."""
    features = x.shape[-1] if x.shape else 1
    if count != 1:
        op.require(equal(features, count), "rows have {0} features, the attributes are for {1}", features, count)


@native(fastmath=STRICT)
@extents(x="rows * columns", y="rows * columns")
def normalize_rows(x: Ptr, y: Ptr, rows: int, columns: int, norm: Static, part: int, parts: int) -> int:
    """y = x divided by a row's largest element, sum of magnitudes, or length; rows where that is zero stay.

    By the length, L2, as onnxruntime rounds it, for the thresholds of trees behind it: sqrt(x * x / sum of squares).
    """
    for row in span(rows, part, parts):
        at = row * columns
        total = like(y, 0)
        for k in range(columns):
            v = cast(x[at + k], "f32")
            if norm == "MAX":
                total = v if k == 0 else max(total, v)
            elif norm == "L1":
                total += fabs(v)
            else:
                total += v * v
        for k in range(columns):
            v = cast(x[at + k], "f32")
            if total == like(y, 0):
                y[at + k] = v
            elif norm == "L2":
                y[at + k] = copysign(sqrt(v * v / total), v)
            else:
                y[at + k] = v / total
    return OK


@operator("Normalizer", domain=ML, types=INPUTS)
def normalizer(op: NodeLowering) -> None:
    """Emit Normalizer. Spec: ONNX-ML Normalizer-1."""
    norm = op.attr("norm", "MAX")
    if norm not in ("MAX", "L1", "L2"):
        raise op.reject(f"norm {norm!r}; it should be MAX, L1 or L2")
    x = _rows(op)
    rows: Dim = product(x.shape[:-1])
    columns = x.shape[-1] if x.shape else 1
    op.emit(normalize_rows, [x, op.output(0)], rows=rows, columns=columns, norm=norm, work=x.size * 2)


@native
@extents(x="count", replaced="1", values="columns", y="count")
def impute(x: Ptr, replaced: Ptr, values: Ptr, y: Ptr, count: int, columns: int, part: int, parts: int) -> int:
    """y = x, but values[column] where x is replaced[0], which may be NaN."""
    old = replaced[0]
    for i in span(count, part, parts):
        v = x[i]
        missing = v == old or (v != v and old != old)  # NaN is what differs from itself
        y[i] = values[i % columns] if missing else v
    return OK


@operator("Imputer", domain=ML, types=INPUTS)
def imputer(op: NodeLowering) -> None:
    """Emit Imputer. Spec: ONNX-ML Imputer-1."""
    x = _rows(op)
    kind = "float" if x.dtype.startswith("float") else "int64"
    values = op.attr(f"imputed_value_{kind}s")
    one_of(op, "imputed_value_floats", "imputed_value_int64s")
    if not values:
        raise op.reject(f"imputed_value_{kind}s is missing, for elements of {x.dtype}")
    dtype = to_numpy(x.dtype)
    _require_features(op, x, len(values))
    replaced = np.array([op.attr(f"replaced_value_{kind}", 0)], dtype)
    op.emit(impute, [x, op.array(replaced), op.array(np.array(values, dtype)), op.output(0)], count=x.size, columns=len(values))


@native
@extents(x="count", y="count")
def binarize(x: Ptr, y: Ptr, count: int, threshold: float, part: int, parts: int) -> int:
    """y = 1 where x > threshold, else 0."""
    for i in span(count, part, parts):
        y[i] = like(y, 1) if cast(x[i], "f64") > threshold else like(y, 0)
    return OK


@operator("Binarizer", domain=ML, types=INPUTS)
def binarizer(op: NodeLowering) -> None:
    """Emit Binarizer. Spec: ONNX-ML Binarizer-1."""
    x = op.input(0)
    op.emit(binarize, [x, op.output(0)], count=x.size, threshold=float(op.attr("threshold", 0.0)))
