"""Hooks that fail or answer nonsense: the error says whose hook it was, and what should have come."""

from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import (
    InvalidArgument,
    InvalidGraph,
    OrtLiteError,
    OutOfMemory,
    ProviderError,
    RunTerminated,
    RuntimeException,
)
from ort_lite.graph import Node
from ort_lite.partition.cost.cost_model import CostModel
from ort_lite.partition.cost.strategy import CostStrategy
from ort_lite.provider import Capability
from ort_lite.provider.ask import ask, name_errors
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider
from tests.text_graphs import model

X = np.ones(3, np.float32)
GRAPH = ("(float[3] x) => (float[3] y)", "{ a = Abs(x) y = Neg(a) }")

# A hook that a session asks, and answers that it does not have.
ANSWERS: list[tuple[str, list[Any]]] = [
    ("get_capability", [None, 3, "all", [Node("Abs", [], [])], [None]]),
    ("fusions", [None, 3, "all", [7], [Node("Abs", [], [])]]),
    ("supports_type", [None, "yes", 1]),
    ("data_transfer", [3, object()]),
    ("allocator", ["pool", object()]),
    ("available_resource", [4, "1 GB"]),
    ("cost", ["fast", True, -1.0, float("nan"), float("inf")]),
    ("overhead", [0.5, "none"]),
    ("preferred_layout", ["NCWH", 3, "nhwc"]),
    ("end_profiling", [None, ["event"], 7]),
]


class Answering(NumpyProvider):
    """Gives `answer` where `hook` is asked, or raises it."""

    name = "AnsweringExecutionProvider"

    def __init__(self, hook: str, answer: Any) -> None:
        super().__init__(lambda node: node.op_type == "Abs")

        def given(*arguments: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        setattr(self, hook, given)


def asked(provider: Any) -> None:
    ask(provider, provider_hook(provider))


def provider_hook(provider: Any) -> str:
    return next(name for name, _ in ANSWERS if name in vars(provider))


@pytest.mark.parametrize(
    ("hook", "answer"),
    [(hook, answer) for hook, answers in ANSWERS for answer in answers],
    ids=lambda value: f"{value!r:.20}".partition(" at ")[0],
)
def test_an_answer_that_a_hook_does_not_have_is_told_in_words(hook: str, answer: Any) -> None:
    with pytest.raises(ProviderError, match=rf"^AnsweringExecutionProvider: {hook} (returned|failed: TypeError: ).*"):
        asked(Answering(hook, answer))


@pytest.mark.parametrize("error", [OSError("bus"), InvalidGraph("ours")], ids=["theirs", "ours"])
@pytest.mark.parametrize("hook", [hook for hook, _ in ANSWERS])
def test_a_hook_that_raises_is_named_and_its_error_is_the_cause(hook: str, error: Exception) -> None:
    message = rf"^AnsweringExecutionProvider: {hook} failed: {type(error).__name__}: {error}$"
    with pytest.raises(ProviderError, match=message) as caught:
        asked(Answering(hook, error))
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("hook", ["get_capability", "data_transfer", "available_resource", "configure"])
@pytest.mark.parametrize("error", [OSError("bus"), InvalidGraph("ours")], ids=["theirs", "ours"])
def test_sessions_ask_so(hook: str, error: Exception) -> None:
    with pytest.raises(OrtLiteError, match=f"AnsweringExecutionProvider: {hook} failed: {type(error).__name__}: {error}"):
        ort_lite.InferenceSession(model(*GRAPH), providers=[Answering(hook, error), CpuStandIn()])


@pytest.mark.parametrize(("hook", "answer"), [("cost", "fast"), ("overhead", 0.5)])
def test_the_cost_partitioner_asks_so(hook: str, answer: Any) -> None:
    with pytest.raises(ProviderError, match=f"AnsweringExecutionProvider: {hook} returned {answer!r}; expected"):
        ort_lite.InferenceSession(
            model(*GRAPH), providers=[Answering(hook, answer), CpuStandIn()], partitioning=CostStrategy(CostModel())
        )


def test_options_that_are_refused_stay_invalid_arguments() -> None:
    with pytest.raises(InvalidArgument, match="AnsweringExecutionProvider: configure failed: InvalidArgument: no such card"):
        ort_lite.InferenceSession(model(*GRAPH), providers=[Answering("configure", InvalidArgument("no such card"))])


def test_the_end_of_a_run_is_no_failure_of_a_hook() -> None:
    provider = Answering("sync", RunTerminated("told to"))
    with pytest.raises(RunTerminated, match=r"^told to$"):
        ask(provider, "sync")


def test_a_long_answer_is_cut_short() -> None:
    with pytest.raises(ProviderError) as caught:
        ask(Answering("available_resource", "x" * 1000), "available_resource")
    assert len(str(caught.value)) < 200


def test_one_node_is_a_capability_too() -> None:
    node = Node("Abs", [], [])
    assert list(Capability(node).nodes) == [node]
    assert Capability(node) == Capability([node])
    assert repr(Capability([node], False, 2, True)).endswith("merge=False, minimum=2, whole=True)")


@pytest.mark.parametrize("error", [InvalidArgument("too long"), OutOfMemory("too long")])
def test_errors_of_ort_lite_from_a_transfer_keep_their_class_and_name_the_provider(error: OrtLiteError) -> None:
    for _ in range(2):  # the same object twice: it is named once
        with pytest.raises(type(error)) as caught, name_errors("MyExecutionProvider: overwrite"):
            raise error
        assert str(caught.value) == "MyExecutionProvider: overwrite: too long"
    with (
        pytest.raises(RuntimeException, match="MyExecutionProvider: overwrite failed: KeyError: 3"),
        name_errors("MyExecutionProvider: overwrite"),
    ):
        raise KeyError(3)
