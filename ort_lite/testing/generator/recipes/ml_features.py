"""Operators of ai.onnx.ml on rows of features: scaling, encoding, selection, linear models and support vector machines."""

from typing import Any

import numpy as np

from ort_lite.dtypes import to_numpy
from ort_lite.testing.generator.arrays import between, indices, is_float, texts
from ort_lite.testing.generator.draft import Known
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe

ML = "ai.onnx.ml"
POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
WORDS = ("red", "green", "blue", "", "\u00e9t\u00e9", "one two", "10")


def rows(draw: Draw) -> Known:
    """Return rows `(N, C)` or `(C)` with at least one feature. Rarely N is 0."""
    if draw.chance(0.04):
        return draw.draft.lookup(draw.tensor(0, (0, draw.integer(1, 4))))
    return draw.value(0, low=1, high=2, least=1)


def features(x: Known) -> int:
    """Return the size of the last axis."""
    return x.sizes[-1]


def floats(draw: Draw, count: int, least: float = -2, most: float = 2) -> list[float]:
    """Return numbers that float32 holds exactly."""
    return [float(np.float32(draw.rng.uniform(least, most))) for _ in range(count)]


def whole_numbers(draw: Draw, count: int) -> list[int]:
    """Return distinct integers, near 0 or anywhere."""
    least, most = (-4, 12) if draw.chance(0.8) else (-(2**40), 2**40)
    return draw.rng.sample(range(least, most), count)


def labels(draw: Draw, index: int, numbers: str, count: int) -> dict[str, Any]:
    """Return the attribute with the labels of `count` classes, for the type of output `index`. `numbers` names it for integers."""
    if draw.output_kind(index) == "string":
        return {"classlabels_strings": draw.rng.sample(WORDS, count)}
    return {numbers: whole_numbers(draw, count)}


def post_transform(draw: Draw, probit: bool = True) -> str | None:
    """Return the transform of the scores. `probit` allows PROBIT, which needs scores between 0 and 1."""
    return draw.maybe(draw.choice(POST_TRANSFORMS if probit else POST_TRANSFORMS[:-1]), 0.7)


