"""Columns of features: ArrayFeatureExtractor, FeatureVectorizer, OneHotEncoder."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, cast, failure_status, like, native, select, span
from ort_lite.shapes import less, product
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.attributes import one_of
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, bits
from ort_lite_cpu.operators.columns import extract_columns
from ort_lite_cpu.operators.gather import gather, index_along
from ort_lite_cpu.operators.ranges import require_within
from ort_lite_cpu.operators.text_steps import emit_lookup
from ort_lite_cpu.registry import MOVABLE, STRING, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

ML = "ai.onnx.ml"
INPUTS = frozenset({"float32", "float64", "int32", "int64"})
UNKNOWN_CATEGORY = 2


@operator("ArrayFeatureExtractor", domain=ML, types=MOVABLE)
def array_feature_extractor(op: NodeLowering) -> None:
    """Pick indices along the last axis. Spec: ONNX-ML ArrayFeatureExtractor-1."""
    x, index = op.input(0), op.input(1)
    outer, axis = product(x.shape[:-1]), x.shape[-1]
    known = op.constant(1)
    if known is not None and known.size and len(x.shape) == 2 and isinstance(axis, int):
        # The schema states their limits, so they were compared with the axis before.
        extract_columns(op, known.reshape(-1).tolist())
        return
    y = op.output(0)
    op.require(less(0, index.size), "there are no indices")
    require_within(op, 1, "index", axis - 1)
    operands = [bits(x), index, bits(y)]
    op.emit(gather, operands, outer=outer, axis=axis, count=index.size, inner=1, work=y.size, message=index_along(1))


@native
@extents(x="rows * given", y="walk(at, rows, width, wanted, 1)")
def put_columns(x: Ptr, y: Ptr, rows: int, given: int, wanted: int, width: int, at: int, part: int, parts: int) -> int:
    """y[:, at : at + wanted] of y (rows, width) = the first columns of x (rows, given), zeros behind them."""
    for row in span(rows, part, parts):
        for k in range(wanted):
            y[row * width + at + k] = cast(x[row * given + k], "f32") if k < given else like(y, 0)
    return OK


@operator("FeatureVectorizer", domain=ML, types=INPUTS)
def feature_vectorizer(op: NodeLowering) -> None:
    """Put several (N, C) side by side, each cut or filled up to its width. Spec: ONNX-ML FeatureVectorizer-1."""
    widths = list(op.attr("inputdimensions") or ())
    count = len(op.node.inputs)
    if len(widths) != count:
        raise op.reject(f"inputdimensions has {len(widths)} elements for {count} inputs")
    if min(widths) < 0:
        raise op.reject(f"inputdimensions {widths} should not be below zero")
    y = op.output(0)
    at = 0
    for k, width in enumerate(widths):
        x = op.input(k)
        rows: Dim = 1 if len(x.shape) < 2 else x.shape[0]
        given = product(x.shape[1:]) if len(x.shape) > 1 else x.size
        op.agree((rows,), y.shape[:1], f"input {k} has another number of rows than the first")
        op.emit(put_columns, [x, y], rows=rows, given=given, wanted=width, width=sum(widths), at=at, work=rows * width)
        at += width


@native
@extents(x="count", categories="width", y="count * width")
def one_hot(x: Ptr, categories: Ptr, y: Ptr, count: int, width: int, zeros: int, part: int, parts: int) -> int:
    """y (count, width) = 1 where x is a row's category, else 0. Fails at an x that has none, unless `zeros`."""
    for i in span(count, part, parts):
        category, known = cast(x[i], "i64"), 0
        for k in range(width):
            same = select(categories[k] == category, 1, 0)
            y[i * width + k] = like(y, same)
            known |= same
        if known == 0 and zeros == 0:
            return failure_status(UNKNOWN_CATEGORY, i)
    return OK


@operator("OneHotEncoder", domain=ML, types=INPUTS)
def one_hot_encoder(op: NodeLowering) -> None:
    """Encode numbers, with floats cut to integers. Spec: ONNX-ML OneHotEncoder-1."""
    categories: list[int] = _categories(op, "cats_int64s", "numbers")
    _emit_one_hot(op, op.input(0), categories)


@operator("OneHotEncoder", domain=ML, types=STRING, python=True)
def one_hot_encoder_of_strings(op: NodeLowering) -> None:
    """Encode strings as numbers are encoded. Spec: ONNX-ML OneHotEncoder-1."""
    places = {text: k for k, text in enumerate(_categories(op, "cats_strings", "texts"))}
    other = len(places) if op.attr("zeros", 1) else None
    _emit_one_hot(op, emit_lookup(op, places, "int64", other, _NO_CATEGORY), range(len(places)))


def _categories(op: NodeLowering, name: str, what: str) -> Any:
    """Return the categories, each once."""
    one_of(op, "cats_strings", "cats_int64s")
    categories = op.attr(name) or ()
    if not categories or len({*categories}) != len(categories):
        raise op.reject(f"{name} should be different {what}, at least one")
    return categories


def _emit_one_hot(op: NodeLowering, x: Tensor, categories: Sequence[int]) -> None:
    width = len(categories)
    operands = [x, op.array(np.array(categories, np.int64)), op.output(0)]
    zeros, work = op.attr("zeros", 1), x.size * width
    op.emit(one_hot, operands, count=x.size, width=width, zeros=zeros, work=work, message=_no_category)


def _no_category(failure: "Failure") -> str:
    return f"{failure.element(0)} at position {failure.at} {_NO_CATEGORY}"


_NO_CATEGORY = "is no category, and zeros is 0"
