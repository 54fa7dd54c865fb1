"""SVMClassifier and SVMRegressor: products with support vectors, and votes or probabilities of pairs of classes."""

from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.recipes import from_attributes
from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    OK,
    REDUCE,
    Ptr,
    Static,
    StaticInt,
    cast,
    exp,
    fabs,
    fmax,
    fmin,
    like,
    native,
    power,
    shift,
    span,
    tanh,
)
from ort_lite.record import Record
from ort_lite.shapes import equal
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.matmul import emit_gemm
from ort_lite_cpu.operators.microsoft.distances import emit_distances
from ort_lite_cpu.operators.ml.scores import (
    Labels,
    float_rows,
    kind_of,
    logistic,
    post_transform,
    probit,
    scores_output,
    transform,
)
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.registry import operator

ML = "ai.onnx.ml"
INPUTS = frozenset({"float32", "float64", "int32", "int64"})
POWERS = {2.0: "SQUARE", 3.0: "CUBE"}
"""Kernel functions of degrees that are products."""


@native
@extents(y="count")
def kernel_function(y: Ptr, count: int, parameter: float, kind: Static, part: int, parts: int) -> int:
    """y = exp(-gamma * y), y ** degree, or tanh(y), in place; gamma and degree are the parameter. SQUARE and CUBE are degrees."""
    for i in span(count, part, parts):
        if kind == "SIGMOID":
            y[i] = tanh(y[i])
        elif kind == "RBF":
            y[i] = exp(like(y, -parameter) * y[i])
        else:
            v = cast(y[i], "f64")
            y[i] = like(y, v * v if kind == "SQUARE" else v * v * v if kind == "CUBE" else power(v, parameter))
    return OK


@native
@extents(y="count")
def signs(y: Ptr, count: int, part: int, parts: int) -> int:
    """y = 1 where y > 0, else -1, in place."""
    for i in span(count, part, parts):
        y[i] = like(y, 1) if y[i] > like(y, 0) else like(y, -1)
    return OK


@native
def couple(r: Ptr, q: Ptr, qp: Ptr, p: Ptr, classes: int) -> None:
    """p (classes,) = the probabilities that agree best with r (classes, classes), those of pairs.

    Wu, Lin, Weng: Probability estimates for multi-class classification by pairwise coupling, 2004, as libsvm does it.
    """
    one = like(p, 1)
    for i in range(classes):
        p[i] = one / like(p, classes)
        q[i * classes + i] = like(p, 0)
        for j in range(classes):
            if j != i:
                back = r[j * classes + i]
                q[i * classes + i] = q[i * classes + i] + back * back
                q[i * classes + j] = -back * r[i * classes + j]
    limit = like(p, 0.005) / like(p, classes)
    for _ in range(100):
        total, worst = like(p, 0), like(p, 0)
        for i in range(classes):
            qp[i] = like(p, 0)
            for j in range(classes):
                qp[i] = qp[i] + q[i * classes + j] * p[j]
            total = total + p[i] * qp[i]
        for i in range(classes):
            worst = max(worst, fabs(qp[i] - total))
        if worst < limit:
            break
        for i in range(classes):
            step = (total - qp[i]) / q[i * classes + i]
            p[i] = p[i] + step
            scale = one + step
            total = (total + step * (step * q[i * classes + i] + like(p, 2) * qp[i])) / scale / scale
            for j in range(classes):
                qp[j] = (qp[j] + step * q[i * classes + j]) / scale
                p[j] = p[j] / scale


@native(fastmath=REDUCE)
def weigh(coefficients: Ptr, products: Ptr, first: int, last: int) -> float:
    """Return the sum of products [first, last) times their coefficients, in double precision."""
    total = 0.0
    for v in range(first, last):
        total += cast(coefficients[v] * products[v], "f64")
    return total


@native
@extents(products="rows * vectors", coefficients="vectors", y="rows")
def weigh_rows(products: Ptr, coefficients: Ptr, y: Ptr, rows: int, vectors: int, rho: float, part: int, parts: int) -> int:
    """y (rows,) = products (rows, vectors) @ coefficients (vectors,) + rho."""
    for row in span(rows, part, parts):
        y[row] = like(y, weigh(coefficients, shift(products, row * vectors), 0, vectors) + rho)
    return OK


