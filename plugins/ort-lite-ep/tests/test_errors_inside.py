"""Errors of a provider arrive as errors of onnxruntime with the provider's message, and what worked goes on working."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import ort_lite_ep
import pytest

from ort_lite.errors import InvalidArgument, NoDevice, ProviderError
from ort_lite.provider import Capability, ExecutionProvider, GraphView, Partition, Rejection
from tests.inside_onnxruntime import ERRORS, OWN, model, register, registered, session
from tests.threads import run_together


class FailingExecutionProvider(ExecutionProvider):
    """Fails where its option says, with the numbers of Abs otherwise."""

    name: ClassVar[str] = "FailingExecutionProvider"

    def __init__(self, at: str = "") -> None:
        super().__init__()
        self.at = at
        self.fail("create", NoDevice("no such card"))

    def fail(self, place: str, error: Exception) -> None:
        if self.at == place:
            raise error

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        self.fail("capability", ZeroDivisionError("thirteen nodes"))
        for node in graph:
            known = node.op_type == "Abs"
            yield Capability(node) if known else Rejection(node, "operator", "only Abs")

    def compile(self, partitions: Sequence[Partition]) -> list[Any]:
        self.fail("compile", KeyError("cannot compile this"))
        return [partial(self.run, partition) for partition in partitions]

    def run(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
        (x,) = inputs
        if x.size and x[0] == 666:
            raise ValueError("the number of the beast")
        if x.size and x[0] == 667:
            raise InvalidArgument("its neighbor")
        wrong = {"type": np.abs(x).astype(np.float64), "shape": np.abs(x)[None], "none": None, "count": (x, x)}
        result = wrong.get(self.at, np.abs(x))
        return list(result) if isinstance(result, tuple) else [result]


NAME = FailingExecutionProvider.name
X = np.array([-2, 1], np.float32)
SOURCE = model("(float[N] x) => (float[N] y) { a = Abs(x)  y = Exp(a) }")


@pytest.fixture(scope="module", autouse=True)
def provider() -> Iterator[None]:
    with registered(FailingExecutionProvider):
        yield


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("create", "no such card"),
        ("capability", f"{NAME}: get_capability failed: ZeroDivisionError: thirteen nodes"),
        ("compile", f"{NAME}.*KeyError: 'cannot compile this'"),
    ],
)
def test_an_error_while_a_session_is_created(at: str, message: str) -> None:
    good = session(SOURCE, NAME)
    for _ in range(3):
        with pytest.raises(ERRORS, match=f"(?s){message}"):
            session(SOURCE, (NAME, {"at": at}))
    np.testing.assert_allclose(good.run(None, {"x": X})[0], np.exp(np.abs(X)), rtol=1e-6)
    np.testing.assert_allclose(session(SOURCE, NAME).run(None, {"x": X})[0], np.exp(np.abs(X)), rtol=1e-6)


def test_an_error_of_a_run_leaves_the_session_working() -> None:
    made = session(SOURCE, NAME)
    for value, message in ((666, "ValueError: the number of the beast"), (667, "its neighbor")):
        with pytest.raises(ERRORS, match=f"(?s){NAME}.*{message}|{message}.*{NAME}"):
            made.run(None, {"x": np.array([value], np.float32)})
        np.testing.assert_allclose(made.run(None, {"x": X})[0], np.exp(np.abs(X)), rtol=1e-6)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("type", "float64.*expected float32|expected float32.*float64"),
        ("shape", "rank|shape"),
        ("none", NAME),
        ("count", "2 .*1|1 .*2"),
    ],
)
def test_a_wrong_result_is_an_error_that_says_so(at: str, message: str) -> None:
    made = session(SOURCE, (NAME, {"at": at}))
    with pytest.raises(ERRORS, match=f"(?s){message}"):
        made.run(None, {"x": X})


@pytest.mark.parametrize(
    ("options", "x"), [({"on_run_error": "next"}, [666, -1]), ({"on_compile_error": "next", "at": "compile"}, [-2, 1])]
)
def test_ort_lites_cpu_provider_takes_over_if_a_policy_says_so(options: dict[str, str], x: list[int]) -> None:
    made = session(SOURCE.replace(b"Exp", b"Neg"), (NAME, options))
    assert made.run(None, {"x": np.array(x, np.float32)})[0].tolist() == [-abs(value) for value in x]


def test_threads_get_their_own_errors() -> None:
    made = session(SOURCE, NAME)

    def work(number: int) -> None:
        for k in range(100):
            if (number + k) % 2:
                with pytest.raises(ERRORS, match="the number of the beast"):
                    made.run(None, {"x": np.array([666], np.float32)})
            else:
                np.testing.assert_allclose(made.run(None, {"x": X})[0], np.exp(np.abs(X)), rtol=1e-6)

    run_together(work, 8)


def test_an_error_of_a_kernel_names_the_node() -> None:
    register(OWN)
    made = session(model("(float[4] x, int64[N] i) => (float[N] y) { a = Abs(x)  y = Gather(a, i) }"), OWN)
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(ERRORS, match=r"Gather .*OrtLiteExecutionProvider|Gather .*CPUExecutionProvider.*7"):
        made.run(None, {"x": x, "i": np.array([1, 7])})
    assert made.run(None, {"x": x, "i": np.array([1, -1])})[0].tolist() == [1, 3]


def test_the_report_of_a_session_that_failed_is_there() -> None:
    with pytest.raises(ERRORS):
        session(SOURCE, (NAME, {"at": "compile"}))
    assert [node.operator for node in ort_lite_ep.reports(NAME)[-1].nodes if node.partition] == ["Abs"]


def test_an_error_may_have_any_text() -> None:
    class TextExecutionProvider(FailingExecutionProvider):
        name: ClassVar[str] = "TextExecutionProvider"

        def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
            raise ProviderError("☃ {} %s %n\n" + "long " * 1000)

    with registered(TextExecutionProvider), pytest.raises(ERRORS, match=r"(?s)☃ {} %s %n.*long long"):
        session(SOURCE, TextExecutionProvider.name)
