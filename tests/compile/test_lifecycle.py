"""Hooks of providers around runs and sessions, dynamic options, profiles, constants that are given up, closing, terminating."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument, RunTerminated, RuntimeException
from ort_lite.graph import Value
from ort_lite.graph.released import DroppedConstant, check_there, drop_constant
from ort_lite.provider import CompiledPartition, Partition, ProfileEvent, RunOptions, run_options
from ort_lite.provider.export import partition_model
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, evaluate
from tests.provider.texts import proto
from tests.threads import join

X = np.array([1, -2, 3], np.float32)
CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Relu(b) }"


def session(*providers: Any, text: str = CHAIN, options: Any = None, **more: Any) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(proto(text), options, providers=list(providers) or [CpuStandIn()], **more)


class Told(NumpyProvider):
    """Remembers every call of a hook."""

    name = "ToldExecutionProvider"

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.log: list[Any] = []

    def on_session_initialization_end(self) -> None:
        self.log.append("initialized")

    def on_run_start(self, options: RunOptions | None) -> None:
        self.log.append(("start", options))

    def on_run_end(self, options: RunOptions | None) -> None:
        self.log.append(("end", options))

    def sync(self) -> None:
        self.log.append("sync")

    def set_dynamic_options(self, options: Mapping[str, str]) -> None:
        self.log.append(dict(options))

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        def run(partition: Partition, inputs: Sequence[Any]) -> list[Any]:
            self.log.append("run")
            if inputs[0][0] == 0:
                raise ZeroDivisionError("oops")
            return evaluate(partition, inputs)

        return [lambda inputs, p=p: run(p, inputs) for p in partitions]


def test_hooks_are_called_around_a_run_in_order() -> None:
    provider = Told()
    made = session(provider, CpuStandIn())
    made.run(None, {"x": X})
    options = RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    made.run(None, {"x": X}, options)
    assert provider.log == [
        "initialized",
        ("start", None),
        "run",
        "sync",
        ("end", None),
        ("start", options),
        "run",
        ("end", options),
    ]


def test_the_end_is_told_of_a_run_that_failed() -> None:
    provider = Told()
    made = session(provider, CpuStandIn())
    with pytest.raises(RuntimeException, match="oops"):
        made.run(None, {"x": np.zeros(3, np.float32)})
    assert provider.log[-3:] == ["run", "sync", ("end", None)], "work that is in flight ends before anything is given up"


def test_a_provider_without_a_node_is_not_told_of_runs() -> None:
    provider = Told(lambda node: False)
    session(provider, CpuStandIn()).run(None, {"x": X})
    assert provider.log == ["initialized"]


def test_a_session_whose_providers_have_no_hooks_runs_as_without_them() -> None:
    from ort_lite.compile.lifecycle import call_hooks

    def run(inputs: Sequence[Any]) -> list[Any]:
        return []

    assert call_hooks(run, [NumpyProvider(), CpuStandIn()]) is run


def test_a_hook_that_fails_is_named() -> None:
    class Failing(CpuStandIn):
        def on_run_start(self, options: RunOptions | None) -> None:
            raise ZeroDivisionError("oops")

    with pytest.raises(RuntimeException, match="CPUExecutionProvider: on_run_start failed: ZeroDivisionError: oops"):
        session(Failing()).run(None, {"x": X})


def test_dynamic_options_reach_the_providers_that_have_some() -> None:
    provider = Told()
    session(provider, CpuStandIn()).set_ep_dynamic_options({"ep.dynamic.workload_type": "Efficient"})
    assert provider.log[-1] == {"ep.dynamic.workload_type": "Efficient"}
    with pytest.raises(InvalidArgument, match=r"no provider of the session has options that change while it lives \(CPUExec"):
        session(CpuStandIn()).set_ep_dynamic_options({"a": "b"})
    with pytest.raises(InvalidArgument, match="CPUExecutionProvider has no dynamic option a"):
        CpuStandIn().set_dynamic_options({"a": "b"})


def test_dynamic_options_that_one_provider_takes_are_taken() -> None:
    class Other(NumpyProvider):
        name = "OtherExecutionProvider"

        def set_dynamic_options(self, options: Mapping[str, str]) -> None:
            raise InvalidArgument(f"OtherExecutionProvider has no dynamic option {', '.join(options)}")

    provider = Told()
    session(Other(), provider, CpuStandIn()).set_ep_dynamic_options({"speed": "2"})
    assert provider.log[-1] == {"speed": "2"}
    with pytest.raises(InvalidArgument, match="OtherExecutionProvider has no dynamic option speed"):
        session(Other(), CpuStandIn()).set_ep_dynamic_options({"speed": "2"})


# Profiles


class Profiled(CpuStandIn):
    def start_profiling(self) -> None:
        self.began = time.perf_counter_ns()

    def end_profiling(self) -> Iterable[ProfileEvent]:
        return [ProfileEvent("matrix unit", self.began, self.began + 5000, {"flops": "12"})]


def test_events_of_providers_are_in_the_profile(tmp_path: Path) -> None:
    options = ort_lite.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    made = session(Profiled(), options=options)
    made.run(None, {"x": X})
    (event,) = [event for event in json.loads(Path(made.end_profiling()).read_text()) if event["cat"] == "Kernel"]
    assert (event["name"], event["dur"], event["args"]) == (
        "matrix unit",
        5,
        {"flops": "12", "provider": "CPUExecutionProvider"},
    )


# Constants

CONSTANTS = """(float[3] x) => (float[3] y, float[3] w) <float[3] v = {4, 5, 6}, float[3] w = {1, 2, 3}> {
    a = Add(x, v)
    b = Neg(a)
    c = Mul(b, v)
    y = Add(c, w)
}"""


class Absorbed:
    def __init__(self, partition: Partition) -> None:
        self.partition, self.absorbed = partition, partition.constants
        self.arrays: dict[Value, Any] = {value: np.array(value.constant) for value in partition.constants}

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        values = {**self.arrays, **dict(zip(self.partition.inputs, inputs, strict=True))}
        for node in self.partition.nodes:
            a, b = (values[value] for value in node.inputs if value is not None)
            values[node.output] = a + b if node.op_type == "Add" else a * b
        return [values[value] for value in self.partition.outputs]


class Absorbing(NumpyProvider):
    name = "AbsorbingExecutionProvider"

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [Absorbed(partition) for partition in partitions]


def constants(made: ort_lite.InferenceSession) -> dict[str, bool]:
    """Which are given up."""
    found = {v for p in made.explain().assignment.partitions for v in p.constants}
    return {value.name: isinstance(value.constant, DroppedConstant) for value in found}


def test_constants_that_all_readers_absorbed_are_given_up() -> None:
    made = session(Absorbing(lambda node: node.op_type in ("Add", "Mul")), CpuStandIn(), text=CONSTANTS)
    assert constants(made) == {"v": True, "w": False}, "w is an output of the model"
    expected = -(X + np.array([4, 5, 6])) * np.array([4, 5, 6]) + np.array([1, 2, 3])
    for result, right in zip(made.run(None, {"x": X}), (expected, [1, 2, 3]), strict=True):
        np.testing.assert_array_equal(result, right)


def test_what_was_absorbed_may_be_told_by_a_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    told = property(lambda self: iter(self.partition.constants), lambda self, values: None)
    monkeypatch.setattr(Absorbed, "absorbed", told, raising=False)
    made = session(Absorbing(lambda node: node.op_type in ("Add", "Mul")), CpuStandIn(), text=CONSTANTS)
    assert constants(made) == {"v": True, "w": False}


def test_a_constant_that_somebody_still_reads_stays() -> None:
    made = session(Absorbing(lambda node: node.op_type == "Add"), CpuStandIn(), text=CONSTANTS)
    assert constants(made) == {"v": False, "w": False}


def test_a_constant_that_the_next_provider_may_need_stays() -> None:
    made = session(
        Absorbing(lambda node: node.op_type in ("Add", "Mul")),
        CpuStandIn(),
        text=CONSTANTS,
        provider_options=[{"on_run_error": "next"}, {}],
    )
    assert constants(made) == {"v": False, "w": False}


def given_up() -> Value:
    value = Value("w", constant=np.ones((1000, 1000), np.float32))
    value.constant = drop_constant(value)
    return value


def test_a_given_up_constant_has_type_and_shape() -> None:
    array: Any = given_up().constant
    assert (array.shape, array.dtype, array.ndim, array.size, array.nbytes) == ((1000, 1000), np.float32, 2, 10**6, 4 * 10**6)
    assert str(array) == "DroppedConstant('w', float32[1000, 1000])"
    with pytest.raises(
        RuntimeException, match="constant 'w' was given up when the session was made, and now verifying needs it"
    ):
        check_there(given_up(), "verifying")


def test_what_can_be_made_again_is_there_for_whoever_asks() -> None:
    value, array = Value("w", constant=np.arange(6.0)), np.arange(6.0)
    value.constant = drop_constant(value, array.copy)
    released_one: Any = value.constant
    assert (len(released_one), released_one[2], released_one.tobytes()) == (6, 2.0, array.tobytes())
    np.testing.assert_array_equal(np.add(released_one, 1), array + 1)
    check_there(value, "verifying")
    assert type(value.constant) is np.ndarray
    assert not value.constant.flags.writeable


@pytest.mark.parametrize(
    "read",
    [
        np.asarray,
        np.array,
        np.sum,
        np.ascontiguousarray,
        len,
        list,
        lambda x: x[0],
        lambda x: x + 1,
        lambda x: x.tobytes(),
        lambda x: x.reshape(-1),
        lambda x: np.add(x, 1),
        lambda x: np.zeros(3) * x,
    ],
)
def test_a_given_up_constant_cannot_be_read_as_zeros(read: Callable[[Any], Any]) -> None:
    with pytest.raises((RuntimeException, TypeError), match=r"constant 'w' was given up|unsupported operand"):
        read(given_up().constant)


def test_what_would_save_or_run_a_given_up_constant_says_so() -> None:
    """A partition as a model of its own, which providers and tools ask for."""
    made = session(Absorbing(lambda node: node.op_type in ("Add", "Mul")), CpuStandIn(), text=CONSTANTS)
    partition = next(
        p
        for p in made.explain().assignment.partitions
        if any(isinstance(value.constant, DroppedConstant) for value in p.constants)
    )
    with pytest.raises(RuntimeException, match="was given up when the session was made"):
        partition_model(partition)


# Closing


def test_a_closed_session_refuses_to_run_and_still_explains() -> None:
    with session(CpuStandIn()) as made:
        before = made.explain().as_dict()
    with pytest.raises(RuntimeException, match="the session is closed"):
        made.run(None, {"x": X})
    assert made.explain().as_dict() == before
    assert made.memory_plans() == {}
    assert [arg.name for arg in made.get_inputs()] == ["x"]


def test_overriding_an_initialiser_of_a_closed_session_is_refused_too() -> None:
    text = "(float[3] x, float[3] w) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Add(x, w) }"
    made = session(CpuStandIn(), text=text)
    made.run(None, {"x": X, "w": X})
    made.close()
    with pytest.raises(RuntimeException, match="the session is closed"):
        made.run(None, {"x": X, "w": X})


# Terminating


def test_a_partition_sees_the_options_of_its_run() -> None:
    seen: list[RunOptions | None] = []

    class Looking(CpuStandIn):
        def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
            return [partial(self._look, p) for p in partitions]

        @staticmethod
        def _look(partition: Partition, inputs: Sequence[Any]) -> list[Any]:
            seen.append(run_options())
            return evaluate(partition, inputs)

    made, options = session(Looking()), RunOptions()
    made.run(None, {"x": X})
    made.run(None, {"x": X}, options)
    made.run(None, {"x": X})
    assert seen == [None, options, None]
    assert run_options() is None


def test_a_stop_is_called_by_the_one_who_sets_terminate() -> None:
    options, calls = RunOptions(), list[int]()
    with options.on_terminate(lambda: calls.append(1)):
        options.terminate = False
        assert calls == []
        options.terminate = True
        assert calls == [1]
        with options.on_terminate(lambda: calls.append(2)):
            assert calls == [1, 2], "it is set already"
    options.terminate = True
    assert calls == [1, 2]


def test_a_loop_without_end_on_the_cpu_provider_is_ended() -> None:
    text = """(float[3] x) => (float[3] y) <int64 n = {9223372036854775807}, bool go = {1}> {
        y = Loop (n, go, x) <body = step (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
            d = Identity(c)
            w = Neg(v)
        }>
    }"""
    made, options = session("CPUExecutionProvider", text=text), RunOptions()
    timer = threading.Timer(0.2, setattr, (options, "terminate", True))
    timer.start()
    with pytest.raises(RunTerminated, match=r"ended by RunOptions\.terminate"):
        made.run(None, {"x": X}, options)
    join(timer)


def test_a_program_stops_before_its_next_instruction() -> None:
    from ort_lite.provider.current import CURRENT

    made, options = session("CPUExecutionProvider", text="(float[3,3] x) => (float[3,3] y) { y = MatMul(x, x) }"), RunOptions()
    options.terminate = True
    x = np.ones((3, 3), np.float32)
    (program,) = made._stage_results.compiled.partitions.values()
    try:
        CURRENT.options = options
        with pytest.raises(RunTerminated, match="before MatMul 'MatMul_0'"):
            program([x])
    finally:
        CURRENT.options = None
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], x @ x)
    options.terminate = False
    np.testing.assert_array_equal(made.run(None, {"x": x}, options)[0], x @ x)