class Votes(NamedTuple):
    """The numbers of rows, classes and support vectors, and whether scores are probabilities of classes."""

    rows: int
    classes: int
    vectors: int
    probabilities: StaticInt


@native
@extents(
    products="g.rows * g.vectors",
    coefficients="(g.classes - 1) * g.vectors",
    starts="g.classes + 1",
    rho="g.classes * (g.classes - 1) // 2",
    a="g.classes * (g.classes - 1) // 2 if g.probabilities else 0",
    b="g.classes * (g.classes - 1) // 2 if g.probabilities else 0",
    labels="g.classes",
    label="g.rows",
    z="g.rows * (g.classes if g.probabilities or g.classes == 2 else g.classes * (g.classes - 1) // 2)",
    scratch="parts * (2 * g.classes * g.classes + 2 * g.classes)",
)
def vote(
    products: Ptr,
    coefficients: Ptr,
    starts: Ptr,
    rho: Ptr,
    a: Ptr,
    b: Ptr,
    labels: Ptr,
    label: Ptr,
    z: Ptr,
    scratch: Ptr,
    g: Votes,
    kind: Static,
    part: int,
    parts: int,
) -> int:
    """label (rows,) = the class with most votes, one of each pair; z (rows, ...) = the pairs' scores, or the classes' probabilities.

    products (rows, vectors) with the support vectors, those of class c from starts[c] on; coefficients (classes - 1, vectors).
    classes is 2 or more, and starts[classes] is `vectors`: `_emit_votes` sees to both.
    """
    rows, classes, vectors, probabilities = g
    square, pairs = classes * classes, classes * (classes - 1) // 2
    votes = shift(scratch, part * (2 * square + 2 * classes))
    qp, r, q = shift(votes, classes), shift(votes, 2 * classes), shift(votes, 2 * classes + square)
    width = classes if probabilities or classes == 2 else pairs
    for row in span(rows, part, parts):
        near, out = shift(products, row * vectors), shift(z, row * width)
        for c in range(classes):
            votes[c] = like(votes, 0)
        pair = 0
        for i in range(classes - 1):
            for j in range(i + 1, classes):
                total = weigh(shift(coefficients, (j - 1) * vectors), near, starts[i], starts[i + 1])
                total += weigh(shift(coefficients, i * vectors), near, starts[j], starts[j + 1]) + cast(rho[pair], "f64")
                winner = i if total > 0.0 else j
                votes[winner] = votes[winner] + like(votes, 1)
                score = like(z, total)
                if probabilities:
                    tiny = like(z, 1e-7)
                    chance = like(z, 1) - logistic(score * a[pair] + b[pair])
                    chance = fmin(fmax(chance, tiny), like(z, 1) - tiny)
                    r[i * classes + j] = chance
                    r[j * classes + i] = like(z, 1) - chance
                else:
                    out[pair] = score
                pair += 1
        best = 0
        for c in range(classes):
            if votes[c] > votes[best]:
                best = c
        label[row] = labels[best]
        if probabilities:
            couple(r, q, qp, out, classes)
        if probabilities or pairs > 1:
            transform(out, width, kind)
        elif kind == "PROBIT":
            out[0], out[1] = probit(out[0]), like(z, 0)
        elif kind == "LOGISTIC":
            out[0], out[1] = logistic(-out[0]), logistic(out[0])
        else:
            score = out[0]
            out[0], out[1] = -score if kind == "NONE" else like(z, 1) - score, score
    return OK


@native
@extents(z="rows * classes", labels="classes", label="rows")
def label_linear(z: Ptr, labels: Ptr, label: Ptr, rows: int, classes: int, positive: int, part: int, parts: int) -> int:
    """label (rows,) = the label of the largest z (rows, classes); of two classes the second if its score is high enough by itself."""
    for row in span(rows, part, parts):
        best = 0
        for c in range(1, classes):
            if z[row * classes + c] > z[row * classes + best]:
                best = c
        most = z[row * classes + best]
        if classes == 2 and ((positive != 0 and most >= like(z, 0.5)) or (positive == 0 and most > like(z, 0))):
            best = 1
        label[row] = labels[best]
    return OK


