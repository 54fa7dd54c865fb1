"""The accelerator with plans by shape, planned scratch, kernels on disk, one instance per card, and a driver that a fork ends."""

import os
import signal
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx.parser
import pytest
from ort_lite_accelerator import AcceleratorExecutionProvider, program
from ort_lite_accelerator.memory import CardTensor, store
from ort_lite_accelerator.program import CardExecutable, CardProgram, compile_program

import ort_lite
from ort_lite import OrtValue
from ort_lite.errors import OutOfMemory
from ort_lite.memory.allocators import Chunk
from ort_lite.provider import BufferRequest, Offsets, Partition, plan_offsets
from ort_lite.provider.export import partition_model
from ort_lite.provider.kernel_store import KernelStore
from ort_lite.provider.plan_cache import PlanCache
from tests.threads import run_together

TEXT = """<ir_version: 8, opset_import: ["": 17]> main (float[N,6] x) => (float[N,6] y)
    <float[6,6] w = {WEIGHTS}> { a = MatMul(x, w)  b = Relu(a)  c = MatMul(b, w)  d = Relu(c)  e = MatMul(d, w)  y = Relu(e) }"""


def model() -> onnx.ModelProto:
    return onnx.parser.parse_model(TEXT.replace("WEIGHTS", ", ".join(["0.25"] * 36)))


def session(provider: Any) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(model(), providers=[provider, "CPUExecutionProvider"])


def rows(count: int) -> dict[str, Any]:
    return {"x": np.arange(6 * count, dtype=np.float32).reshape(count, 6)}


def on_cpu(count: int) -> Any:
    return ort_lite.InferenceSession(model(), providers=["CPUExecutionProvider"]).run(None, rows(count))[0]


class Slot:
    """A piece of a chunk, in the place of a chunk."""

    def __init__(self, chunk: Chunk, offset: int, nbytes: int) -> None:
        self.data = chunk.data[offset : offset + nbytes]


