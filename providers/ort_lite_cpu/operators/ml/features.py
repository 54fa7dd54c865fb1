"""Columns of features: ArrayFeatureExtractor, FeatureVectorizer, OneHotEncoder."""

from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, cast, failure_status, like, native, span
from ort_lite.shapes import less, product
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.attributes import one_of
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import bits
from ort_lite_cpu.operators.gather import gather, index_along
from ort_lite_cpu.operators.ml.labels import find_key
from ort_lite_cpu.operators.ranges import require_within
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
    if not x.shape:
        raise op.reject("the input has no axis")
    y = op.output(0)
    outer, axis = product(x.shape[:-1]), x.shape[-1]
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
@extents(x="count", keys="categories", places="categories", y="count * categories")
def one_hot(x: Ptr, keys: Ptr, places: Ptr, y: Ptr, count: int, categories: int, zeros: int, part: int, parts: int) -> int:
    """y (count, categories) = 1 at the place of x's category, of which `keys` are sorted ones; 0 for others, if `zeros`."""
    for i in span(count, part, parts):
        for k in range(categories):
            y[i * categories + k] = like(y, 0)
        found = find_key(keys, categories, cast(x[i], "i64"))
        if found < categories:
            y[i * categories + places[found]] = like(y, 1)
        elif zeros == 0:
            return failure_status(UNKNOWN_CATEGORY, i)
    return OK


@operator("OneHotEncoder", domain=ML, types=INPUTS)
def one_hot_encoder(op: NodeLowering) -> None:
    """Encode numbers, with floats cut to integers. Spec: ONNX-ML OneHotEncoder-1."""
    one_of(op, "cats_strings", "cats_int64s")
    categories = np.array(op.attr("cats_int64s") or (), np.int64)
    order = np.argsort(categories, kind="stable")
    keys = categories[order]
    if not len(keys) or (np.diff(keys) == 0).any():
        raise op.reject("cats_int64s should be different numbers, at least one")
    x = op.input(0)
    operands = [x, op.table(keys), op.table(order), op.output(0)]
    known, zeros, work = len(keys), op.attr("zeros", 1), x.size * len(keys)
    op.emit(one_hot, operands, count=x.size, categories=known, zeros=zeros, work=work, message=_no_category)


def _no_category(failure: "Failure") -> str:
    return f"{failure.element(0)} at position {failure.at} is no category, and zeros is 0"


@operator("OneHotEncoder", domain=ML, types=STRING, python=True)
def one_hot_encoder_of_strings(op: NodeLowering) -> None:
    """Encode strings as numbers are encoded. Spec: ONNX-ML OneHotEncoder-1."""
    one_of(op, "cats_strings", "cats_int64s")
    places = {text: k for k, text in enumerate(op.attr("cats_strings") or ())}
    if not places or len(places) != len(op.attr("cats_strings")):
        raise op.reject("cats_strings should be different texts, at least one")
    zeros, pace = bool(op.attr("zeros", 1)), op.pace

    def step(x: Array) -> list[Array]:
        y, flat, width = np.zeros(x.size * len(places), np.float32), x.reshape(-1), len(places)
        for part in pace.slices(x.size):
            texts = flat[part].tolist()
            found = np.fromiter(map(places.get, texts, repeat(-1)), np.int64, len(texts))
            ones = np.arange(part.start * width, (part.start + len(texts)) * width, width) + found
            if -1 in found:
                if not zeros:
                    at = part.start + int(np.flatnonzero(found < 0)[0])
                    raise ValueError(f"{flat[at]!r} at position {at} is no category, and zeros is 0")
                ones = ones[found >= 0]
            y[ones] = 1
        return [y.reshape(*x.shape, len(places))]

    op.python(step)