# --- Operators
class _Kernel(Record):
    """The attribute kernel_type and its parameters."""

    kind: str
    gamma: float
    offset: float
    degree: float

    def emit(self, op: NodeLowering, x: Tensor, vectors: Array, rows: Dim, y: Tensor, bias: float = 0.0) -> None:
        """Emit y (rows, n) = kernel(x (rows, C), vectors (n, C))."""
        count, features = vectors.shape
        size = rows * count
        if self.kind == "RBF":
            emit_distances(op, x, op.table(vectors.T), y, squared=True)
            op.emit(kernel_function, [y], count=size, parameter=self.gamma, kind=self.kind, work=size)
            return
        linear = self.kind == "LINEAR"
        offset = np.full(count, bias if linear else self.offset, np.float32)
        spec = Product(rows, count, features, 1.0 if linear else self.gamma, True, bias=op.array(offset))
        emit_gemm(op, spec, x, vectors, source=vectors, y=y)
        if not linear:
            kind = POWERS.get(self.degree, self.kind) if self.kind == "POLY" else self.kind
            work = size * (8 if kind == self.kind else 1)
            op.emit(kernel_function, [y], count=size, parameter=self.degree, kind=kind, work=work)


def _kernel(op: NodeLowering) -> _Kernel:
    kind = op.attr("kernel_type", "LINEAR")
    if kind not in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        raise op.reject(f"kernel_type {kind!r}; it should be LINEAR, POLY, RBF or SIGMOID")
    parameters = op.attr("kernel_params") or (0.0, 0.0, 0.0)
    if len(parameters) != 3:
        raise op.reject(f"kernel_params has {len(parameters)} elements, expected 3: gamma, coef0 and degree")
    gamma, offset, degree = map(float, parameters)
    return _Kernel(kind, gamma, offset, degree)


def _vectors(op: NodeLowering, name: str, rows: int, features: Dim) -> Array:
    """Return an attribute as an array (rows, C)."""
    values = from_attributes(np.array(op.attr(name) or (), np.float32))
    if rows < 1 or not len(values) or len(values) % rows:
        raise op.reject(f"{name} has {len(values)} elements, which are not {rows} rows of some")
    depth = len(values) // rows
    op.require(equal(features, depth), "rows have {0} features, " + name + " is for {1}", features, depth)
    return values.reshape(rows, depth)


def _numbers(op: NodeLowering, name: str, count: int, more: bool = False) -> Array:
    """Return an attribute of `count` numbers, or, with `more`, of at least as many, whose rest is never read."""
    values = np.array(op.attr(name) or (), np.float32)
    if len(values) != count and not (more and len(values) > count):
        raise op.reject(f"{name} has {len(values)} elements, expected {count}")
    return values


