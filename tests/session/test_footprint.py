"""What a session holds: figures, a cap, ways to hold less, weights that sessions share, an allocator for all of them."""

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import ort_lite
from ort_lite.errors import InvalidArgument, OutOfMemory, ProviderError
from ort_lite.memory.environment import ENVIRONMENT
from ort_lite_cpu.program.bind import Bound
from ort_lite_cpu.program.program import Program
from tests.cpu.steps import segment_runs
from tests.load.models import proto

SIZE = 64
WEIGHT = (np.random.default_rng(0).random((SIZE, SIZE)) / SIZE).astype(np.float32)
TEXT = f"main (float[N, {SIZE}] x) => (float[N, {SIZE}] y) {{ a = Exp(x)  b = MatMul(a, w)  c = Exp(b)  y = MatMul(c, w) }}"


def model(weight: Any = WEIGHT) -> bytes:
    made = proto(TEXT)
    made.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    data: bytes = made.SerializeToString()
    return data


def session(source: Any = None, providers: Any = None, arena: bool = True, **config: Any) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads, options.enable_cpu_mem_arena = 1, arena
    for key, value in config.items():
        options.add_session_config_entry(f"session.{key}", value)
    return ort_lite.InferenceSession(source or model(), options, providers or ["CPUExecutionProvider"])


def run(made: ort_lite.InferenceSession, rows: int, options: ort_lite.RunOptions | None = None) -> Any:
    x = np.linspace(-1, 0, rows * SIZE, dtype=np.float32).reshape(rows, SIZE)
    [y] = made.run(None, {"x": x}, options)
    np.testing.assert_allclose(y, np.exp(np.exp(x) @ WEIGHT) @ WEIGHT, rtol=1e-5)
    return y


def program(made: ort_lite.InferenceSession) -> Program:
    [found] = made._stage_results.compiled.partitions.values()
    assert isinstance(found, Program)
    return found


def packed(made: ort_lite.InferenceSession) -> list[Any]:
    arrays = [array for step in segment_runs(program(made)) for array in step.segment.keep]
    return list({id(array): array for array in arrays}.values())


@pytest.fixture
def environment() -> Iterator[None]:
    """No pool of another test, none for the next one."""
    ENVIRONMENT.unregister()
    yield
    ENVIRONMENT.unregister()


# Figures


def test_the_figures_are_plain_data_and_live() -> None:
    made = session()
    before = made.memory()
    assert (before["constants"], before["constants_in_files"]) == (WEIGHT.nbytes, 0)
    assert before["packed_weights"] >= WEIGHT.nbytes
    assert before["scratch"] == {"shared": False, "held": 0, "in_use": 0, "peak": 0, "leases": 0, "arenas": 0}
    assert (before["plans"], before["limit"]) == (0, None)
    for rows in (10, 100, 10):
        run(made, rows)
    after = made.memory()
    scratch = program(made).memory_plan().arena_usages["cpu"].total_size
    assert scratch >= 2 * 100 * SIZE * 4
    assert after["scratch"] == {"shared": False, "held": scratch, "in_use": 0, "peak": scratch, "leases": 3, "arenas": 1}
    assert after["plans"] == 2
    assert after["plan_bytes"] > 0
    own = {key: after[key] for key in ("packed_weights", "plans", "plan_bytes")}
    assert after["providers"] == {"CPUExecutionProvider": own}


def test_trim_gives_back_scratch_and_plans_and_the_session_goes_on() -> None:
    made = session()
    run(made, 100)
    weights = made.memory()["packed_weights"]
    made.trim()
    figures = made.memory()
    assert (figures["scratch"]["held"], figures["plans"], figures["plan_bytes"]) == (0, 0, 0)
    assert figures["packed_weights"] == weights
    run(made, 100)
    assert made.memory()["plans"] == 1


def test_a_closed_session_holds_nothing() -> None:
    made = session()
    run(made, 100)
    made.close()
    figures = made.memory()
    assert (figures["constants"], figures["packed_weights"], figures["scratch"]["held"], figures["plans"]) == (0, 0, 0, 0)
    made.trim()


