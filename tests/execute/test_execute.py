"""Running an Executable: order, lifetimes, errors, threads, and what belongs to the caller."""

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ort_lite.compile.compile import compile_assignment
from ort_lite.errors import InvalidArgument, ProviderError, RunTerminated, RuntimeException
from ort_lite.execute.execute import Executable, copy_aliases
from ort_lite.execute.profiling import Recording
from ort_lite.execute.run_events import RunEvents
from ort_lite.graph import Node
from ort_lite.inference import ShapeRules
from ort_lite.load.load import load
from ort_lite.log.events import Stream
from ort_lite.options import RunOptions
from ort_lite.partition.partition import partition
from ort_lite.provider import CompiledPartition, ExecutionProvider, Partition
from tests.partition.random_graphs import feeds, random_graph
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, OtherDevice, evaluate, reference
from tests.threads import join

RULES = ShapeRules(())
X = np.array([1, -2, 3], np.float32)
CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Tanh(b) }"


def executable(text: str, *providers: ExecutionProvider) -> Executable:
    graph = load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')).graph
    return compile_assignment(partition(graph, providers, RULES)).executable


def named(*names: str) -> Callable[[Node], bool]:
    return lambda node: node.output.name in names


class Compiling(CpuStandIn):
    """Compiles with the function that it is given."""

    exact = True  # what it returns is no business of these tests

    def __init__(self, make: Callable[[Partition], CompiledPartition], takes: Callable[[Node], bool] = lambda n: True) -> None:
        super().__init__(takes)
        self.make = make

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [self.make(p) for p in partitions]


class Tensor:
    """Something that can be watched dying."""


def test_a_value_dies_after_its_last_reader() -> None:
    alive: list[weakref.ref[Tensor]] = []
    counts = []

    def make(p: Partition) -> CompiledPartition:
        def run(inputs: Sequence[Any]) -> list[Any]:
            counts.append(sum(ref() is not None for ref in alive))
            made = [Tensor() for _ in p.outputs]
            alive.extend(map(weakref.ref, made))
            return made

        return run

    text = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  d = Abs(c)  y = Neg(d) }"
    one, two = Compiling(make, named("a", "c", "y")), Compiling(make, named("b", "d"))
    made = executable(text, one, two)
    results = made.run([Tensor()])
    assert len(counts) == 5
    assert counts == [0, 1, 1, 1, 1]  # what the step reads; what the one before read is gone
    assert [ref() is not None for ref in alive] == [False] * 4 + [True]
    del results


def test_a_value_that_nobody_reads_dies_at_once() -> None:
    text = "(float[3] x) => (float[3] y) { a = Abs(x)  y = Neg(x) }"
    made = executable(text, NumpyProvider(named("a")), CpuStandIn())
    assert all(not set(step.outputs) - set(step.dead) - set(made.result_slots) for step in made.steps)


def test_one_partition_on_the_cpu_is_called_directly() -> None:
    made = executable(CHAIN, CpuStandIn())
    assert (made.direct, made.picks) == (made.steps[0].function, None)
    np.testing.assert_array_equal(made.run([X])[0], np.tanh(-np.abs(X)))


def test_a_direct_call_leaves_out_inputs_that_nobody_reads() -> None:
    made = executable("(float[3] x, float[3] unused, float[3] z) => (float[3] y) { y = Sub(x, z) }", CpuStandIn())
    assert made.picks == (0, 2)
    np.testing.assert_array_equal(made.run([X, None, np.ones(3, np.float32)])[0], X - 1)