def _emit_weigh(op: NodeLowering, x: Tensor, coefficients: Array, rows: Dim, y: Tensor, rho: float) -> None:
    vectors = len(coefficients)
    op.emit(weigh_rows, [x, op.table(coefficients), y], rows=rows, vectors=vectors, rho=rho, work=rows * vectors // 8)


@operator("SVMRegressor", domain=ML, types=INPUTS)
def svm_regressor(op: NodeLowering) -> None:
    """Map (N, C) to (N, 1). Spec: ONNX-ML SVMRegressor-1."""
    x, rows, features = float_rows(op)
    count, y = op.attr("n_supports", 0), op.output(0)
    rho = float(_numbers(op, "rho", 1, more=True)[0])
    if count <= 0:
        _emit_weigh(op, x, _vectors(op, "coefficients", 1, features)[0], rows, y, rho)
    else:
        vectors, coefficients = _vectors(op, "support_vectors", count, features), _numbers(op, "coefficients", count)
        kernel = _kernel(op)
        if kernel.kind == "LINEAR":  # the weighted vectors are one
            vector = coefficients.astype(np.float64) @ vectors.astype(np.float64)
            _emit_weigh(op, x, vector.astype(np.float32), rows, y, rho)
        else:
            products = op.temporary("float32", (rows, count))
            kernel.emit(op, x, vectors, rows, products)
            _emit_weigh(op, products, coefficients, rows, y, rho)
    if op.attr("one_class", 0):
        op.emit(signs, [y], count=rows)
    post_transform(op, y, rows, 1)


@operator("SVMClassifier", domain=ML, types=INPUTS)
def svm_classifier(op: NodeLowering) -> None:
    """Map (N, C) to labels (N,) and scores (N, classes or pairs of classes). Spec: ONNX-ML SVMClassifier-1."""
    labels = Labels(op, "classlabels_strings", "classlabels_ints")
    x, rows, features = float_rows(op)
    classes, kind = len(labels), kind_of(op)
    counts = list(op.attr("vectors_per_class") or ())
    if min(counts, default=0) < 0:
        raise op.reject(f"vectors_per_class {counts} should not be below zero")
    if sum(counts):
        label = _emit_votes(op, labels, x, rows, features, counts)
    else:
        z, label = scores_output(op, rows, classes), labels.output(rows)
        coefficients = _vectors(op, "coefficients", classes, features)
        _Kernel("LINEAR", 0, 0, 0).emit(op, x, coefficients, rows, z, float(_numbers(op, "rho", 1, more=True)[0]))
        positive = int((coefficients >= 0).all())
        op.emit(label_linear, [z, labels.table, label], rows=rows, classes=classes, positive=positive, work=rows * classes)
        if kind != "NONE":
            post_transform(op, z, rows, classes)
    labels.finish(label)


def _emit_votes(op: NodeLowering, labels: Labels, x: Tensor, rows: Dim, features: Dim, counts: list[int]) -> Tensor:
    classes, vectors = len(labels), sum(counts)
    pairs = classes * (classes - 1) // 2
    if len(counts) != classes or classes < 2:
        raise op.reject(f"vectors_per_class has {len(counts)} elements for {classes} classes")
    kernel, points = _kernel(op), _vectors(op, "support_vectors", vectors, features)
    coefficients = _numbers(op, "coefficients", (classes - 1) * vectors).reshape(classes - 1, vectors)
    if kernel.kind == "LINEAR" and pairs < vectors:
        points, coefficients, counts = _sum_vectors(points, coefficients, counts)
        vectors = len(points)
    products = op.temporary("float32", (rows, vectors))
    kernel.emit(op, x, points, rows, products)
    probabilities = bool(op.attr("prob_a"))
    a, b = (_numbers(op, name, pairs if probabilities else 0) for name in ("prob_a", "prob_b"))
    tables = [coefficients, np.cumsum([0, *counts]), _numbers(op, "rho", pairs), a, b]
    label = labels.output(rows)
    z = scores_output(op, rows, classes if probabilities or classes == 2 else pairs)
    scratch = op.temporary("float32", (op.most_parts * (2 * classes * classes + 2 * classes),))
    sizes: Any = (rows, classes, vectors, int(probabilities))
    operands = [products, *map(op.table, tables), labels.table, label, z, scratch]
    op.emit(vote, operands, g=Votes(*sizes), kind=kind_of(op), work=rows * (vectors * classes) // 8)
    return label


def _sum_vectors(points: Array, coefficients: Array, counts: list[int]) -> tuple[Array, Array, list[int]]:
    """Return a linear machine with the same decisions: a class has one vector for each later class, the weighted sum of both."""
    classes, cuts = len(counts), np.cumsum(counts)[:-1]
    own, weights = np.split(points.astype(np.float64), cuts), np.split(coefficients.astype(np.float64), cuts, axis=1)
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    sums = np.stack([weights[i][j - 1] @ own[i] + weights[j][i] @ own[j] for i, j in pairs])
    chosen = np.zeros((classes - 1, len(pairs)), np.float32)
    chosen[[j - 1 for _, j in pairs], range(len(pairs))] = 1
    return from_attributes(sums.astype(np.float32)), chosen, [classes - 1 - i for i in range(classes)]
