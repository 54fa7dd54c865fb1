"""What plans promise, kept by sessions: shared scratch, persistent and constant arenas, no allocation for a tensor."""

import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from time import sleep
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.load.spans import span_of
from ort_lite.memory.arenas import Bytes, ConstantArena, PersistentArena, allocate_array
from ort_lite.memory.environment import ENVIRONMENT
from ort_lite.provider import Capability, CompiledPartition, ExecutionProvider, GraphView, Partition
from ort_lite_cpu.program import bind
from ort_lite_cpu.program.program import Program
from tests.cpu.steps import segment_runs
from tests.load.models import proto

THREADS = 16


@pytest.fixture
def environment() -> Iterator[None]:
    """No pool of another test, none for the next one."""
    ENVIRONMENT.unregister()
    yield
    ENVIRONMENT.unregister()


def model(text: str, **weights: Array) -> bytes:
    made = proto(f"main {text}")
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    data: bytes = made.SerializeToString()
    return data


def options(**config: str) -> ort_lite.SessionOptions:
    made = ort_lite.SessionOptions()
    made.intra_op_num_threads = 1
    for key, value in config.items():
        made.add_session_config_entry(f"session.{key}", value)
    return made


def programs(session: ort_lite.InferenceSession) -> list[Program]:
    found = session._stage_results.compiled.partitions.values()
    return [partition for partition in found if isinstance(partition, Program)]


# 4.8


class Total:
    """A partition that adds every input it ever saw, in persistent memory that is its state."""

    def create_state(self) -> PersistentArena:
        return PersistentArena(12)

    def __call__(self, inputs: Sequence[Array], state: PersistentArena) -> list[Array]:
        total = state.buffer.view(np.float32)
        total += inputs[0].reshape(-1)
        return [total.reshape(inputs[0].shape).copy()]


class TotalProvider(ExecutionProvider):
    """Takes every Identity, as a running total."""

    name: ClassVar[str] = "TotalExecutionProvider"

    def get_capability(self, graph: GraphView) -> Iterator[Capability]:
        return (Capability([node]) for node in graph if node.op_type == "Identity")

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition]:
        return [Total() for _ in partitions]


@pytest.mark.usefixtures("environment")
def test_spec_4_8_sessions_share_scratch_one_after_the_other_and_persistent_bytes_stay() -> None:
    text = "(float[1, N] x) => (float[1, 3] y) { e = Exp(x)  f = MatMul(e, v)  t = Identity(f)  r = Neg(t)  y = Mul(r, r) }"
    sizes, random = (5, 400), np.random.default_rng(0)
    weights = [random.standard_normal((n, 3)).astype(np.float32) for n in sizes]
    disabled = options(use_env_allocators="1")
    disabled.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL  # Identity stays
    sessions = [
        ort_lite.InferenceSession(model(text, v=w), disabled, [TotalProvider(), "CPUExecutionProvider"]) for w in weights
    ]
    pools = {id(program.pool): program.pool for session in sessions for program in programs(session)}
    assert len(pools) == 1
    [pool] = pools.values()
    totals = [np.zeros((1, 3), np.float32) for _ in sessions]
    for _ in range(5):
        for k, (session, weight) in enumerate(zip(sessions, weights, strict=True)):
            x = random.standard_normal((1, sizes[k])).astype(np.float32)
            totals[k] += np.exp(x) @ weight
            np.testing.assert_allclose(session.run(None, {"x": x})[0], totals[k] ** 2, rtol=1e-3)
            for arena in pool._arenas:
                arena.buffer[:] = 0xFF  # whatever outlives a run in scratch is lost
    statistics = pool.statistics()
    assert (statistics.arenas, statistics.in_use) == (1, 0)
    assert statistics.leases == 2 * 5 * 2  # two partitions on the CPU a run
    assert all(session.memory()["scratch"]["shared"] for session in sessions)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("runs", [1, 4])
def test_spec_4_8_bytes_are_those_of_the_largest_scratch_for_each_run_in_flight(
    runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "(float[N, 64] x) => (float[N, 64] y) { e = Exp(x)  f = MatMul(e, w)  g = Exp(f)  y = MatMul(g, w) }"
    weight = np.eye(64, dtype=np.float32)
    sessions = [ort_lite.InferenceSession(model(text, w=weight), options(use_env_allocators="1")) for _ in range(3)]
    pool, start = programs(sessions[0])[0].pool, Barrier(runs, timeout=30)
    held, lease = Barrier(runs, timeout=30), pool.lease

    def together(nbytes: int) -> Any:
        arena = lease(nbytes)
        held.wait(60)  # so many are in flight
        return arena

    def run(number: int) -> None:
        start.wait(60)
        for rows in (10, 500, 100):
            sessions[number % 3].run(None, {"x": np.zeros((rows, 64), np.float32)})

    monkeypatch.setattr(pool, "lease", together)
    with ThreadPoolExecutor(runs) as threads:
        list(threads.map(run, range(runs)))
    largest = max(plan.scratch for step in segment_runs(programs(sessions[0])[0]) for plan in step.cache.values())
    figures = sessions[0].memory()
    assert figures["scratch"]["held"] == runs * largest
    assert figures["constants"] == weight.nbytes
    del sessions[1:]
    assert sessions[0].memory()["scratch"]["held"] == runs * largest  # the pool's, not a session's
    sessions[0].trim()
    assert sessions[0].memory()["scratch"]["held"] == 0


# 4.9


class Staged(ExecutionProvider):
    """Takes every MatMul; its constants lie in an arena of their own, which is filled when a run first needs it."""

    name: ClassVar[str] = "StagedExecutionProvider"

    def __init__(self) -> None:
        self.copies: list[int] = []

    def get_capability(self, graph: GraphView) -> Iterator[Capability]:
        return (Capability([node]) for node in graph if node.op_type == "MatMul")

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition]:
        return [self._compiled(partition) for partition in partitions]

    def _compiled(self, partition: Partition) -> CompiledPartition:
        [constant] = partition.constants
        array = constant.constant
        assert array is not None

        def hydrate(target: Bytes) -> None:
            self.copies.append(len(target))
            sleep(0.05)  # every thread comes meanwhile
            target[:] = array.reshape(-1).view(np.uint8)

        arena = ConstantArena(array.nbytes, hydrate)
        return lambda inputs: [inputs[0] @ arena.buffer.view(array.dtype).reshape(array.shape)]