def test_results_go_into_arrays_that_a_direct_partition_is_given() -> None:
    class Writes:
        def __call__(self, inputs: Sequence[Any]) -> list[Any]:
            return [np.abs(inputs[0])]

        def into(self, inputs: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
            return [np.abs(inputs[0], out=targets[0])]

    target = np.zeros(3, np.float32)
    made = executable("(float[3] x) => (float[3] y) { y = Abs(x) }", Compiling(lambda p: Writes()))
    (result,) = made.run_into([X], [target]) or []
    assert result is target
    np.testing.assert_array_equal(target, np.abs(X))
    assert executable(CHAIN, CpuStandIn()).run_into([X], [target]) is None, "it has no `into`"
    assert executable(CHAIN, OtherDevice()).run_into([X], [target]) is None, "values have to be copied"


@pytest.mark.parametrize("providers", [[OtherDevice()], [NumpyProvider(named("a")), CpuStandIn()]], ids=["device", "two"])
def test_everything_else_runs_step_by_step(providers: list[ExecutionProvider]) -> None:
    made = executable(CHAIN, *providers)
    assert made.direct is None
    np.testing.assert_array_equal(made.run([X])[0], np.tanh(-np.abs(X)))


def test_the_result_is_a_list() -> None:
    made = executable(CHAIN, Compiling(lambda p: lambda inputs: tuple(evaluate(p, inputs))))
    assert type(made.run([X])) is list


# Outputs that no step computes


PASSING = """(float[3] x) => (float[3] y, float[3] x, float[3] w, float[3] z) <float[3] w = {1, 2, 3}> {
    y = Neg(x)
    z = Abs(x)
}"""


def test_inputs_and_constants_can_be_outputs() -> None:
    made = executable(PASSING, CpuStandIn())
    assert made.outputs_may_alias
    results = made.run([X])
    np.testing.assert_array_equal(results, [-X, X, np.array([1, 2, 3]), np.abs(X)])
    assert results[1] is X


def test_owned_copies_what_was_given_and_what_comes_twice() -> None:
    x, y, z = (np.arange(3.0) + k for k in range(3))
    outputs = copy_aliases([x, y, y, [z, z]], [x])
    assert outputs[0] is not x
    assert outputs[1] is y
    assert outputs[2] is not y
    np.testing.assert_array_equal(outputs[2], y)
    assert outputs[3][0] is not z  # elements of lists may be anywhere
    np.testing.assert_array_equal(outputs[3], [z, z])


def test_owned_copies_sequences_and_maps_down_to_the_arrays() -> None:
    x = np.ones(2)
    given = [[x], {"a": x}]
    copies = copy_aliases(list(given), given)
    assert copies[0] is not given[0]
    assert copies[0][0] is not x
    assert copies[1]["a"] is not x


# Errors


def failing(p: Partition) -> CompiledPartition:
    def run(inputs: Sequence[Any]) -> list[Any]:
        raise ZeroDivisionError("oops")

    return run


@pytest.mark.parametrize("others", [[], [NumpyProvider(named("b"))]], ids=["direct", "steps"])
def test_an_exception_is_wrapped_with_partition_and_provider(others: list[ExecutionProvider]) -> None:
    made = executable(CHAIN, *others, Compiling(failing))
    with pytest.raises(RuntimeException, match=r"CPUExecutionProvider_0 \(CPU.*\) failed: ZeroDivisionError: oops"):
        made.run([X])


@pytest.mark.parametrize("others", [[], [NumpyProvider(named("b"))]], ids=["direct", "steps"])
def test_errors_of_ort_lite_are_passed_on(others: list[ExecutionProvider]) -> None:
    def refuse(p: Partition) -> CompiledPartition:
        def run(inputs: Sequence[Any]) -> list[Any]:
            raise InvalidArgument("index 7")

        return run

    with pytest.raises(InvalidArgument, match=r"^index 7\nin CPUExecutionProvider_0 \(CPUExecutionProvider\)$"):
        executable(CHAIN, *others, Compiling(refuse)).run([X])


@pytest.mark.parametrize("others", [[], [NumpyProvider(named("b"))]], ids=["direct", "steps"])
def test_a_wrong_number_of_results_names_the_partition(others: list[ExecutionProvider]) -> None:
    made = executable(CHAIN, *others, Compiling(lambda p: lambda inputs: [X, X]))
    with pytest.raises(ProviderError, match=r"CPUExecutionProvider_0 .* returned 2 values for 1 outputs"):
        made.run([X])


def test_terminate_ends_the_run_before_the_next_step() -> None:
    options = RunOptions()
    ran = []

    def make(p: Partition) -> CompiledPartition:
        def run(inputs: Sequence[Any]) -> list[Any]:
            ran.append(p.name)
            options.terminate = True
            return evaluate(p, inputs)

        return run

    made = executable(CHAIN, Compiling(make, named("a")), NumpyProvider())
    with pytest.raises(RunTerminated, match="before NumpyExecutionProvider_0"):
        made.run([X], options)
    assert ran == ["CPUExecutionProvider_0"]


def test_terminate_that_is_set_before_the_run_ends_it_at_once() -> None:
    options = RunOptions()
    options.terminate = True
    with pytest.raises(RunTerminated, match="before CPUExecutionProvider_0"):
        executable(CHAIN, Compiling(failing)).run([X], options)


# Events and threads


def test_every_step_is_an_event_with_links_to_those_that_it_reads_from() -> None:
    stream, recording = Stream(), Recording()
    stream.subscribe(recording)
    made = executable(CHAIN, OtherDevice(named("b")), CpuStandIn())
    with RunEvents(stream) as run:
        made.run([X], call=run.step)
    steps = [event for event in recording.events if event.kind == "Step"]
    assert [event.name for event in steps] == [f"{step.name}_kernel_time" for step in made.steps]
    assert all(event.begin <= event.end for event in steps)
    assert [event.args["provider"] for event in steps] == [step.provider for step in made.steps]
    assert [step.route for step in made.steps] == ["", "cpu:0 -> box:0", "", "box:0 -> cpu:0", ""]
    assert [event.args["route"] for event in recording.events if event.kind == "Copy"] == ["cpu:0 -> box:0", "box:0 -> cpu:0"]
    links = [[link.name for link in event.links] for event in steps]
    assert links == [[], *([f"{a.name} to {b.name}"] for a, b in pairwise(made.steps))]


@pytest.mark.parametrize("seed", range(4))
def test_runs_at_once_do_not_disturb_each_other(seed: int) -> None:
    graph = random_graph(seed, 30, depth=2)
    foreign = {node for k, node in enumerate(graph.all_nodes()) if k % 2 and node.op_type != "If"}
    made = compile_assignment(partition(graph, [OtherDevice(foreign.__contains__), CpuStandIn()], RULES)).executable
    expected = [reference(graph, feeds(k)) for k in range(8)]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(20):
            wrong.extend(k for a, b in zip(made.run(feeds(k)), expected[k], strict=True) if not np.array_equal(a, b))

    threads = [threading.Thread(target=partial(work, k)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert wrong == []
