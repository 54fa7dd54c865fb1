"""Which kernels models ask for on whatever CPU, from lowering alone: nothing is compiled, so that no such CPU is needed.

While a target is pretended to be this machine, every kernel that is loaded is a stand-in that does nothing. Models are loaded and not
run: what is lowered in a run alone, as the bodies of control flow may be, is recorded of runs on this machine (`recorded`).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

import ort_lite
from ort_lite.native import Spec, cpu, loader
from ort_lite.native.cpu import Target
from ort_lite.native.missing import WAIT
from ort_lite_cpu.program.segment import NOTHING

_DTYPES = {"float": "float32", "double": "float64"}
"""NumPy's names of element types that ONNX names otherwise."""


@contextmanager
def pretended(aim: Target) -> Iterator[set[Spec]]:
    """Within it that is this machine; gives the specs that are asked for."""
    asked: set[Spec] = set()
    machine, seen, load = cpu.host(), cpu._detect, loader._load
    [stand_in] = loader.load([NOTHING])

    def record(specs: Iterable[Spec], target: Target, compile: str) -> None:
        found = list(specs)
        asked.update(found)
        known = loader._by_spec.setdefault(target, {})
        known.update((spec, stand_in if not spec.signature else _here(spec)) for spec in found)

    def _here(spec: Spec) -> int:
        """Functions of other signatures do run: they find the sizes of memory, and close threads."""
        with _host(lambda: machine):
            known = loader._by_spec.setdefault(machine, {})
            if spec not in known:
                load([spec], machine, WAIT)
            return known[spec]

    kept = dict(loader._by_spec)
    loader._by_spec.clear()
    loader._by_spec[machine] = {}
    loader._load = record
    try:
        with _host(lambda: aim), _left(asked):
            yield asked
    finally:
        loader._load = load
        loader._by_spec.clear()
        loader._by_spec.update(kept)
        cpu._detect = seen


@contextmanager
def _host(seen: Any) -> Iterator[None]:
    """Within it `cpu.host` is what this function sees."""
    before = cpu._detect
    cpu._detect = seen
    _forget()
    try:
        yield
    finally:
        cpu._detect = before
        _forget()


def _forget() -> None:
    for known in (cpu.host, cpu.parse_target, cpu.runnable):
        known.cache_clear()


@contextmanager
def recorded() -> Iterator[set[Spec]]:
    """Within it kernels are compiled and run as ever; gives the specs that are asked for."""
    asked: set[Spec] = set()
    load = loader._load

    def record(specs: Iterable[Spec], target: Target, compile: str) -> None:
        found = list(specs)
        asked.update(found)
        load(found, target, compile)

    loader._load = record
    try:
        with _left(asked):
            yield asked
    finally:
        loader._load = load


@contextmanager
def _left(asked: set[Spec]) -> Iterator[None]:
    """Within it, what is done without is asked for, too."""
    leave = loader.leave
    loader.leave = lambda spec, target: asked.add(spec)
    try:
        yield
    finally:
        loader.leave = leave


def load(model: Any, rounding: str = "") -> ort_lite.InferenceSession | None:
    """A model on the CPU provider; None for one that is refused, which asks for nothing more. `rounding`: see `Work`."""
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.round_16_bit", rounding)
    options.add_session_config_entry("ort_lite.prepared", "0")  # a program from the store loads its kernels by their keys
    options.log_severity_level = 4
    try:
        return ort_lite.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except ort_lite.errors.OrtLiteError:
        return None


def run(model: Any, runs: Iterable[Mapping[str, Any]] | None) -> None:
    """With given feeds, or once with ones that are made up; those that are refused ask for nothing more."""
    session = load(model)
    if session is None:
        return
    with suppress(ort_lite.errors.OrtLiteError):
        for feeds in [_made_up(session)] if runs is None else runs:
            session.run(None, feeds)


def _made_up(session: ort_lite.InferenceSession) -> dict[str, Any]:
    """Ones, in batches of one; other free dimensions are 32."""
    feeds = {}
    for given in session.get_inputs():
        shape = [size if isinstance(size, int) else 32 if axis else 1 for axis, size in enumerate(given.shape)]
        name = given.type.removeprefix("tensor(").removesuffix(")")
        feeds[given.name] = np.full(shape, "1", object) if name == "string" else np.ones(shape, _DTYPES.get(name, name))
    return feeds
