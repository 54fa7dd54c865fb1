"""LinearClassifier and LinearRegressor: a product with constant coefficients, and what scores become."""

from typing import Final

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.recipes import from_attributes
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, like, native, select, span
from ort_lite.record import Record
from ort_lite.shapes import equal
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.lowering.candidates import Candidate, choose
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.matmul import emit_dynamic_gemm, emit_gemm
from ort_lite_cpu.operators.ml.scores import Labels, float_rows, kind_of, logistic, post_transform, scores_output
from ort_lite_cpu.operators.product_costs import ALL, ProductNumbers, rows_of, work_in_place, work_of_dots, work_of_gemm
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.registry import operator

ML = "ai.onnx.ml"
INPUTS = frozenset({"float32", "float64", "int32", "int64"})
ENDED = 12.0
"""The nanoseconds in which a row of few sums gets its intercepts."""


@native
@extents(scores="rows * count", labels="max(count, 2)", label="rows")
def label_rows(scores: Ptr, labels: Ptr, label: Ptr, rows: int, count: int, part: int, parts: int) -> int:
    """label (rows,) = the label of the largest of scores (rows, count); of one score the second label if it is above zero."""
    for row in span(rows, part, parts):  # branches on scores would be mispredicted
        if count == 1:
            label[row] = labels[select(scores[row] > like(scores, 0), 1, 0)]
        else:
            best, most = 0, scores[row * count]
            for k in range(1, count):
                score = scores[row * count + k]
                best = select(score > most, k, best)
                most = select(score > most, score, most)
            label[row] = labels[best]
    return OK


@native
@extents(scores="rows", z="2 * rows")
def both_scores(scores: Ptr, z: Ptr, rows: int, kind: Static, part: int, parts: int) -> int:
    """z (rows, 2) = (1 - s, s) for scores (rows,), or their logistic; other transforms make no sense of one score."""
    for row in span(rows, part, parts):
        s = scores[row]
        z[2 * row] = logistic(-s) if kind == "LOGISTIC" else like(s, 1) - s
        z[2 * row + 1] = logistic(s) if kind == "LOGISTIC" else s
    return OK


def _product(op: NodeLowering, y: Tensor | None, targets: int) -> Tensor:
    """Return x @ coefficients (targets, C) + intercepts (targets,), in `y` or a temporary."""
    x, rows, features = float_rows(op)
    coefficients = from_attributes(np.array(op.attr("coefficients") or (), np.float32))
    if targets < 1 or not len(coefficients) or len(coefficients) % targets:
        raise op.reject(f"{len(coefficients)} coefficients are not {targets} rows of some")
    depth = len(coefficients) // targets
    op.require(equal(features, depth), "rows have {0} features, the coefficients are for {1}", features, depth)
    intercepts = np.array(op.attr("intercepts") or (), np.float32)
    if len(intercepts) not in (0, targets):
        raise op.reject(f"there are {len(intercepts)} intercepts for {targets} rows of coefficients")
    bias = op.array(intercepts) if len(intercepts) else None
    y = op.temporary("float32", (rows, targets)) if y is None else y
    numbers = ProductNumbers(1, rows_of(rows), targets, depth, tile_for(x.native, op.target), columns=True, constant=True)
    case = _Scores(op, Product(rows, targets, depth, transposed=True, bias=bias), x, coefficients, y, numbers)
    choose(op, CANDIDATES, case).emit(case)
    return y


class _Scores(Record, eq=False):
    """The product of features with constant coefficients, for the candidates that may compute it."""

    op: NodeLowering
    spec: Product
    x: Tensor
    coefficients: Array
    y: Tensor
    numbers: ProductNumbers


def _emit_gemm(case: _Scores) -> None:
    table = case.coefficients.reshape(case.numbers.n, case.numbers.k)
    emit_gemm(case.op, case.spec, case.x, table, source=case.coefficients, y=case.y)


def _emit_dots(case: _Scores) -> None:
    emit_dynamic_gemm(case.op, case.spec, case.x, case.op.array(case.coefficients), case.y, few=ALL)


def _work_of_row(p: ProductNumbers) -> float:
    return ENDED + work_of_dots(p)


CANDIDATES: Final = (
    Candidate[_Scores]("gemm", lambda case: "", lambda case: work_of_gemm(case.numbers, half=False), _emit_gemm),
    Candidate[_Scores]("matmul-dots", lambda case: "", lambda case: work_in_place(case.numbers, _work_of_row), _emit_dots),
)
"""Panels are mostly zeros where there are few rows of coefficients; dots take longer for short ones."""


@operator("LinearRegressor", domain=ML, types=INPUTS)
def linear_regressor(op: NodeLowering) -> None:
    """Map (N, C) to (N, targets). Spec: ONNX-ML LinearRegressor-1."""
    targets = op.attr("targets", 1)
    y = _product(op, op.output(0), targets)
    post_transform(op, y, y.shape[0], targets)


@operator("LinearClassifier", domain=ML, types=INPUTS)
def linear_classifier(op: NodeLowering) -> None:
    """Map (N, C) to labels (N,) and scores (N, classes). Spec: ONNX-ML LinearClassifier-1."""
    labels = Labels(op, "classlabels_strings", "classlabels_ints")
    targets = len(op.attr("intercepts") or ()) or len(labels)
    _, rows, _ = float_rows(op)
    expands = targets == 1
    if len(labels) < max(targets, 2):
        raise op.reject(f"there are {len(labels)} labels for {max(targets, 2)} classes")
    if expands and len(labels) > 2:
        raise op.reject(f"there are {len(labels)} labels for one row of coefficients, which decides between 2")
    z = scores_output(op, rows, 2 if expands else targets)
    scores = _product(op, None if expands else z, targets)
    label = labels.output(rows)
    op.emit(label_rows, [scores, labels.table, label], rows=rows, count=targets, work=rows * targets)
    if expands:
        op.emit(both_scores, [scores, z], rows=rows, kind=kind_of(op), work=rows * 4)
    else:
        post_transform(op, z, rows, targets)
    labels.finish(label)
