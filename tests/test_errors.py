"""What errors say in fields is what their messages say."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite import errors
from ort_lite.errors import FIELDS, CompileError, OrtLiteError
from tests.provider.numpy_provider import NumpyProvider

X = np.ones(3, np.float32)
GATHER = "(float[3] x, int64[1] i) => (float[1] y) { y = Gather(x, i) }"
NEG = "(float[3] x) => (float[3] y) { y = Neg(x) }"


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')


def made(text: str, *providers: Any, **more: Any) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(model(text), providers=[*providers, "CPUExecutionProvider"], **more)


def feed(x: Any) -> Callable[[], Any]:
    return lambda: made(NEG).run(None, {"x": x})


def broken(node: Any) -> bool:
    raise OSError("a rule that fails")


class Failing(NumpyProvider):
    name = "FailingExecutionProvider"

    def compile(self, partitions: Any) -> Any:
        raise OSError("no card")


class FailingInRuns(NumpyProvider):
    name = "FailingInRunsExecutionProvider"

    def compile(self, partitions: Any) -> Any:
        return [lambda inputs: 1 / 0 for _ in partitions]


CASES: dict[str, tuple[Callable[[], Any], dict[str, str]]] = {
    "type of a feed": (feed(np.ones(3, np.float64)), {"input": "x", "expected": "tensor(float)", "got": "tensor(double)"}),
    "shape of a feed": (feed(np.ones(4, np.float32)), {"input": "x", "expected": "[3]", "got": "[4]"}),
    "rank of a feed": (feed(np.ones((3, 1), np.float32)), {"input": "x", "expected": "[3]", "got": "[3, 1]"}),
    "no feed": (lambda: made(NEG).run(None, {}), {"input": "x", "expected": "x", "got": "nothing"}),
    "another feed": (lambda: made(NEG).run(None, {"x": X, "z": X}), {"input": "z", "expected": "'x'", "got": "'x', 'z'"}),
    "number of inputs": (
        lambda: made("(float[3] x) => (float[3] y) { y = Neg(x, x) }"),
        {"node": "Neg_0", "operator": "Neg", "expected": "1: X", "got": "2"},
    ),
    "types of a node": (
        lambda: made("(float[3] x, int64[3] w) => (float[3] y) { y = Add(x, w) }"),
        {"node": "Add_0", "operator": "Add", "input": "w", "expected": "tensor(float)", "got": "tensor(int64)"},
    ),
    "an input that nobody makes": (
        lambda: made("(float[3] x) => (float[3] y) { y = Add(x, w) }"),
        {"operator": "Add", "input": "w"},
    ),
    "shapes of a node": (
        lambda: made("(float[3] x, float[4] w) => (float[3] y) { y = Add(x, w) }"),
        {"node": "Add_0", "operator": "Add"},
    ),
    "an index, in a run": (
        lambda: made(GATHER).run(None, {"x": X, "i": np.array([7])}),
        {"node": "Gather_0", "operator": "Gather", "provider": "CPUExecutionProvider"},
    ),
    "a provider that does not compile": (
        lambda: made(NEG, Failing(), provider_options=[{"on_compile_error": "raise"}, {}]),
        {"node": "Neg_0", "operator": "Neg", "provider": "FailingExecutionProvider"},
    ),
    "a provider that fails in a run": (
        lambda: made(NEG, FailingInRuns()).run(None, {"x": X}),
        {"provider": "FailingInRunsExecutionProvider"},
    ),
    "a rule that cannot be kept": (
        lambda: made(NEG, placement_rules=[ort_lite.place("CPUExecutionProvider", operator="Neg", where=broken)]),
        {"node": "Neg_0", "operator": "Neg"},
    ),
    "a domain that is not imported": (lambda: made("(float[3] x) => (float[3] y) { y = local.Own(x) }"), {"operator": "Own"}),
}


@pytest.mark.parametrize("case", CASES)
def test_fields_say_what_the_message_says(case: str) -> None:
    act, fields = CASES[case]
    with pytest.raises(OrtLiteError) as caught:
        act()
    assert {name: text for name in FIELDS if (text := getattr(caught.value, name))} == fields, caught.value
    for name, text in fields.items():
        assert (
            name in ("got", "node", "operator")
            or text in str(caught.value)
            or text in "".join(getattr(caught.value, "__notes__", []))
        )


def test_whoever_knew_first_knew_best() -> None:
    error = errors.Fail("it failed").about(provider="Inner").about(None, provider="Outer")
    assert (error.provider, error.node, str(error)) == ("Inner", "", "it failed")
    assert errors.Fail("outside").about(input="x").like(error.about(input="y")).provider == "Inner"
    assert errors.Fail("outside").like(OSError("bus")).provider == ""


@pytest.mark.parametrize(
    "kind", [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, OrtLiteError)]
)
def test_errors_travel_between_processes(kind: type[OrtLiteError]) -> None:
    error = kind("it failed").about(provider="P", got="3")
    error.add_note("in P_0")
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), back.provider, back.got, back.__notes__) == (kind, "it failed", "P", "3", ["in P_0"])


def test_the_error_of_a_partition_travels_too() -> None:
    with pytest.raises(CompileError) as caught:
        made(NEG, Failing(), provider_options=[{"on_compile_error": "raise"}, {}])
    back = pickle.loads(pickle.dumps(caught.value))
    assert (type(back), str(back), back.node, back.operator) == (caught.type, str(caught.value), "Neg_0", "Neg")
