"""Linear models and support vector machines of ai.onnx.ml, with the forms of results that onnxruntime gives."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.generated.ports.registry import port

ML = "ai.onnx.ml"
_NOTHING = (0.0, 0.0, 0.0)


def _rows(x: Array) -> Array:
    """A vector is one row. Features come as float32."""
    with np.errstate(all="ignore"):
        return np.atleast_2d(x).astype(np.float32).astype(np.float64)


def _logistic(x: Array) -> Array:
    return np.asarray(np.where(x < 0, 1 - 1 / (1 + np.exp(-np.abs(x))), 1 / (1 + np.exp(-np.abs(x)))))


def _probit(x: Array) -> Array:
    """onnxruntime's formula in float32: it cancels around 1/2, where digits are left that no other precision has."""
    p = x.astype(np.float32) * np.float32(2) - np.float32(1)
    logarithm = np.log(((1 - p) * (1 + p)).astype(np.float64)).astype(np.float32)
    v = np.float32(2) / (np.float32(3.14159) * np.float32(0.147)) + np.float32(0.5) * logarithm
    root = np.sqrt(np.sqrt(v * v - np.float32(1) / np.float32(0.147) * logarithm) - v)
    return np.asarray(np.where(p < 0, -1, 1) * np.float32(2**0.5) * root).astype(np.float64)


def _softmax(z: Array, skips_zeros: bool) -> Array:
    most = z.max(-1, keepdims=True)
    powers = np.exp(z - most)
    powers = np.where(np.abs(z) > np.float32(1e-7), powers, z * np.exp(-most)) if skips_zeros else powers
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def transformed(z: Array, kind: str) -> Array:
    """The post-transform of z (rows, scores). Of one score only PROBIT makes another."""
    if kind == "PROBIT":
        return _probit(z)
    if kind == "NONE" or z.shape[1] < 2:
        return z
    return _logistic(z) if kind == "LOGISTIC" else _softmax(z, kind == "SOFTMAX_ZERO")


def labels_of(how: dict[str, Any], numbers: str = "classlabels_ints") -> Array:
    """The labels of a classifier, texts or the attribute `numbers`."""
    texts = how.get("classlabels_strings") or ()
    return np.array(texts, object) if texts else np.array(how[numbers], np.int64)


def _products(x: Array, how: dict[str, Any], targets: int) -> Array:
    coefficients = np.array(how["coefficients"], np.float64).reshape(targets, -1)
    return np.asarray(_rows(x) @ coefficients.T + np.array(how.get("intercepts") or 0.0))


@port("LinearRegressor", domain=ML)
def linear_regressor(x: Array, **how: Any) -> Array:
    return transformed(_products(x, how, how.get("targets", 1)), how.get("post_transform", "NONE"))


@port("LinearClassifier", domain=ML)
def linear_classifier(x: Array, **how: Any) -> tuple[Array, Array]:
    """One score s decides between two classes, and is one of two scores, 1 - s and s."""
    labels, kind = labels_of(how), how.get("post_transform", "NONE")
    targets = len(how.get("intercepts") or ()) or len(labels)
    scores = _products(x, how, targets)
    if targets > 1:
        return labels[scores.argmax(1)], transformed(scores, kind)
    pair = (_logistic(-scores), _logistic(scores)) if kind == "LOGISTIC" else (1 - scores, scores)
    return labels[(scores[:, 0] > 0).astype(np.int64)], np.concatenate(pair, 1)


@port("Scaler", domain=ML)
def scaler(x: Array, offset: Sequence[float], scale: Sequence[float]) -> Array:
    return np.asarray((x.astype(np.float64) - np.array(offset)) * np.array(scale)).astype(np.float32)


# --- Support vector machines
def _kernel(x: Array, vectors: Array, how: dict[str, Any]) -> Array:
    """The kernel function of each row (N, C) with each support vector (V, C)."""
    gamma, offset, degree = how.get("kernel_params") or _NOTHING
    kind = how.get("kernel_type", "LINEAR")
    if kind == "RBF":
        return np.asarray(np.exp(-gamma * np.square(x[:, None] - vectors).sum(-1)))
    products = x @ vectors.T
    if kind == "LINEAR":
        return np.asarray(products)
    products = gamma * products + offset
    return np.asarray(np.tanh(products) if kind == "SIGMOID" else products**degree)


