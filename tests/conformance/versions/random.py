"""Random numbers: with a seed the same in every session; distributed as they should be."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, from_numpy, to_numpy, to_onnx
from tests.conformance.versions.cases import Case, Right, case
from tests.conformance.versions.models import convert
from tests.cpu.check import ramp

MANY = 4096
SIX = 6 / MANY**0.5
"""Six standard errors of a mean: once in 500 million draws it is farther off."""


class Seeded:
    """Accepts what `fits`, has the type and shape of `like`, and is bit for bit what came first."""

    def __init__(self, like: Array, fits: Callable[[Array], Any]) -> None:
        self._like, self._fits = like, fits
        self._first: Array | None = None

    def __call__(self, got: Array) -> bool:
        self._first = got if self._first is None else self._first
        same_form = got.dtype == self._like.dtype and got.shape == self._like.shape
        return same_form and got.tobytes() == self._first.tobytes() and bool(self._fits(got.astype(np.float64)))


def drawn(shape: Any, dtype: str, fits: Callable[[Array], Any]) -> Right:
    like = np.zeros(shape, to_numpy(dtype))
    return Right(like, Seeded(like, fits))


def uniform(low: float, high: float) -> Callable[[Array], Any]:
    """Mean and spread; 16-bit floats may round up to the end of the interval."""

    def fits(x: Array) -> Any:
        y = (x - low) / (high - low)
        return y.min() >= 0 and y.max() <= 1 and abs(y.mean() - 0.5) < SIX * 0.29 and abs(y.std() - 12**-0.5) < SIX * 0.15

    return fits


def normal(mean: float, scale: float) -> Callable[[Array], Any]:
    def fits(x: Array) -> Any:
        z = (x - mean) / scale
        return abs(z.mean()) < SIX and abs(z.std() - 1) < SIX and abs((z > 1).mean() - 0.1587) < SIX * 0.37

    return fits


SINCE = {"float32": 1, "float16": 1, "float64": 1, "bfloat16": 22}
SHAPES = {"float32": [4, MANY // 4], "float64": [MANY], "float16": [2, 1, MANY // 2], "bfloat16": [MANY]}


def of_a_shape(dtype: str, since: int) -> list[Case]:
    given: dict[str, Any] = {"shape": SHAPES[dtype], "since": since, "seed": 3.0, "dtype": to_onnx(dtype)}
    flat, bell = uniform(-2, 6), normal(3, 2)
    return [
        case("RandomUniform", oracle=lambda **_: drawn(SHAPES[dtype], dtype, flat), low=-2.0, high=6.0, **given),
        case("RandomNormal", oracle=lambda **_: drawn(SHAPES[dtype], dtype, bell), mean=3.0, scale=2.0, **given),
    ]


def like_another() -> list[Case]:
    """Of any type, if the result's is given; by default that of the input."""
    made: list[Case] = []
    for op_type, fits in (("RandomUniformLike", uniform(0, 1)), ("RandomNormalLike", normal(0, 1))):

        def half(x: Array, fits: Any = fits, **_: Any) -> Right:
            return drawn(x.shape, "float16", fits)

        def same(x: Array, fits: Any = fits, **_: Any) -> Right:
            return drawn(x.shape, from_numpy(x.dtype), fits)

        made.append(case(op_type, ramp((4, MANY // 4)), oracle=half, seed=5.0, dtype=to_onnx("float16")))
        made.append(case(op_type, ramp((MANY,)), types=["float64"], oracle=same, seed=6.0))
    return made


CHANCES = np.repeat(np.array([[0.0], [0.25], [0.875], [1.0]], np.float32), MANY, 1)


def chances(x: Array) -> Any:
    """Nearly as many ones in each row as asked for."""
    rates = x.reshape(4, -1).mean(1)
    return set(np.unique(x)) == {0, 1} and rates[0] == 0 and rates[3] == 1 and np.abs(rates - CHANCES[:, 0]).max() < SIX / 2


def coin(dtype: str | None) -> Callable[..., Right]:
    return lambda x, **_: drawn(x.shape, dtype or from_numpy(x.dtype), chances)


COINS = (
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "bool",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)
WEIGHTS = np.array([[0.125, 0.25, 0.625, 0.0], [0.25, 0.25, 0.25, 0.25]])


def classes(x: Array) -> Any:
    rates = np.stack([np.bincount(row.astype(int), minlength=4) for row in x]) / x.shape[1]
    return rates[0, 3] == 0 and np.abs(rates - WEIGHTS).max() < SIX / 2


def multinomial(dtype: str) -> Case:
    with np.errstate(divide="ignore"):
        x = np.maximum(np.log(WEIGHTS * 2), -60).astype(np.float32)
    made = {"dtype": to_onnx(dtype), "sample_size": MANY, "seed": 2.0, "atol": 0}
    return case("Multinomial", x, oracle=lambda x, **_: drawn((2, MANY), dtype, classes), **made)


MASKED = ramp((3, 4, 5))


def dropout(x: Array, ratio: Array | None = None, training: Array | None = None, seed: int = 0) -> tuple[Array, Array]:
    """Masks are those of NumPy's first generator, as the specification's own tests have it."""
    share = 0.5 if ratio is None else float(ratio)
    if training is None or not training:
        return x, np.ones(x.shape, bool)
    mask = np.asarray(np.random.RandomState(seed).uniform(0, 1, x.shape) >= share)
    return np.asarray(mask * x / (1 - share)).astype(x.dtype), mask


def kept(x: Array, **_: Any) -> tuple[Array, Array]:
    """Nothing is dropped. Before version 10 the mask has the type of the data."""
    return x, np.ones(x.shape, x.dtype)


TRAINING = np.array(True)
TRAINED = (
    case("Dropout", MASKED, until=6, outputs=2, oracle=kept, is_test=1, types=()),
    case(
        "Dropout",
        MASKED,
        np.array(0.25, np.float32),
        TRAINING,
        since=12,
        outputs=2,
        oracle=dropout,
        constants=[1, 2],
        seed=7,
        types=["float64"],
    ),
    case("Dropout", MASKED, np.array(0, np.float32), TRAINING, since=12, outputs=2, oracle=dropout, seed=7, types=()),
    case("Dropout", MASKED, None, TRAINING, since=12, outputs=2, oracle=dropout, constants=[2], seed=1, types=()),
    case("Dropout", MASKED, np.array(0.75, np.float32), ~TRAINING, since=12, outputs=2, oracle=dropout, seed=1, types=()),
)

CASES: tuple[Case, ...] = (
    *[one for dtype, since in SINCE.items() for one in of_a_shape(dtype, since)],
    *like_another(),
    case("Bernoulli", CHANCES, types=["float64"], oracle=coin(None), seed=4.0),
    *[case("Bernoulli", convert(CHANCES, dtype), types=(), oracle=coin(dtype), seed=4.0) for dtype in ("float16", "bfloat16")],
    *[case("Bernoulli", CHANCES, types=(), oracle=coin(dtype), seed=4.0, dtype=to_onnx(dtype)) for dtype in COINS],
    *[multinomial(dtype) for dtype in ("int32", "int64")],
    *TRAINED,
)
