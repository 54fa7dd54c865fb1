"""Windows that walk over the last axes of an array: how convolutions and pools do, spelled out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from ort_lite.dtypes import Array


@dataclass(frozen=True)
class Windows:
    """How a kernel walks over the last axes of an input of these sizes."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    auto_pad: str
    ceil: bool

    @property
    def extents(self) -> list[int]:
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def padding(self) -> list[tuple[int, int]]:
        """Before and behind each axis."""
        rank = len(self.sizes)
        if self.auto_pad == "NOTSET":
            return list(zip(self.pads[:rank], self.pads[rank:], strict=True))
        if self.auto_pad == "VALID":
            return [(0, 0)] * rank
        found = []
        for n, extent, stride in zip(self.sizes, self.extents, self.strides, strict=True):
            total = max((-(-n // stride) - 1) * stride + extent - n, 0)
            less, more = total // 2, total - total // 2
            found.append((less, more) if self.auto_pad == "SAME_UPPER" else (more, less))
        return found

    def counts(self) -> tuple[int, ...]:
        """How many windows along each axis. With `ceil` one may hang over the end, but must begin before it."""
        found = []
        for n, extent, stride, (before, after) in zip(self.sizes, self.extents, self.strides, self.padding(), strict=True):
            room = n + before + after - extent
            count = (-(-room // stride) if self.ceil else room // stride) + 1
            found.append(count - 1 if self.ceil and (count - 1) * stride >= n + before else count)
        return tuple(found)

    def attributes(self) -> dict[str, Any]:
        more = {"pads": list(self.pads)} if self.auto_pad == "NOTSET" else {"auto_pad": self.auto_pad}
        return {"kernel_shape": list(self.kernel), "strides": list(self.strides), "dilations": list(self.dilations), **more}

    def taps(self, x: Array) -> Array:
        """(N, C, *counts, *kernel): elements below each window; NaN where it lies in the padding, inf beyond that."""
        wide = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *self.padding()], constant_values=np.nan)
        counts = self.counts()
        made = np.full((*x.shape[:2], *counts, *self.kernel), np.inf)
        for at in product(*map(range, counts)):
            for tap in product(*map(range, self.kernel)):
                place = [i * s + t * d for i, s, t, d in zip(at, self.strides, tap, self.dilations, strict=True)]
                if all(p < n for p, n in zip(place, wide.shape[2:], strict=True)):
                    made[everywhere(*at, *tap)] = wide[everywhere(*place)]
        return made


def everywhere(*place: int) -> Any:
    """The index of a place in all channels of all batches."""
    return (slice(None), slice(None), *place)


@st.composite
def windows(draw: st.DrawFn, pooling: bool = False) -> Windows:
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def each(values: Sequence[int]) -> tuple[int, ...]:
        same = draw(st.sampled_from(values))
        return (same,) * rank if draw(st.booleans()) else tuple(draw(st.sampled_from(values)) for _ in range(rank))

    kernel, strides, dilations = each([1, 2, 3]), each([1, 1, 2, 3]), each([1, 1, 2])
    auto_pad = draw(st.sampled_from(["NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if pooling and auto_pad.startswith("SAME"):
        dilations = (1,) * rank  # with others, onnxruntime has fewer windows than the specification
    pads = [0] * 2 * rank
    for k, size in enumerate(kernel):
        most = size - 1 if pooling else 2
        pads[k], pads[rank + k] = draw(st.integers(0, most)), draw(st.integers(0, most))
    sizes = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    ceil = pooling and auto_pad == "NOTSET" and draw(st.booleans())
    made = Windows(sizes, kernel, strides, dilations, tuple(pads), auto_pad, ceil)
    padded = [n + before + after for n, (before, after) in zip(sizes, made.padding(), strict=True)]
    assume(all(n >= extent for n, extent in zip(padded, made.extents, strict=True)))
    return made


BATCHES = st.sampled_from([1, 1, 2, 0])
CHANNELS = st.sampled_from([(1, 1, 1), (1, 3, 5), (2, 2, 3), (4, 1, 1), (3, 1, 2), (1, 8, 16), (8, 1, 1), (1, 17, 4)])
"""Groups, channels of a group before and behind."""


def convolved(w: Windows, x: Array, weight: Array, groups: int) -> Array:
    """(N, M, ...) in double precision, from x (N, C, ...) and weight (M, C / groups, ...)."""
    rank = len(w.sizes)
    parts = np.split(np.nan_to_num(w.taps(x)), groups, 1)
    axes = [1, *range(2 + rank, 2 + 2 * rank)], range(1, 2 + rank)
    made = [np.tensordot(part, own, axes) for part, own in zip(parts, np.split(weight, groups), strict=True)]
    return np.moveaxis(np.concatenate(made, -1), -1, 1)
