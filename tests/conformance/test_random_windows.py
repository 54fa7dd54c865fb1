"""Conv, ConvTranspose and pooling over one to three axes: any strides, dilations, pads and groups, against NumPy."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from tests.conformance.drawing import HOWS, SEEDS, How, drawn, numbers
from tests.conformance.random_models import check
from tests.conformance.windows import BATCHES, CHANNELS, Windows, convolved, everywhere, windows


@drawn(40, w=windows(), n=BATCHES, channels=CHANNELS, bias=st.booleans(), seed=SEEDS, how=HOWS)
def test_conv(w: Windows, n: int, channels: tuple[int, int, int], bias: bool, seed: int, how: How) -> None:
    groups, before, behind = channels
    x = numbers((n, groups * before, *w.sizes), "float32", seed, low=-2, high=2)
    weight = numbers((groups * behind, before, *w.kernel), "float32", seed + 1, low=-1, high=1)
    b = numbers((groups * behind,), "float32", seed + 2) if bias else None
    wanted = convolved(w, x, weight, groups) + (0 if b is None else b.reshape(-1, *[1] * len(w.sizes)))
    check("Conv", [x, weight, b], [wanted.astype(np.float32)], how, group=groups, atol=1e-4, **w.attributes())


@drawn(20, w=windows(), n=BATCHES, channels=CHANNELS, bias=st.booleans(), seed=SEEDS, how=HOWS, more=st.integers(0, 1))
def test_conv_transpose(w: Windows, n: int, channels: tuple[int, int, int], bias: bool, seed: int, how: How, more: int) -> None:
    """Each element spreads the kernel over the output, from which the pads are cut."""
    groups, before, behind = channels
    rank = len(w.sizes)
    more = min(more, *(max(s, d) - 1 for s, d in zip(w.strides, w.dilations, strict=True)))  # output_padding is below these
    x = numbers((n, groups * before, *w.sizes), "float32", seed, low=-2, high=2)
    weight = numbers((groups * before, behind, *w.kernel), "float32", seed + 1, low=-1, high=1)
    b = numbers((groups * behind,), "float32", seed + 2) if bias else None
    full = [(size - 1) * s + extent + more for size, s, extent in zip(w.sizes, w.strides, w.extents, strict=True)]
    pads = w.pads if w.auto_pad == "NOTSET" else (0,) * 2 * rank
    assume(all(f - pads[k] - pads[rank + k] > 0 for k, f in enumerate(full)))
    wide = np.zeros((n, groups * behind, *full))
    for at in product(*map(range, w.sizes)):
        for tap in product(*map(range, w.kernel)):
            place = tuple(i * s + t * d for i, s, t, d in zip(at, w.strides, tap, w.dilations, strict=True))
            taken: Any = x[everywhere(*at)].reshape(n, groups, before).astype(np.float64)
            spread = np.einsum("ngb,gbc->ngc", taken, weight[everywhere(*tap)].reshape(groups, before, behind))
            wide[everywhere(*place)] += spread.reshape(n, groups * behind)
    cut = tuple(slice(pads[k], f - pads[rank + k]) for k, f in enumerate(full))
    wanted = wide[(slice(None), slice(None), *cut)] + (0 if b is None else b.reshape(-1, *[1] * rank))
    attributes = {
        "kernel_shape": list(w.kernel),
        "strides": list(w.strides),
        "dilations": list(w.dilations),
        "pads": list(pads),
    }
    check(
        "ConvTranspose",
        [x, weight, b],
        [wanted.astype(np.float32)],
        how,
        group=groups,
        output_padding=[more] * rank,
        atol=1e-4,
        **attributes,
    )


def mean(taps: Array, with_padding: bool) -> Array:
    """Over what lies in the input, or with the padding; what is beyond it never counts."""
    inside, there = np.isfinite(taps), ~np.isinf(taps)
    total = np.where(inside, taps, 0).sum(-1)
    return np.asarray(total / np.maximum((there if with_padding else inside).sum(-1), 1))


def norm(taps: Array, p: int) -> Array:
    return np.asarray((np.where(np.isfinite(taps), abs(taps), 0) ** p).sum(-1) ** (1 / p))


def pooled(w: Windows, x: Array, function: Callable[..., Array], *more: int) -> Array:
    taps = w.taps(x)
    return function(taps.reshape(*taps.shape[: x.ndim], int(np.prod(w.kernel))), *more).astype(x.dtype)


POOLS = st.sampled_from(["MaxPool", "AveragePool", "LpPool"])


@drawn(
    40,
    op=POOLS,
    w=windows(pooling=True),
    n=BATCHES,
    c=st.sampled_from([1, 3, 17]),
    seed=SEEDS,
    how=HOWS,
    flag=st.integers(0, 1),
)
def test_pooling(op: str, w: Windows, n: int, c: int, seed: int, how: How, flag: int) -> None:
    x = numbers((n, c, *w.sizes), "float32", seed)
    attributes = {**w.attributes(), "ceil_mode": int(w.ceil)}
    if op == "MaxPool":
        wanted = pooled(w, x, lambda taps: np.max(np.where(np.isfinite(taps), taps, -np.inf), -1))
        assume(np.isfinite(wanted).all())  # a window that lies in the padding alone
    elif op == "AveragePool":
        wanted = pooled(w, x, mean, flag)
        attributes["count_include_pad"] = flag
    else:
        wanted = pooled(w, x, norm, 1 + flag)
        attributes["p"] = 1 + flag
    check(op, [x], [wanted], how, opset=22, **attributes)
