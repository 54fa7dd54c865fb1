"""What is run under emulation, and what should come out: node cases of onnx's test suite, and three models beside onnxruntime."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ort_lite import GraphOptimizationLevel
from tests.conformance import onnx_backend
from tests.models import beside_onnxruntime, light_models, test_minilm, test_silero

Outputs = Sequence[Any]


class Work(NamedTuple):
    """A model, what it is fed run by run, and a check of the outputs of all runs, which raises AssertionError."""

    name: str
    model: bytes
    runs: list[dict[str, Any]]
    check: Callable[[Sequence[Outputs]], None]
    threads: int = 1
    level: int = GraphOptimizationLevel.ORT_ENABLE_ALL
    rounding: str = ""
    """Session config entry ort_lite.round_16_bit."""


def cases(first: int, every: int) -> Iterator[Work]:
    """Every so many of the suite's cases by name, from the first one on; its whole networks are none of them."""
    found = onnx_backend.cases()
    names = [name for name in sorted(found) if name not in onnx_backend.EXCLUDED and found[name].kind != "real"]
    for name in names[first::every]:
        yield _case(found[name])


def _case(case: Any) -> Work:
    model = onnx_backend.model_of(case)
    sets = list(onnx_backend.data_sets(case, model))

    def check(results: Sequence[Outputs]) -> None:
        for got, (_, expected) in zip(results, sets, strict=True):
            for value, result, wanted in zip(model.graph.output, got, expected, strict=True):
                onnx_backend.assert_same(result, wanted, case.rtol, case.atol, value.name)

    runs = [onnx_backend.feeds(model, inputs) for inputs, _ in sets]
    rounding = "steps" if case.name in onnx_backend.STEPWISE else ""
    return Work(case.name, model.SerializeToString(), runs, check, rounding=rounding)


def models() -> Iterator[Work]:
    """An image network, an encoder with int8 weights, a recurrent network with control flow; two threads each."""
    yield _model("shufflenet", light_models.randomised("shufflenet"), [{"gpu_0/data_0": light_models.image()}])
    yield _model("minilm", test_minilm.model(), [test_minilm.tokens(1, 5), test_minilm.tokens(2, 3)])
    state = np.full((2, 1, 128), 0.1, np.float32)
    heard = [(rate, test_silero.sound(rate, samples, 1)) for rate, samples in ((16000, 576), (8000, 288))]
    runs = [{"input": sound, "state": state, "sr": np.array(rate, np.int64)} for rate, sound in heard]
    yield _model("silero", test_silero.MODEL.read_bytes(), runs)


def _model(name: str, model: bytes, runs: list[dict[str, Any]]) -> Work:
    session = beside_onnxruntime.theirs(model)
    names = [output.name for output in session.get_outputs()]
    expected = [session.run(names, feeds) for feeds in runs]

    def check(results: Sequence[Outputs]) -> None:
        for number, (got, wanted) in enumerate(zip(results, expected, strict=True)):
            beside_onnxruntime.assert_close(names, got, wanted, f"run {number}:")

    return Work(name, model, runs, check, threads=2)