def test_spec_4_9_staged_constants_are_copied_once_before_the_first_of_sixteen_runs() -> None:
    weight = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    provider = Staged()
    session = ort_lite.InferenceSession(
        model("(float[N, 8] x) => (float[N, 3] y) { a = Exp(x)  y = MatMul(a, w) }", w=weight), options(), [provider]
    )
    assert provider.copies == []
    x, start = np.ones((2, 8), np.float32), Barrier(THREADS, timeout=30)

    def run(_: int) -> Array:
        start.wait(60)
        found: Array = session.run(None, {"x": x})[0]
        return found

    with ThreadPoolExecutor(THREADS) as threads:
        results = list(threads.map(run, range(THREADS)))
    assert provider.copies == [weight.nbytes]
    for result in results:
        np.testing.assert_allclose(result, np.exp(x) @ weight, rtol=1e-5)


def test_spec_4_9_cold_constants_are_read_where_they_are(tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((1000, 64)).astype(np.float32)
    made = onnx.load_from_string(model("(int64[N] i) => (float[N, 64] y) { r = Gather(table, i)  y = Exp(r) }", table=table))
    path = tmp_path / "model.onnx"
    onnx.save(made, path, save_as_external_data=True, location="model.data", size_threshold=0)
    tracemalloc.start()
    try:
        session = ort_lite.InferenceSession(path, options(), ["CPUExecutionProvider"], mmap=True)
        kept = [array for program in programs(session) for step in segment_runs(program) for array in step.segment.keep]
        constant = session._stage_results.model.graph.initializers["table"].constant
        numpy_bytes = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)])
    finally:
        tracemalloc.stop()
    assert constant is not None
    span = span_of(constant)
    assert span is not None
    assert span.owner is not None
    assert "model.data" in repr(span.owner)
    assert any(np.shares_memory(array, constant) for array in kept)
    assert max(trace.size for trace in numpy_bytes.traces) < table.nbytes
    assert session.memory()["constants_in_files"] == table.nbytes
    np.testing.assert_allclose(session.run(None, {"i": np.array([3, 999])})[0], np.exp(table[[3, 999]]), rtol=1e-6)


# 4.14


def test_spec_4_14_a_run_allocates_its_outputs_and_nothing_for_a_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = "".join(
        f"a{k} = MatMul({x}, w)  t{k} = Transpose<perm=[1,0]>(a{k})  s{k} = Softmax<axis=0>(t{k})  x{k} = Transpose<perm=[1,0]>(s{k}) "
        for k, x in enumerate(["x", *(f"x{k}" for k in range(11))])
    )
    weight = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
    session = ort_lite.InferenceSession(
        model(f"(float[N, 128] x) => (float[N, 128] y) {{ {layers} y = Neg(x11) }}", w=weight),
        options(),
        ["CPUExecutionProvider"],
    )
    [program] = programs(session)
    feed = {"x": np.ones((200, 128), np.float32)}
    asked: list[Any] = []

    def counted(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **more: Any) -> Any:
            asked.append(args)
            return make(*args, **more)

        return made

    monkeypatch.setattr(bind, "allocate_array", counted(allocate_array))
    [y] = session.run(None, feed)  # plans the shape, makes the arena
    assert int(program.facts()["instructions"]) >= 24
    before = program.pool.statistics()
    asked.clear()
    monkeypatch.setattr(np, "empty", counted(np.empty))
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        begin = tracemalloc.get_traced_memory()[0]
        session.run(None, feed)
        peak = tracemalloc.get_traced_memory()[1] - begin
    finally:
        tracemalloc.stop()
        monkeypatch.undo()
    assert asked == [(y.shape, y.dtype)]
    assert peak < y.nbytes + 16_384  # an intermediate tensor has y.nbytes too; the rest is lists and tuples
    after = program.pool.statistics()
    assert (after.leases - before.leases, after.arenas, after.bytes) == (1, 1, before.bytes)