class PlannedExecutable(CardExecutable):
    """A program whose intermediate results have places in one chunk. The first run of a shape measures them."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.plans: PlanCache[Offsets] = PlanCache(4)
        self.trim, self.memory = self.plans.trim, self.plans.memory

    def execute(self, inputs: Sequence[Any], results: list[Any], *given: Any) -> None:
        plan = self.plans.get(tuple(x.shape for x in inputs), partial(self._plan, inputs, given))
        chunk = self._arena.allocate(plan.total)
        places = iter(plan.offsets)

        def place(array: Any, arena: Any, given: Any = None) -> CardTensor:
            slot: Any = Slot(chunk, next(places), array.nbytes) if given is None else given
            return store(array, arena, slot)

        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(program, "store", place)
                super().execute(inputs, results, *given)
        finally:
            self._arena.free(chunk)

    def _plan(self, inputs: Sequence[CardTensor], given: tuple[Any, ...]) -> Offsets:
        sizes: list[int] = []

        def measure(array: Any, arena: Any, given: Any = None) -> CardTensor:
            sizes.append(array.nbytes)
            return store(array, arena)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(program, "store", measure)
            super().execute(inputs, [CardTensor(None, np.dtype(np.float32), None) for _ in self.program.outputs], *given)
        steps = self.program.instructions
        last = {k: number for number, one in enumerate(steps) for k in one.last}
        inner = [(number, size) for number, size in enumerate(sizes) if steps[number].result not in self.program.outputs]
        return plan_offsets([BufferRequest(size, number, last[steps[number].result]) for number, size in inner])


class Planned(AcceleratorExecutionProvider):
    name: ClassVar[str] = "PlannedExecutionProvider"
    concurrency: ClassVar[str] = "serial"

    def compile(self, partitions: Sequence[Partition]) -> Any:
        return [PlannedExecutable(compile_program(one), self._arena, self._queue, one.constants) for one in partitions]


def test_planned_scratch_gives_the_same_results_in_less_memory() -> None:
    made = session(card := Planned())
    for count in (3, 100, 3, 1):
        np.testing.assert_allclose(made.run(None, rows(count))[0], on_cpu(count), rtol=1e-6)
    assert made.memory()["plans"] == 3
    executable: Any = next(iter(made._stage_results.compiled.partitions.values()))
    plan = executable.plans.get(((100, 6),), lambda: pytest.fail("it is cached"))
    assert (len(plan.offsets), plan.total, plan.lower_bound) == (5, 2 * 2560, 2 * 2560), "two at a time"
    made.trim()
    assert made.memory()["plans"] == 0
    made.close()
    del executable
    assert card.allocator().bytes_in_use == 0


def test_threads_plan_a_shape_once() -> None:
    made = session(Planned())
    run_together(lambda number: np.testing.assert_allclose(made.run(None, rows(5))[0], on_cpu(5), rtol=1e-6), 4)
    executable: Any = next(iter(made._stage_results.compiled.partitions.values()))
    assert executable.plans.compilations == 1


class Storing(AcceleratorExecutionProvider):
    """A compiler that keeps its programs on disk."""

    name: ClassVar[str] = "StoringExecutionProvider"
    compilations: ClassVar[int] = 0

    def compile(self, partitions: Sequence[Partition]) -> Any:
        return [CardExecutable(self._program(one), self._arena, self._queue, one.constants) for one in partitions]

    def _program(self, partition: Partition) -> CardProgram:
        kernels, key = KernelStore(self.name, self.compatibility()), partition_model(partition).data
        data = kernels.read(key)
        if data is None:
            Storing.compilations += 1
            data = compile_program(partition).to_bytes()
            kernels.write(key, data)
        return CardProgram.from_bytes(data)


def test_a_program_is_compiled_once_for_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Storing, "compilations", 0)
    for _ in range(2):
        np.testing.assert_allclose(session(Storing()).run(None, rows(4))[0], on_cpu(4), rtol=1e-6)
    assert Storing.compilations == 1
    monkeypatch.setattr(Storing, "compatibility", lambda self: "npu-program 3.0")
    session(Storing())
    assert Storing.compilations == 2


class OneCard(AcceleratorExecutionProvider):
    name: ClassVar[str] = "OneCardExecutionProvider"
    shares_device: ClassVar[bool] = True


def test_sessions_and_values_share_a_card() -> None:
    first, second = session(OneCard), session((OneCard, {"device_id": "0"}))
    value = OrtValue.ortvalue_from_numpy(rows(2)["x"], "npu")
    assert value.device_tensor is not None
    card = value.device_tensor.provider
    assert all(made.explain().assignment.providers[OneCard.name] is card for made in (first, second))
    (result,) = second.run_with_ort_values(None, {"x": value})
    np.testing.assert_allclose(result.numpy(), on_cpu(2), rtol=1e-6)


def test_a_card_without_room_says_how_much_is_missing() -> None:
    made = session(AcceleratorExecutionProvider(mem_limit=1 << 13))
    with pytest.raises(OutOfMemory, match=r"copy of 'x', .* allocator of npu:0: 24,064 bytes asked for") as caught:
        made.run(None, rows(1000))
    assert (caught.value.wanted, caught.value.limit) == (24064, 1 << 13)
    assert (caught.value.in_use or 0) > 0, "the weights"


class Driven(AcceleratorExecutionProvider):
    """A card whose driver waits forever in a forked child."""

    name: ClassVar[str] = "DrivenExecutionProvider"
    outlives_fork: ClassVar[bool] = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.opened_by = os.getpid()

    def on_run_start(self, options: Any) -> None:
        while os.getpid() != self.opened_by:
            signal.pause()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork exists on POSIX systems only")
@pytest.mark.parametrize(("provider", "status"), [(Driven, 7), (AcceleratorExecutionProvider, 0)])
def test_a_forked_child_is_told_that_its_card_is_lost(provider: type[AcceleratorExecutionProvider], status: int) -> None:
    made, expected = session(provider()), on_cpu(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        code = 1
        try:
            code = 0 if np.allclose(made.run(None, rows(2))[0], expected) else 2
        except ort_lite.errors.ProviderError as error:
            code = 7 if "does not outlive a fork" in str(error) else 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == status
    np.testing.assert_allclose(made.run(None, rows(2))[0], expected, rtol=1e-6)
