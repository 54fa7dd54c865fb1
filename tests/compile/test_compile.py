"""From an Assignment to an Executable: calls of `compile`, copies between devices, bodies, errors."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from ort_lite.compile.compile import compile_assignment
from ort_lite.errors import CompileError, ProviderError
from ort_lite.execute.execute import Executable
from ort_lite.graph import Node
from ort_lite.inference import ShapeRules
from ort_lite.partition.partition import partition
from ort_lite.provider import CPU, DataTransfer, Device, ExecutionProvider, Partition
from tests.provider.numpy_provider import BoxTransfer, CpuStandIn, NumpyProvider, OtherDevice, evaluate
from tests.provider.texts import graph, named

RULES = ShapeRules(())
X = np.array([1, -2, 3], np.float32)
CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  y = Relu(c) }"
BRANCHES = """(float[3] x, bool flag) => (float[3] y) {
    a = Abs(x)
    b = If (flag) <
        then_branch = yes () => (float[3] t) { t1 = Neg(a)  t = Tanh(t1) },
        else_branch = no () => (float[3] e) { e = Relu(x) }
    >
    y = Abs(b)
}"""


def executable(text: str, *providers: ExecutionProvider) -> Executable:
    return compile_assignment(partition(graph(text), providers, RULES)).executable


def test_compile_is_called_once_per_provider_and_level() -> None:
    numpy, cpu = NumpyProvider(named("t1", "a", "y")), CpuStandIn()
    executable(BRANCHES, numpy, cpu)
    assert [[p.name for p in call] for call in numpy.compiled] == [
        ["NumpyExecutionProvider_2"],
        ["NumpyExecutionProvider_0", "NumpyExecutionProvider_1"],
    ]
    assert [[p.name for p in call] for call in cpu.compiled] == [
        ["CPUExecutionProvider_2"],
        ["CPUExecutionProvider_1"],
        ["CPUExecutionProvider_0"],
    ]


def test_bodies_are_compiled_before_the_node_that_runs_them() -> None:
    cpu = CpuStandIn()
    made = executable(BRANCHES, cpu)
    (main,) = cpu.compiled[-1]
    assert [(body.name, [v.name for v in compiled.captures]) for body, compiled in main.bodies.items()] == [
        ("yes", ["a"]),
        ("no", ["x"]),
    ]
    np.testing.assert_allclose(made.run([X, np.array(True)])[0], np.abs(np.tanh(-np.abs(X))))
    np.testing.assert_array_equal(made.run([X, np.array(False)])[0], np.abs(np.maximum(X, 0)))


def test_a_body_does_not_capture_constants() -> None:
    cpu = CpuStandIn()
    text = "(float[3] x, bool f) => (float[3] y) <float[3] w = {1, 2, 3}> { y = If (f) <then_branch = p () => (float[3] t)"
    made = executable(text + "{ t = Add(x, w) }, else_branch = n () => (float[3] e) { e = Identity(w) }> }", cpu)
    (main,) = cpu.compiled[-1]
    assert [[v.name for v in body.captures] for body in main.bodies.values()] == [["x"], []]
    np.testing.assert_array_equal(made.run([X, np.array(True)])[0], X + np.array([1, 2, 3]))


def test_a_node_taken_whole_has_no_compiled_bodies() -> None:
    from ort_lite.provider import Capability

    cpu = CpuStandIn(group=lambda node: Capability([node], whole=True))
    executable(BRANCHES, cpu)
    assert [[dict(p.bodies) for p in call] for call in cpu.compiled] == [[{}]]


# Borders


def test_values_cross_to_another_device_once_and_back() -> None:
    made = executable(CHAIN, OtherDevice(named("b", "c")), CpuStandIn())
    assert [step.name for step in made.steps] == [
        "CPUExecutionProvider_0",
        "copy 'a' cpu:0 -> box:0",
        "BoxExecutionProvider_0",
        "copy 'c' box:0 -> cpu:0",
        "CPUExecutionProvider_1",
    ]
    np.testing.assert_array_equal(made.run([X])[0], np.maximum(np.tanh(-np.abs(X)), 0))


def test_a_value_with_two_readers_over_there_is_copied_once() -> None:
    text = "(float[3] x) => (float[3] y, float[3] z) { a = Neg(x)  y = Abs(x)  b = Tanh(a)  z = Add(b, x) }"
    found = partition(graph(text), [OtherDevice(named("a", "z")), CpuStandIn()], RULES)
    assert [str(copy) for copy in found.levels[0].copies if copy.value.name == "x"] == [
        "copy 'x' cpu:0 -> box:0 for BoxExecutionProvider_0"
    ]
    assert [step.name for step in compile_assignment(found).executable.steps].count("copy 'x' cpu:0 -> box:0") == 1


def test_an_input_that_is_only_handed_through_stays_where_it_is() -> None:
    made = executable("(float[3] x) => (float[3] y, float[3] x) { y = Neg(x) }", OtherDevice(), CpuStandIn())
    assert [step.name for step in made.steps] == [
        "copy 'x' cpu:0 -> box:0",
        "BoxExecutionProvider_0",
        "copy 'y' box:0 -> cpu:0",
    ]
    assert made.outputs_may_alias


class SecondDevice(OtherDevice):
    name = "CrateExecutionProvider"
    device = Device("crate")


def test_between_two_devices_without_a_direct_way_values_go_through_the_cpu() -> None:
    made = executable(CHAIN, OtherDevice(named("a", "b")), SecondDevice())
    assert [step.name for step in made.steps][2:4] == ["copy 'b' box:0 -> cpu:0", "copy 'b' cpu:0 -> crate:0"]
    np.testing.assert_array_equal(made.run([X])[0], np.maximum(np.tanh(-np.abs(X)), 0))


def test_what_passed_through_the_cpu_is_there_for_others() -> None:
    text = "(float[3] x) => (float[3] y, float[3] z, float[3] a) { a = Abs(x)  y = Neg(a)  z = Relu(a) }"
    found = partition(graph(text), [OtherDevice(named("a")), SecondDevice(named("y")), CpuStandIn()], RULES)
    assert [str(copy) for copy in found.levels[0].copies if copy.value.name == "a"] == [
        "copy 'a' box:0 -> cpu:0 -> crate:0 for CrateExecutionProvider_0"
    ]
    made = compile_assignment(found).executable
    np.testing.assert_array_equal(made.run([X])[1], np.abs(X))


class Direct(BoxTransfer):
    """Between any two devices."""

    def can_copy(self, source: Device, destination: Device) -> bool:
        return True


def test_a_direct_way_is_preferred() -> None:
    class Sender(OtherDevice):
        def data_transfer(self) -> DataTransfer:
            return Direct(self.device)

    found = partition(graph(CHAIN), [Sender(named("a", "b")), SecondDevice()], RULES)
    assert [str(copy) for copy in found.levels[0].copies] == [
        "copy 'x' cpu:0 -> box:0 for BoxExecutionProvider_0",
        "copy 'b' box:0 -> crate:0 for CrateExecutionProvider_0",
        "copy 'y' crate:0 -> cpu:0 for output",
    ]


def test_a_device_without_transfer_is_an_error_that_names_value_and_reader() -> None:
    class Island(OtherDevice):
        def data_transfer(self) -> Any:
            return None

    with pytest.raises(ProviderError, match=r"'x' is needed on box:0 \(by BoxExecutionProvider_0\) and is on cpu:0"):
        partition(graph(CHAIN), [Island(), CpuStandIn()], RULES)


def test_a_body_takes_and_gives_values_on_the_cpu() -> None:
    made = executable(BRANCHES, OtherDevice(named("a", "t1", "t", "y")), CpuStandIn())
    np.testing.assert_allclose(made.run([X, np.array(True)])[0], np.abs(np.tanh(-np.abs(X))))


# Errors


class Failing(NumpyProvider):
    name: ClassVar[str] = "FailingExecutionProvider"

    def __init__(self, result: Callable[[Sequence[Partition]], Any], takes: Callable[[Node], bool]) -> None:
        super().__init__(takes)
        self.result = result

    def compile(self, partitions: Sequence[Partition]) -> Any:
        return self.result(partitions)


def failing(partitions: Sequence[Partition]) -> Any:
    raise ZeroDivisionError("oops")


def second_fails(partitions: Sequence[Partition]) -> Any:
    return [partial(evaluate, partitions[0]), ZeroDivisionError("oops")]


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (
            failing,
            CompileError,
            "FailingExecutionProvider could not compile FailingExecutionProvider_0, "
            "FailingExecutionProvider_1: ZeroDivisionError: oops",
        ),
        (
            second_fails,
            CompileError,
            "FailingExecutionProvider could not compile FailingExecutionProvider_1: ZeroDivisionError: oops",
        ),
        (lambda partitions: [], ProviderError, r"FailingExecutionProvider compiled 2 partitions \(.*\) to 0"),
        (lambda partitions: [1, 2], ProviderError, "compiled FailingExecutionProvider_0 to 1; expected a callable"),
    ],
    ids=["raises", "returns an exception", "returns too few", "returns no callable"],
)
def test_a_compile_that_fails_names_provider_and_partition(result: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        executable(CHAIN, Failing(result, named("a", "c")), CpuStandIn())
    assert error is ProviderError or isinstance(caught.value.__cause__, ZeroDivisionError)


def test_facts_are_those_of_compiled_partitions_that_have_some() -> None:
    class Talkative:
        def __init__(self, partition: Partition) -> None:
            self.partition = partition

        def __call__(self, inputs: Sequence[Any]) -> list[Any]:
            return evaluate(self.partition, inputs)

        def facts(self) -> dict[str, int | str]:
            return {"python_steps": len(self.partition.nodes)}

    provider = Failing(lambda partitions: [Talkative(p) for p in partitions], named("b"))
    compiled = compile_assignment(partition(graph(CHAIN), [provider, CpuStandIn()], RULES))
    assert compiled.facts() == {"FailingExecutionProvider_0": {"python_steps": 1}}
    assert list(compiled.partitions) == ["CPUExecutionProvider_0", "FailingExecutionProvider_0", "CPUExecutionProvider_1"]
    assert Device() == CPU