@port("SVMRegressor", domain=ML)
def svm_regressor(x: Array, **how: Any) -> Array:
    rows, coefficients = _rows(x), np.array(how["coefficients"], np.float64)
    count = how.get("n_supports", 0)
    if count:
        rows = _kernel(rows, np.array(how["support_vectors"], np.float64).reshape(count, -1), how)
    y = (rows @ coefficients + how["rho"][0])[:, None]
    if how.get("one_class", 0):
        y = np.where(y > 0, 1.0, -1.0)
    return transformed(y, how.get("post_transform", "NONE"))


@port("SVMClassifier", domain=ML)
def svm_classifier(x: Array, **how: Any) -> tuple[Array, Array]:
    labels, kind, counts = labels_of(how), how.get("post_transform", "NONE"), how.get("vectors_per_class") or ()
    if not sum(counts):
        return _linear_machine(_rows(x), labels, kind, how)
    vectors = np.array(how["support_vectors"], np.float64).reshape(sum(counts), -1)
    coefficients = np.array(how["coefficients"], np.float64).reshape(-1, sum(counts))
    near, starts = _kernel(_rows(x), vectors, how), np.cumsum([0, *counts])
    pairs = list(combinations(range(len(labels)), 2))
    scores, votes = np.zeros((len(near), len(pairs))), np.zeros((len(near), len(labels)))
    for k, (i, j) in enumerate(pairs):
        one, other = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        scores[:, k] = near[:, one] @ coefficients[j - 1, one] + near[:, other] @ coefficients[i, other] + how["rho"][k]
        votes[:, i] += scores[:, k] > 0
        votes[:, j] += ~(scores[:, k] > 0)
    found = labels[votes.argmax(1)]
    if how.get("prob_a"):
        chances = 1 - _logistic(scores * np.array(how["prob_a"]) + np.array(how["prob_b"]))
        chances = np.clip(chances, 1e-7, 1 - 1e-7)
        coupled = np.array([_coupled(row, pairs, len(labels)) for row in chances])
        return found, transformed(coupled.reshape(len(near), len(labels)), kind)
    return found, transformed(scores, kind) if len(pairs) > 1 else _both(scores, kind)


def _both(s: Array, kind: str) -> Array:
    """The two scores of two classes, from the one of their pair."""
    if kind == "PROBIT":
        return np.concatenate([_probit(s), np.zeros_like(s)], 1)
    if kind == "LOGISTIC":
        return np.concatenate([_logistic(-s), _logistic(s)], 1)
    return np.concatenate([-s if kind == "NONE" else 1 - s, s], 1)


def _linear_machine(x: Array, labels: Array, kind: str, how: dict[str, Any]) -> tuple[Array, Array]:
    """A row of coefficients for each class. The second of two classes wins if its score is high enough by itself."""
    coefficients = np.array(how["coefficients"], np.float64).reshape(len(labels), -1)
    scores = x @ coefficients.T + how["rho"][0]
    best = scores.argmax(1)
    if len(labels) == 2:
        most = scores.max(1)
        best = np.where(most >= 0.5 if np.all(coefficients >= 0) else most > 0, 1, best)
    return labels[best], transformed(scores, kind)


def _coupled(chances: Array, pairs: Sequence[tuple[int, int]], classes: int) -> Array:
    """The probabilities of classes that agree best with those of pairs.

    Wu, Lin, Weng: Probability estimates for multi-class classification by pairwise coupling, 2004, with the limits of libsvm.
    """
    r = np.zeros((classes, classes))
    for chance, (i, j) in zip(chances, pairs, strict=True):
        r[i, j], r[j, i] = chance, 1 - chance
    q = -r.T * r + np.diag(np.square(r).sum(0))
    p = np.full(classes, 1 / classes)
    for _ in range(100):
        qp = q @ p
        total = p @ qp
        if np.abs(qp - total).max() < 0.005 / classes:
            break
        for i in range(classes):
            step = (total - qp[i]) / q[i, i]
            p[i] += step
            total = (total + step * (step * q[i, i] + 2 * qp[i])) / (1 + step) ** 2
            qp = (qp + step * q[i]) / (1 + step)
            p /= 1 + step
    return p