def test_plans_are_kept_for_so_many_shapes_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for where in ("program", "segment_run"):
        monkeypatch.setattr(f"ort_lite_cpu.program.{where}.BOUND_LIMIT", 10)
    made = session()
    held = []
    for rows in range(1, 40):
        run(made, rows)
        held.append(made.memory()["plan_bytes"])
    assert made.memory()["plans"] == 10
    assert max(held[10:]) <= max(held[:10]) * 1.1
    assert len(program(made)._checked) <= 10


def test_many_shapes_from_many_threads_leave_the_figures_where_they_were() -> None:
    made = session(providers=[("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})])
    order = np.random.default_rng(0).permutation(np.arange(300) % 50).tolist()
    marks = []
    with ThreadPoolExecutor(4) as threads:
        for part in (order[:150], order[150:]):
            list(threads.map(lambda rows: run(made, 1 + rows), part))
            marks.append(made.memory())
    first, last = marks
    plans: list[Bound] = [bound for step in program(made).steps for bound in getattr(step, "cache", {}).values()]
    largest = max(bound.scratch for bound in plans)
    for key in ("constants", "packed_weights"):
        assert first[key] == last[key]
    assert last["plans"] == 50
    assert last["plan_bytes"] == sum(bound.nbytes for bound in plans)
    assert last["scratch"]["arenas"] <= 4
    assert last["scratch"]["held"] <= last["scratch"]["arenas"] * largest
    assert last["scratch"]["leases"] == 300


# The cap


def test_a_cap_that_weights_exceed_is_an_error_when_the_session_is_made() -> None:
    with pytest.raises(
        OutOfMemory, match=r"session\.memory_limit_bytes is 20,000 bytes: [\d,]+ asked for as constants and packed"
    ):
        session(memory_limit_bytes="20000")


def test_a_run_that_would_exceed_the_cap_names_it_and_smaller_ones_go_on() -> None:
    free = session()
    run(free, 100)
    figures = free.memory()
    weights = figures["constants"] + figures["packed_weights"]
    cap = weights + figures["scratch"]["held"]
    made = session(memory_limit_bytes=str(cap))
    run(made, 100)
    message = (
        rf"memory_limit_bytes is {cap:,} bytes: [\d,]+ asked for as scratch memory of a run, .* raise it, run smaller inputs"
    )
    for _ in range(2):
        with pytest.raises(OutOfMemory, match=message):
            run(made, 200)
    run(made, 100)
    assert made.memory()["limit"] == cap


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"memory_limit_bytes": "many"}, "'many': expected a number of bytes"),
        ({"memory_limit_bytes": "-1"}, "'-1': expected a number of bytes"),
        ({"memory_limit_bytes": "1000", "use_env_allocators": "1"}, "exclude each other"),
    ],
)
def test_caps_that_make_no_sense_are_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        session(**config)


# onnxruntime's options


@pytest.mark.parametrize("how", ["option", "config", "provider"])
def test_without_an_arena_scratch_goes_after_each_run(how: str) -> None:
    if how == "provider":
        made = session(providers=[("CPUExecutionProvider", {"use_arena": "0"})])
    elif how == "config":
        made = session(enable_cpu_mem_arena="0")
    else:
        made = session(arena=False)
    for _ in range(2):
        run(made, 100)
        scratch = made.memory()["scratch"]
        assert scratch["held"] == 0 < scratch["peak"]


@pytest.mark.parametrize(
    ("strategy", "power"), [("kNextPowerOfTwo", True), ("kSameAsRequested", False), (0, True), ("1", False)]
)
def test_scratch_grows_by_the_strategy_that_the_provider_was_given(strategy: Any, power: bool) -> None:
    made = session(providers=[("CPUExecutionProvider", {"arena_extend_strategy": strategy})])
    run(made, 100)
    run(made, 101)
    needed, held = program(made).memory_plan().arena_usages["cpu"].total_size, made.memory()["scratch"]["held"]
    assert held == (1 << (needed - 1).bit_length() if power else needed)


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="arena_extend_strategy 'kHalf': expected one of"):
        session(providers=[("CPUExecutionProvider", {"arena_extend_strategy": "kHalf"})])
    with pytest.raises(ProviderError, match=r"CPUExecutionProvider: threads is -1, expected 0 .all cores. to 1024"):
        session(providers=[("CPUExecutionProvider", {"threads": -1})])
    for wrong in ("1_0", "٣", "1e1", "9" * 5000):
        with pytest.raises(ProviderError, match=f"CPUExecutionProvider: threads is '{wrong}', expected 0"):
            session(providers=[("CPUExecutionProvider", {"threads": wrong})])
    made = session(providers=[("CPUExecutionProvider", {"threads": 1024})])
    assert made.get_provider_options()["CPUExecutionProvider"]["threads"] == 48, "more would have no part"
    with pytest.raises(ProviderError, match="knows no option arena; it knows threads, fusion, winograd, arena_extend_strategy"):
        session(providers=[("CPUExecutionProvider", {"arena": 1})])