@recipe("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(draw: Draw) -> NodeProposal:
    """Draw an operand and indices into its last axis."""
    x = draw.value(0, low=1, high=4)
    if not features(x):
        x = draw.draft.lookup(draw.tensor(0, (draw.size(), 3)))
    count = draw.integer(1, 5)
    shape = (count,) if draw.chance(0.7) else (1, count)
    return call([x.name, draw.tensor(1, shape, indices(features(x), negative=False))])


@recipe("Binarizer", domain=ML)
def binarizer(draw: Draw) -> NodeProposal:
    """Draw an operand and sometimes a threshold."""
    return call([draw.value(0, high=4, open_shape=True).name], threshold=draw.maybe(draw.number(), 0.8))


@recipe("FeatureVectorizer", domain=ML)
def feature_vectorizer(draw: Draw) -> NodeProposal:
    """Draw inputs with at least one row, because onnxruntime aborts the process without any."""
    first = draw.value(0, low=1, high=2, least=1)
    count = first.sizes[0] if first.rank == 2 else 1
    operands = [first.name, *(draw.tensor(0, (count, draw.size(5))) for _ in range(draw.integer(0, 3)))]
    widths = [draw.integer(1, 6) for _ in operands]
    return call(operands, inputdimensions=widths)


@recipe("Imputer", domain=ML)
def imputer(draw: Draw) -> NodeProposal:
    """Draw rows, the value to replace, which may be NaN, and one replacement or one per feature."""
    x = rows(draw)
    count = draw.choice((1, features(x)))
    if is_float(draw.kind(0)):
        replaced = draw.choice([draw.number(), float("nan"), draw.integer(-24, 24) / 8])
        return call([x.name], imputed_value_floats=floats(draw, count), replaced_value_float=draw.maybe(replaced, 0.8))
    values = [draw.integer(-9, 9) for _ in range(count)]
    return call([x.name], imputed_value_int64s=values, replaced_value_int64=draw.maybe(draw.integer(-6, 9), 0.8))


@recipe("Normalizer", domain=ML)
def normalizer(draw: Draw) -> NodeProposal:
    """Draw rows and a norm."""
    return call([rows(draw).name], norm=draw.maybe(draw.choice(("MAX", "L1", "L2")), 0.9))


@recipe("Scaler", domain=ML)
def scaler(draw: Draw) -> NodeProposal:
    """Draw rows, and one offset and scale or one per feature."""
    x = rows(draw)
    count = draw.choice((1, features(x)))
    return call([x.name], offset=floats(draw, count), scale=floats(draw, count))


@recipe("OneHotEncoder", domain=ML)
def one_hot_encoder(draw: Draw) -> NodeProposal:
    """Draw categories. Floats are truncated to integers and stay within their range; with zeros=0 each element is a category."""
    kind, every = draw.kind(0), draw.chance(0.3)
    shape = draw.shape(1, 3)
    if kind == "string":
        words = draw.rng.sample(WORDS, draw.integer(1, 5))
        chosen = texts(shape, lambda: draw.choice(words if every else WORDS))
        return call([draw.array(chosen)], cats_strings=words, zeros=0 if every else draw.maybe(1))
    numbers = draw.rng.sample(range(-4, 8), draw.integer(1, 5))
    if every:
        chosen = np.array([draw.choice(numbers) for _ in range(int(np.prod(shape)))], np.int64).reshape(shape)
        return call([draw.array(chosen.astype(to_numpy(kind)))], cats_int64s=numbers, zeros=0)
    return call([draw.tensor(0, shape, between(-6, 9))], cats_int64s=numbers, zeros=draw.maybe(1))


@recipe("LinearRegressor", domain=ML)
def linear_regressor(draw: Draw) -> NodeProposal:
    """Draw rows, and coefficients for one to four targets."""
    x, targets = rows(draw), draw.integer(1, 4)
    return call(
        [x.name],
        coefficients=floats(draw, targets * features(x)),
        intercepts=draw.maybe(floats(draw, targets)),
        targets=targets if targets > 1 else draw.maybe(1),
        post_transform=post_transform(draw),
    )


@recipe("LinearClassifier", domain=ML)
def linear_classifier(draw: Draw) -> NodeProposal:
    """Draw coefficients: one row decides between two classes, without PROBIT; otherwise each class has its own."""
    x = rows(draw)
    binary = draw.chance(0.3)
    classes = 2 if binary else draw.integer(2, 5)
    lines = 1 if binary else classes
    return call(
        [x.name],
        2,
        coefficients=floats(draw, lines * features(x)),
        intercepts=floats(draw, lines) if binary else draw.maybe(floats(draw, lines), 0.8),
        multi_class=draw.maybe(draw.integer(0, 1)),
        post_transform=post_transform(draw, probit=not binary),
        **labels(draw, 0, "classlabels_ints", classes),
    )


def _kernel(draw: Draw, linear: bool = False) -> dict[str, Any]:
    """Return a kernel with gamma, coef0 and degree. A negative base needs an integer power."""
    kind = "LINEAR" if linear else draw.choice(("LINEAR", "POLY", "RBF", "SIGMOID"))
    parameters = [draw.integer(1, 8) / 16, draw.integer(-8, 8) / 8, float(draw.integer(1, 3))]
    return {"kernel_type": kind, "kernel_params": parameters if kind != "LINEAR" else draw.maybe(parameters, 0.9)}


@recipe("SVMRegressor", domain=ML)
def svm_regressor(draw: Draw) -> NodeProposal:
    """Draw support vectors, or a linear model with one coefficient per feature. One class returns signs, without PROBIT."""
    x, vectors, signs = rows(draw), draw.choice((0, draw.integer(1, 5))), draw.integer(0, 1)
    attributes: dict[str, Any] = _kernel(draw, linear=not vectors)
    if vectors:
        attributes |= {"support_vectors": floats(draw, vectors * features(x)), "n_supports": vectors}
    return call(
        [x.name],
        coefficients=floats(draw, vectors or features(x)),
        rho=floats(draw, 1),
        one_class=signs or draw.maybe(0),
        post_transform=post_transform(draw, probit=not signs),
        **attributes,
    )


@recipe("SVMClassifier", domain=ML)
def svm_classifier(draw: Draw) -> NodeProposal:
    """Draw support vectors that vote for each pair of classes, or a linear model with a row of coefficients per class.

    PROBIT is not used for two classes that share a score.
    """
    x, classes = rows(draw), draw.integer(2, 4)
    attributes: dict[str, Any] = labels(draw, 0, "classlabels_ints", classes)
    if draw.chance(0.25):
        attributes |= {"post_transform": post_transform(draw)}
        coefficients = floats(draw, classes * features(x))
        return call([x.name], 2, coefficients=coefficients, rho=floats(draw, 1), **_kernel(draw, linear=True), **attributes)
    counts = [draw.integer(1, 3) for _ in range(classes)]
    pairs = classes * (classes - 1) // 2
    attributes |= {"post_transform": post_transform(draw, probit=classes > 2)}
    if draw.chance(0.4):
        attributes |= {"prob_a": floats(draw, pairs, -2, -0.1), "prob_b": floats(draw, pairs)}
    return call(
        [x.name],
        2,
        coefficients=floats(draw, (classes - 1) * sum(counts)),
        rho=floats(draw, pairs),
        support_vectors=floats(draw, sum(counts) * features(x)),
        vectors_per_class=counts,
        **_kernel(draw),
        **attributes,
    )
