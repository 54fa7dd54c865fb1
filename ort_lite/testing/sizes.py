"""Cases whose runs have several sizes along two axes in one session."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import OrtLiteError
from ort_lite.inference.annotate import annotate
from ort_lite.load.load import load
from ort_lite.plugins import shape_rules
from ort_lite.testing.generated import GeneratedCase

Feed = Mapping[str, Array]
Axes = Sequence[tuple[str, int]]
"""Axes of inputs whose sizes change together."""
RESIZINGS = 2
"""Axes, or groups of them, that change."""


def resize_case(case: GeneratedCase, session: Callable[[Any], Any]) -> GeneratedCase | None:
    """Return the case with runs of other sizes, empty ones included, and of the first one again, or None if no size may change.

    `session(model)` creates a session that decides which sizes are valid.
    """
    (feed,) = case.feeds
    if any(array.size == 0 for array in feed.values()):  # nothing says then whether other sizes are valid
        return None
    names = {name: [f"{name}_{axis}" for axis in range(array.ndim)] for name, array in feed.items()}
    reference = session(_declare(case.model, names))
    found: list[Feed] = []
    changed = 0
    for axes in _groups(feed, Random(case.name)):
        valid = [other for other in _variants(feed, axes) if _fits(case.model, other) and _runs(reference, other)]
        if len(valid) >= 2:
            found += valid
            changed += 1
        if changed == RESIZINGS:
            break
    if not found:
        return None
    feeds = (found[0], feed, *found[1:], found[0])
    shapes = ", ".join(" ".join("x".join(map(str, array.shape)) or "0-d" for array in one.values()) for one in feeds)
    model = _declare(case.model, {name: _dims([one[name].shape for one in feeds]) for name in feed})
    return case.replace(name=f"{case.name}, runs of {shapes}", kind="sizes", model=model, feeds=feeds)


def _groups(feed: Feed, rng: Random) -> Iterator[Axes]:
    """Return each axis alone, and all axes of its size, but not axes of integer vectors, which are shapes and axes."""
    tensors = {name: array for name, array in feed.items() if array.ndim > 1 or array.dtype.kind not in "iu"}
    every = [(name, axis) for name, array in tensors.items() for axis in range(array.ndim)]
    rng.shuffle(every)
    for name, axis in every:
        yield [(name, axis)]
        alike = [(other, k) for other, k in every if feed[other].shape[k] == feed[name].shape[axis]]
        if len(alike) > 1:
            yield alike


def _variants(feed: Feed, axes: Axes) -> Iterator[Feed]:
    """Yield the feed with other sizes along the axes. Its elements repeat, from another one on."""
    name, axis = axes[0]
    size = feed[name].shape[axis]
    for shift, other in enumerate((1, size + 3, size + 1, 0), 1):
        if other != size and (other or len(axes) == 1):
            index = (np.arange(other) + shift) % size
            changed = dict(feed)
            for name, axis in axes:
                changed[name] = changed[name].take(index, axis)
            yield changed


def _fits(model: Any, feed: Feed) -> bool:
    """Return True if the shape rules accept these sizes."""
    declared = _declare(model, {name: array.shape for name, array in feed.items()})
    try:
        annotate(load(declared.SerializeToString()).graph, shape_rules())
    except OrtLiteError:
        return False
    return True


def _runs(session: Any, feed: Feed) -> bool:
    """Return True if the CPU provider can run these sizes. ONNX leaves the NaN of an empty mean open."""
    try:
        with np.errstate(all="ignore"):
            results = session.run(None, dict(feed))
    except Exception:  # noqa: BLE001  any error means that the CPU provider refuses these sizes, which is the answer
        return False
    empty = any(array.size == 0 for array in feed.values())
    return not (empty and any(array.dtype.kind in "fc" and np.isnan(array).any() for array in results))


def _dims(shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return names for sizes that change. Sizes that always change together share a name."""
    return [each[0] if len(set(each)) == 1 else "n" + "_".join(map(str, each)) for each in zip(*shapes, strict=True)]


def _declare(model: Any, dims: Mapping[str, Sequence[Any]]) -> Any:
    """Return the model with other declared sizes of its inputs."""
    declared = type(model)()
    declared.CopyFrom(model)
    for value in declared.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, dims[value.name], strict=True):
            dim.Clear()
            if isinstance(size, int):
                dim.dim_value = size
            else:
                dim.dim_param = size
    return declared