def test_a_run_may_ask_for_the_arena_to_shrink_after_it() -> None:
    made, options = session(), ort_lite.RunOptions()
    run(made, 100)
    assert made.memory()["scratch"]["held"] > 0
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    run(made, 100, options)
    assert made.memory()["scratch"]["held"] == 0
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0;gpu:0")
    with pytest.raises(InvalidArgument, match="'gpu:0' has no arena here; those are cpu:0"):
        run(made, 100, options)


# Weights that sessions share


@pytest.mark.parametrize("kind", ["bytes", "file", "external data"])
def test_two_sessions_of_one_model_share_constants_and_packed_weights(kind: str, tmp_path: Path) -> None:
    source: Any = model()
    if kind != "bytes":
        source = tmp_path / "model.onnx"
        onnx.save(
            onnx.load_from_string(model()),
            source,
            save_as_external_data=kind != "file",
            location="model.data",
            size_threshold=0,
        )
    first, second = session(source), session(source)
    a, b = (made._stage_results.model.graph.initializers["w"].constant for made in (first, second))
    assert np.shares_memory(a, b)
    assert [id(array) for array in packed(first)] == [id(array) for array in packed(second)]
    assert not any(np.shares_memory(array, a) for array in packed(first))
    run(first, 3)
    del first, a
    gc.collect()
    run(second, 3)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_further_sessions_need_no_memory_for_weights() -> None:
    def resident() -> int:
        gc.collect()
        [line] = [line for line in Path("/proc/self/smaps_rollup").read_text().splitlines() if line.startswith("Rss:")]
        return 1024 * int(line.split()[1])

    weight = np.random.default_rng(8).random((2048, 2048), np.float32)
    text = "main (float[N, 2048] x) => (float[N, 2048] y) { y = MatMul(x, w) }"
    model_proto = proto(text)
    model_proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    data = model_proto.SerializeToString()
    made = [session(data), session(data)]  # what the second needs while it is made, the C library keeps for the third
    before = resident()
    made += [session(data) for _ in range(3)]
    assert resident() - before < weight.nbytes // 4
    assert {one.memory()["packed_weights"] for one in made} == {weight.nbytes}


def test_constants_that_transforms_made_are_shared_too() -> None:
    made = proto(f"main (float[{SIZE}, {SIZE}] x) => (float[{SIZE}, {SIZE}] y) {{ k = Exp(w)  y = Add(x, k) }}")
    made.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    first, second = (session(made.SerializeToString()) for _ in range(2))
    [a], [b] = (list(one._stage_results.model.graph.initializers.values()) for one in (first, second))
    assert a.constant is not None
    assert a.constant is b.constant
    np.testing.assert_allclose(a.constant, np.exp(WEIGHT), rtol=1e-6)
    x = np.ones((SIZE, SIZE), np.float32)
    np.testing.assert_allclose(second.run(None, {"x": x})[0], 1 + np.exp(WEIGHT), rtol=1e-6)


def test_arrays_that_the_caller_may_change_stay_the_callers() -> None:
    theirs, loaded = WEIGHT.copy(), ort_lite.load(model())
    loaded.graph.initializers["w"].constant = theirs
    options = ort_lite.SessionOptions()
    options.add_initializer("w", mine := WEIGHT.copy())
    others = [session(loaded), ort_lite.InferenceSession(model(), options, ["CPUExecutionProvider"])]
    arrays = [one._stage_results.model.graph.initializers["w"].constant for one in (*others, session())]
    assert np.shares_memory(arrays[0], theirs)
    assert np.shares_memory(arrays[1], mine)
    assert not any(array is None or array.flags.writeable for array in arrays), "providers may not write to them"
    assert theirs.flags.writeable
    assert mine.flags.writeable
    assert not any(np.shares_memory(arrays[2], array) for array in arrays[:2])


