"""LinearClassifier and LinearRegressor: a product with constant coefficients, and what scores become."""

import numpy as np

from ort_lite.memory.recipes import from_attributes
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, like, native, select, span
from ort_lite.shapes import equal
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.matmul import emit_gemm
from ort_lite_cpu.operators.ml.scores import Labels, float_rows, kind_of, logistic, post_transform, scores_output
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.registry import operator

ML = "ai.onnx.ml"
INPUTS = frozenset({"float32", "float64", "int32", "int64"})


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
    spec = Product(rows, targets, depth, transposed=True, bias=bias)
    emit_gemm(op, spec, x, coefficients.reshape(targets, depth), source=coefficients, y=y)
    return y


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
