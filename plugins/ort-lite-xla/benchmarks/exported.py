"""The ways to run a model from a file: ort-lite, and `jax.jit` of what the provider makes of it, without a session."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.ways import PRECISIONS, Runs, Way, jax_device, provider_options

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.provider import Partition

ROOM = 512
"""The positions of a decoder's caches."""
PAST, PRESENT, MASK = "past_key_values.", "present.", "attention_mask"


class Steps:
    """The feeds of a model. Those of a decoder are the next token's after each run, with caches of `ROOM` positions."""

    def __init__(self, folder: Path, masked: int = 0) -> None:
        self.feeds = dict(np.load(folder / "feeds.npz"))
        self.caches = [name for name in self.feeds if name.startswith(PAST)]
        self._masked = masked
        if self.caches:
            self._begin = self.feeds[self.caches[0]].shape[2]
            for name in self.caches:
                short = self.feeds[name]
                self.feeds[name] = np.pad(short, [(0, 0), (0, 0), (0, ROOM - self._begin), (0, 0)])
            self._length = self._begin
            self.advance()

    def advance(self) -> None:
        """Go to the next position, and after the last one back to the first. The mask is as long, or has `masked` columns."""
        self._length = (self._length if self._length < ROOM else self._begin) + 1
        mask = np.arange(self._masked or self._length) < self._length
        self.feeds[MASK] = mask[None].astype(np.int64)


def through_ort_lite(folder: Path, precision: str, device: str) -> Runs:
    """Prepare runs of a session."""
    providers: list[Any] = [("XLAExecutionProvider", provider_options(precision, device)), "CPUExecutionProvider"]
    session = ort_lite.InferenceSession(str(folder / "model.onnx"), providers=providers)
    steps, outputs = Steps(folder), [value.name for value in session.get_outputs()]
    presents = [name.replace(PAST, PRESENT) for name in steps.caches]

    def run() -> Array:
        found: dict[str, Array] = dict(zip(outputs, session.run(None, steps.feeds), strict=True))
        if presents:
            steps.feeds.update(zip(steps.caches, (found[name] for name in presents), strict=True))
            steps.advance()
        return found[outputs[0]]

    return run, None


def _partition(folder: Path) -> Partition:
    """Return the one partition of the model."""
    plan = ort_lite.plan(str(folder / "model.onnx"), ["XLAExecutionProvider", "CPUExecutionProvider"])
    (partition,) = plan.assignment.partitions
    return partition


def through_jax(folder: Path, precision: str, device: str) -> Runs:
    """Prepare runs of a `jax.jit` function of the model's one partition. Caches stay on the device."""
    import jax
    from ort_lite_xla.lower import jax_function, operands_of

    partition = _partition(folder)
    steps, place = Steps(folder, ROOM), jax_device(device)
    names, outputs = ([value.name for value in values] for values in (partition.inputs, partition.outputs))
    compute = jax_function(partition, {})

    def function(weights: Sequence[Any], caches: Sequence[Any], fed: Sequence[Any]) -> list[Any]:
        given = dict(zip(steps.caches, caches, strict=True)) | dict(zip(others, fed, strict=True))
        with jax.default_matmul_precision(PRECISIONS[precision]):
            return compute(*weights, *(given[name] for name in names))

    others = [name for name in names if name not in steps.caches]
    compiled = jax.jit(function, donate_argnums=(1,))
    with jax.enable_x64(True):
        weights = [jax.device_put(value.constant, place) for value in operands_of(partition)]
        caches = [jax.device_put(steps.feeds[name], place) for name in steps.caches]
    presents = [outputs.index(name.replace(PAST, PRESENT)) for name in steps.caches]

    def feeds() -> Iterator[Any]:
        return (jax.device_put(steps.feeds[name], place) for name in others)

    def call(operands: Sequence[Any]) -> Any:
        with jax.enable_x64(True):
            found = compiled(weights, caches, operands)
        caches[:] = [found[index] for index in presents]
        return found[0]

    def host() -> Array:
        with jax.enable_x64(True):
            result = np.asarray(call(list(feeds())))
        if presents:
            steps.advance()
        return result

    with jax.enable_x64(True):
        inside = list(feeds())
    return host, lambda: call(inside).block_until_ready()


def ways_of_file(folder: Path) -> dict[str, Way]:
    """Return the ways to run the model of a folder, by name."""
    return {"jax.jit": partial(through_jax, folder), "ort-lite": partial(through_ort_lite, folder)}