def test_weights_go_with_the_last_session() -> None:
    from ort_lite.memory.sharing import shared

    weight = np.random.default_rng(7).standard_normal((SIZE, SIZE)).astype(np.float32)  # of this test alone
    gc.collect()
    before = len(shared)
    first = session(model(weight))
    held = len(shared)
    assert held > before
    second = session(model(weight))
    assert len(shared) == held
    del first
    gc.collect()
    assert len(shared) == held
    second.close()
    del second
    gc.collect()
    assert len(shared) == before


# One allocator for sessions


class Books:
    """An allocator in Python."""

    def __init__(self) -> None:
        self.live: dict[int, bytearray] = {}

    def allocate(self, nbytes: int) -> bytearray:
        made = bytearray(nbytes)
        self.live[id(made)] = made
        return made

    def free(self, handle: bytearray) -> None:
        del self.live[id(handle)]


@pytest.mark.usefixtures("environment")
def test_sessions_that_ask_for_it_take_scratch_from_a_registered_allocator() -> None:
    books = Books()
    ort_lite.register_allocator(books)
    shared, apart = session(use_env_allocators="1"), session()
    run(apart, 100)
    assert not books.live
    run(shared, 100)
    [handle] = books.live.values()
    assert 0 <= len(handle) - shared.memory()["scratch"]["held"] < 64
    run(session(use_env_allocators="1"), 100)
    assert len(books.live) == 1
    shared.trim()
    assert not books.live


@pytest.mark.usefixtures("environment")
def test_programs_of_other_threads_and_inputs_lease_from_one_pool_at_once() -> None:
    wide = "main (float[N] a, float[N] b, float[N] c, float[N] d) => (float[N] y, float[N] z) {{ {} z = Sub(c, d) }}"
    body = " ".join(f"t{k} = Exp({'a' if not k else f's{k - 1}'}) s{k} = Div(t{k}, b)" for k in range(3)) + " y = Neg(s2)"
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 2
    options.add_session_config_entry("session.use_env_allocators", "1")
    several = ort_lite.InferenceSession(proto(wide.format(body)), options, ["CPUExecutionProvider"])
    one = session(use_env_allocators="1")
    assert program(several).pool is program(one).pool
    arrays = {name: np.linspace(1, 2 + k, 30_000, dtype=np.float32) for k, name in enumerate("abcd")}
    expected = several.run(None, arrays)

    def work(number: int) -> None:
        for rows in range(1, 15):
            if (number + rows) % 2:
                run(one, rows * 10)
            else:
                for got, want in zip(several.run(None, arrays), expected, strict=True):
                    np.testing.assert_array_equal(got, want)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert one.memory()["scratch"]["arenas"] <= 8
    assert one.memory()["scratch"]["in_use"] == 0


@pytest.mark.usefixtures("environment")
def test_the_arena_of_the_environment_has_onnxruntimes_settings() -> None:
    info = ort_lite.OrtMemoryInfo("Cpu", ort_lite.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort_lite.OrtMemType.DEFAULT)
    ort_lite.create_and_register_allocator(info, ort_lite.OrtArenaCfg(1 << 20, 0, -1, -1))
    made = session(use_env_allocators="1")
    run(made, 100)
    held = made.memory()["scratch"]["held"]
    assert held == 1 << (held - 1).bit_length()
    with pytest.raises(OutOfMemory, match="max_mem of the environment's allocator is 1,048,576 bytes"):
        run(made, 20_000)
    with pytest.raises(InvalidArgument, match="registered for the CPU already"):
        ort_lite.register_allocator(Books())
    ort_lite.unregister_allocator()
    later = session(use_env_allocators="1")
    assert program(later).pool is not program(made).pool


@pytest.mark.usefixtures("environment")
def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="'Cuda': only the CPU's memory is shared"):
        ort_lite.create_and_register_allocator(ort_lite.OrtMemoryInfo("Cuda"))
    with pytest.raises(InvalidArgument, match="OrtArenaCfg knows no max_memory"):
        ort_lite.OrtArenaCfg({"max_memory": 1})
    assert ort_lite.OrtArenaCfg({"max_mem": 5, "arena_extend_strategy": 1}).growth == "kSameAsRequested"
