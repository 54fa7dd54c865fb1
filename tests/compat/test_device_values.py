"""Values on a provider's device: OrtValues and bindings there, copies that are not made or do not block, memory that goes back.

Long, and one file: one device with memory of its own, `Board`, is what everything here is about.
"""

import ctypes
import gc
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

import ort_lite
from ort_lite import IOBinding, OrtValue
from ort_lite.errors import InvalidArgument, OutOfMemory, ProviderError, RunTerminated, RuntimeException
from ort_lite.graph import Model, Node
from ort_lite.memory.allocators import ArenaAllocator, Chunk
from ort_lite.provider import CPU, Device, Partition
from tests.load.models import proto
from tests.partition.random_graphs import feeds, random_graph
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, evaluate, reference
from tests.threads import join, run_together

TEXT = "main (float[N] x) => (float[N] y) { y = Neg(x) }"
X = np.array([1, -2, 3], np.float32)


class Tensor:
    """A value on a board: a chunk of its memory, or memory at an address."""

    def __init__(self, memory: Chunk, dtype: Any, shape: tuple[int, ...]) -> None:
        self.memory, self.dtype, self.shape = memory, np.dtype(dtype), shape

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * int(self.dtype.itemsize)

    @property
    def data_ptr(self) -> int:
        return int(self.memory.data.ctypes.data)

    def array(self) -> Any:
        return self.memory.data[: self.nbytes].view(self.dtype).reshape(self.shape)


class Elsewhere:
    """Memory that no allocator knows."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.data = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


class Transfer:
    """Between the CPU and the board, counted by direction."""

    def __init__(self, device: Device, log: list[str]) -> None:
        self.device, self.log = device, log

    def can_copy(self, source: Device, destination: Device) -> bool:
        return {source, destination} in ({CPU, self.device}, {self.device})

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        assert destination == CPU, "to the board it goes by copy_into"
        self.log.append(f"{source} -> {destination}")
        return value.array().copy()

    def copy_into(self, value: Any, source: Device, destination: Device, memory: Chunk) -> Tensor:
        self.log.append(f"{source} -> {destination}")
        made = Tensor(memory, value.dtype, value.shape)
        made.array()[...] = value
        return made

    def overwrite(self, value: Any, source: Device, destination: Device, target: Tensor) -> None:
        self.log.append(f"{source} over {destination}")
        target.array()[...] = value if source == CPU else value.array()

    def at_address(self, address: int, dtype: Any, shape: tuple[int, ...], device: Device) -> Tensor:
        return Tensor(cast(Any, Elsewhere(address, prod(shape) * dtype.itemsize)), dtype, shape)


class Board(NumpyProvider):
    """Its partitions compute in memory of its arena; `log` has what happened, in order."""

    name: ClassVar[str] = "BoardExecutionProvider"
    device = Device("board")

    def __init__(self, takes: Callable[[Node], bool] = lambda node: True, device_id: int = 0, limit: int | None = None) -> None:
        super().__init__(takes)
        self.device = Device("board", device_id)
        self.log: list[str] = []
        self.memory = ArenaAllocator(self.device, limit)
        self.transfer = Transfer(self.device, self.log)

    @classmethod
    def supported_devices(cls) -> dict[Device, dict[str, Any]]:
        return {Device("board", k): {"device_id": k} for k in range(2)}

    def allocator(self) -> ArenaAllocator:
        return self.memory

    def data_transfer(self) -> Any:
        return self.transfer

    def sync(self) -> None:
        self.log.append("sync")

    def compile(self, partitions: Sequence[Partition]) -> Any:
        return [OnBoard(partition, self) for partition in partitions]


class OnBoard:
    def __init__(self, partition: Partition, board: Board) -> None:
        self.partition, self.board = partition, board

    def __call__(self, inputs: Sequence[Any]) -> Any:
        raise AssertionError("the board has an allocator: it is called with memory")

    def into_memory(self, inputs: Sequence[Tensor], memory: Sequence[Chunk | None]) -> list[Any]:
        self.board.log.append(self.partition.name)
        results = evaluate(self.partition, [x.array() for x in inputs])
        made = []
        for result, chunk in zip(results, memory, strict=True):
            assert chunk is not None
            assert chunk.nbytes == result.nbytes
            made.append(Tensor(chunk, result.dtype, result.shape))
            made[-1].array()[...] = result
        return made


def session(*providers: Any, text: str = TEXT) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort_lite.InferenceSession(proto(text), options, [*providers, CpuStandIn()])


def copies(board: Board) -> list[str]:
    return [line for line in board.log if "board:" in line]


@pytest.fixture
def registered() -> Iterator[None]:
    ort_lite.register_provider(Board.name, Board)
    yield
    ort_lite.unregister_provider(Board.name)


# OrtValues


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("device_id", [0, 1])
def test_a_value_is_on_the_device_that_was_named(device_id: int) -> None:
    value = OrtValue.ortvalue_from_numpy(X, "board", device_id)
    assert (value.device_name(), value.shape(), value.data_type()) == ("board", [3], "tensor(float)")
    assert value.device_tensor is not None
    assert value.device_tensor.device == Device("board", device_id)
    assert (value.is_tensor(), value.has_value(), value.tensor_size_in_bytes(), value.element_type()) == (True, True, 12, 1)
    assert repr(value) == f"OrtValue(tensor(float)[3] on board:{device_id})"
    back = value.numpy()
    np.testing.assert_array_equal(back, X)
    back[0] = 9
    assert value.numpy()[0] == 1, "what comes back is a copy"


@pytest.mark.usefixtures("registered")
def test_values_of_one_device_have_one_provider_until_the_last_is_gone() -> None:
    first = OrtValue.ortvalue_from_numpy(X, "board")
    second = OrtValue.ortvalue_from_shape_and_type([2, 2], np.int64, "board", 0)
    assert first.device_tensor is not None
    assert second.device_tensor is not None
    board = first.device_tensor.provider
    assert isinstance(board, Board)
    assert second.device_tensor.provider is board
    assert second.numpy().tolist() == [[0, 0], [0, 0]]
    assert board.memory.bytes_in_use == 512
    del first
    assert board.memory.bytes_in_use == 256
    del second
    assert board.memory.bytes_in_use == 0


@pytest.mark.usefixtures("registered")
def test_a_device_that_nobody_has_is_named_with_those_that_there_are() -> None:
    with pytest.raises(
        InvalidArgument, match=r"no .* provider has a device board:7; .*board:0 \(BoardExecutionProvider\), board:1"
    ):
        OrtValue.ortvalue_from_numpy(X, "board", 7)
    with pytest.raises(InvalidArgument, match="strings are on the CPU alone; board:0"):
        OrtValue.ortvalue_from_numpy(np.array(["a"], object), "board")


@pytest.mark.parametrize("answer", [None, [Device("board")], {"board": {}}])
def test_devices_that_a_class_says_wrongly_are_told_of(answer: Any, registered: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Board, "supported_devices", classmethod(lambda cls: answer))
    with pytest.raises(InvalidArgument, match=r"perhaps those of BoardExecutionProvider, but: .*supported_devices returned"):
        OrtValue.ortvalue_from_numpy(X, "board")


def test_a_provider_that_is_not_registered_takes_values_too() -> None:
    board = Board()
    value = OrtValue.on(board, X.reshape(1, 3).T)
    assert value.shape() == [3, 1]
    np.testing.assert_array_equal(np.asarray(value).reshape(-1), X)
    assert value.data_ptr() > 0
    with pytest.raises(ValueError, match="without a copy there is no array"):
        np.asarray(value, copy=False)
    with pytest.raises(InvalidArgument, match=r"Tensor values of board:0 have no __dlpack__; `numpy\(\)` gives a copy"):
        value.__dlpack__()
    with pytest.raises(InvalidArgument, match="have no __dlpack_device__"):
        value.__dlpack_device__()


@pytest.mark.parametrize("overwrites", [True, False])
def test_elements_are_replaced(overwrites: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not overwrites:
        monkeypatch.delattr(Transfer, "overwrite")
    board = Board()
    value = OrtValue.on(board, X)
    address = value.data_ptr()
    same = OrtValue(value)
    value.update_inplace(-X)
    np.testing.assert_array_equal(same.numpy(), -X)
    assert (value.data_ptr() == address) == overwrites
    assert board.memory.bytes_in_use == 256
    with pytest.raises(InvalidArgument, match=r"update_inplace: got float32\[2\], the value is float32\[3\]"):
        value.update_inplace(X[:2])


# Feeds


@pytest.mark.parametrize("way", ["run", "run_with_ort_values"])
def test_a_value_where_its_reader_is_is_not_copied(way: str) -> None:
    board = Board()
    made = session(board)
    value = OrtValue.on(board, X)
    board.log.clear()
    (y,) = getattr(made, way)(None, {"x": value})
    np.testing.assert_array_equal(np.asarray(y), -X)
    assert copies(board) == ["board:0 -> cpu:0"], "the output alone"
    assert made.run(None, {"x": X})[0].tolist() == (-X).tolist(), "and from the CPU as ever"


def test_a_value_that_is_read_on_both_sides_comes_to_the_cpu_once() -> None:
    board = Board(lambda node: node.op_type == "Neg")
    made = session(board, text="main (float[N] x) => (float[N] y) { a = Neg(x) b = Abs(x) c = Add(a, b) y = Sub(c, x) }")
    value = OrtValue.on(board, X)
    board.log.clear()
    np.testing.assert_array_equal(made.run(None, {"x": value})[0], np.abs(X) - 2 * X)
    assert copies(board) == ["board:0 -> cpu:0"] * 2, "x, and a"


def test_a_value_of_another_device_takes_the_way_through_the_cpu() -> None:
    one, two = Board(device_id=0), Board(device_id=1)
    value = OrtValue.on(two, X)
    two.log.clear()
    np.testing.assert_array_equal(session(one).run(None, {"x": value})[0], -X)
    assert (copies(two), copies(one)) == (["board:1 -> cpu:0"], ["cpu:0 -> board:0", "board:0 -> cpu:0"])
    one.log.clear()
    np.testing.assert_array_equal(session(one, two).run(None, {"x": value})[0], -X)
    assert copies(one) == ["cpu:0 -> board:0", "board:0 -> cpu:0"]
    np.testing.assert_array_equal(session().run(None, {"x": value})[0], -X)


def test_two_instances_of_one_device_read_each_others_values() -> None:
    one, other = Board(), Board()
    value = OrtValue.on(other, X)
    other.log.clear()
    np.testing.assert_array_equal(session(one).run(None, {"x": value})[0], -X)
    assert (copies(other), copies(one)) == ([], ["board:0 -> cpu:0"])


@pytest.mark.parametrize(
    ("text", "array", "message"),
    [
        (TEXT, X.astype(np.float64), r"input 'x' is tensor\(double\) of shape \[3\], on board:0; expected tensor\(float\)"),
        (TEXT, X.reshape(1, 3), r"input 'x' has rank 2, shape \[1, 3\]; expected rank 1"),
        (TEXT.replace("[N]", "[4]"), X, r"input 'x' has 3 in dimension 0, shape \[3\]; expected \[4\]"),
    ],
)
def test_what_a_value_says_is_checked_as_an_array_is(text: str, array: Any, message: str) -> None:
    board = Board()
    with pytest.raises(InvalidArgument, match=message):
        session(board, text=text).run(None, {"x": OrtValue.on(board, array)})


def test_outputs_have_to_be_known_and_inputs_there() -> None:
    board = Board()
    made, value = session(board), OrtValue.on(board, X)
    with pytest.raises(InvalidArgument, match="the model has no output 'z'"):
        made.run(["z"], {"x": value})
    with pytest.raises(InvalidArgument, match="missing input 'x'"):
        made.run(None, {"z": value})
    with pytest.raises(InvalidArgument, match="the feed is a list"):
        made.run(None, cast(Any, [value]))


# Bindings


def bound(made: ort_lite.InferenceSession, value: Any) -> IOBinding:
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y", "board", 0)
    return binding


def test_the_output_of_a_run_is_the_input_of_the_next_and_nothing_is_copied() -> None:
    board = Board()
    made = session(board)
    binding = bound(made, OrtValue.on(board, X))
    board.log.clear()
    for _ in range(3):
        made.run_with_iobinding(binding)
        binding.bind_ortvalue_input("x", binding.get_outputs()[0])
    assert copies(board) == []
    binding.synchronize_outputs()
    binding.synchronize_inputs()
    assert board.log[-2:] == ["sync", "sync"]
    assert binding.get_outputs()[0].device_name() == "board"
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], -X)
    assert board.memory.bytes_in_use == 256, "one value is left"


def test_a_model_on_both_sides_keeps_what_was_asked_for_on_the_board() -> None:
    board = Board(lambda node: node.op_type != "Abs")
    made = session(board, text="main (float[N] x) => (float[N] y, float[N] z) { a = Neg(x) y = Abs(a) z = Mul(y, a) }")
    binding = made.io_binding()
    binding.bind_cpu_input("x", X)
    for name, device in (("z", "board"), ("y", "cpu")):
        binding.bind_output(name, device)
    made.run_with_iobinding(binding)
    assert [value.device_name() for value in binding.get_outputs()] == ["board", "cpu"]
    z, y = binding.copy_outputs_to_cpu()
    np.testing.assert_array_equal(y, np.abs(X))
    np.testing.assert_array_equal(z, -X * np.abs(X))
    binding.bind_output("y", "board")
    board.log.clear()
    made.run_with_iobinding(binding)
    assert copies(board) == ["cpu:0 -> board:0", "board:0 -> cpu:0", "cpu:0 -> board:0"], "x, a, and y for both uses"
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[1], np.abs(X))


@pytest.mark.parametrize("overwrites", [True, False])
def test_an_output_goes_over_the_memory_that_it_is_bound_to(overwrites: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not overwrites:
        monkeypatch.delattr(Transfer, "overwrite")
    board = Board()
    made = session(board)
    target = made.create_ortvalue_from_shape_and_type([3], np.float32, "board", 0)
    address = target.data_ptr()
    binding = bound(made, OrtValue.on(board, X))
    binding.bind_ortvalue_output("y", target)
    board.log.clear()
    made.run_with_iobinding(binding)
    assert copies(board) == (["board:0 over board:0"] if overwrites else [])
    assert binding.get_outputs()[0] is target
    np.testing.assert_array_equal(target.numpy(), -X)
    assert (target.data_ptr() == address) == overwrites
    binding.bind_ortvalue_input("x", target)
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(target.numpy(), X)


def test_a_target_that_does_not_fit_is_named_and_one_elsewhere_is_filled() -> None:
    board, other = Board(), Board(device_id=1)
    made = session(board)
    binding = bound(made, OrtValue.on(board, X))
    binding.bind_ortvalue_output("y", made.create_ortvalue_from_shape_and_type([4], np.float32, "board"))
    with pytest.raises(InvalidArgument, match=r"output 'y' is float32\[3\]; it is bound to memory for float32\[4\]"):
        made.run_with_iobinding(binding)
    target = OrtValue.on(other, X)
    binding.bind_ortvalue_output("y", target)
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(target.numpy(), -X)


def test_memory_at_an_address_is_read_and_written() -> None:
    board = Board()
    made = session(board)
    source, target = OrtValue.on(board, X), OrtValue.on(board, np.zeros(3, np.float32))
    binding = made.io_binding()
    binding.bind_input("x", "board", 0, np.float32, [3], source.data_ptr())
    binding.bind_output("y", "board", 0, np.float32, [3], target.data_ptr())
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(target.numpy(), -X)


@pytest.mark.parametrize("missing", ["at_address", "overwrite"])
def test_memory_that_a_transfer_cannot_write_at_is_refused(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Transfer, missing)
    binding = session(Board()).io_binding()
    with pytest.raises(InvalidArgument, match=f"has no {missing}"):
        binding.bind_output("y", "board", 0, np.float32, [3], 64)


def test_devices_that_the_session_lacks_are_named() -> None:
    made = session(Board())
    with pytest.raises(InvalidArgument, match="the session has no device board:1; it has cpu:0, board:0"):
        made.io_binding().bind_output("y", "board", 1)
    with pytest.raises(InvalidArgument, match="no device card:0"):
        made.create_ortvalue_from_shape_and_type([1], np.float32, "card")
    with pytest.raises(InvalidArgument, match="no device board:0; it has cpu:0"):
        session().io_binding().bind_output("y", "board")


def test_what_the_cpu_computes_alone_comes_to_the_board_too() -> None:
    board = Board(lambda node: False)
    made = session(board, text="main (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Abs(x) }")
    target = np.zeros(3, np.float32)
    binding = made.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_ortvalue_output("z", OrtValue(target))
    binding.bind_output("y", "board")
    made.run_with_iobinding(binding)
    assert [value.device_name() for value in binding.get_outputs()] == ["cpu", "board"]
    np.testing.assert_array_equal(target, np.abs(X))
    np.testing.assert_array_equal(binding.get_outputs()[1].numpy(), -X)


def test_what_an_input_is_too_or_a_constant_is_a_copy() -> None:
    board = Board()
    text = "main (float[3] x) => (float[3] y, float[3] x, float[1] c) <float[1] c = {2}> { y = Neg(x) }"
    made = session(board, text=text)
    value = OrtValue.on(board, X)
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", value)
    for name in ("x", "c"):
        binding.bind_output(name, "board")
    made.run_with_iobinding(binding)
    x, c = binding.get_outputs()
    value.update_inplace(-X)
    np.testing.assert_array_equal(x.numpy(), X)
    assert (c.device_name(), c.numpy().tolist()) == ("board", [2])


def test_a_value_may_say_no_shape_where_the_graph_does() -> None:
    class Shapeless(Board):
        def compile(self, partitions: Any) -> Any:
            return [lambda inputs: [Box(-inputs[0].array())] for _ in partitions]

    class Box:
        def __init__(self, inside: Any) -> None:
            self.array = lambda: inside

    board = Shapeless()
    binding = bound(made := session(board), OrtValue.on(board, X))
    made.run_with_iobinding(binding)
    assert binding.get_outputs()[0].shape() == [3]
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], -X)


def tensor_of(shape: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: Tensor(x.memory, np.float32, shape)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (tensor_of((4,)), r".*has shape \[4\]; expected \[3\]"),
        (tensor_of((3, 1)), r".*has shape \[3, 1\]; expected \[3\]"),
        (tensor_of(3), ".*says that its shape is 3; expected a tuple of numbers"),
        (tensor_of(("N",)), r".*says that its shape is \('N',\)"),
        (tensor_of(None), ".*without `shape`, and only the run tells which it has"),
        (lambda x: None, "is None"),
    ],
    ids=["another size", "another rank", "a number", "a name", "no shape", "no value"],
)
def test_an_output_that_the_graph_denies_is_an_error(result: Callable[[Tensor], Any], message: str) -> None:
    class Wrong(Board):
        def compile(self, partitions: Any) -> Any:
            return [lambda inputs: [result(inputs[0])] for _ in partitions]

    board = Wrong()
    binding = bound(made := session(board), OrtValue.on(board, X))
    with pytest.raises(ProviderError, match=f"BoardExecutionProvider: output 'y', which stays on board:0, {message}"):
        made.run_with_iobinding(binding)


@pytest.mark.parametrize("method", ["overwrite", "at_address", "copy", "copy_into"])
def test_a_transfer_that_fails_is_named(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> Any:
        raise OSError("bus")

    board = Board()
    made, value = session(board), OrtValue.on(board, X)
    monkeypatch.setattr(Transfer, method, fail)
    calls: dict[str, Callable[[], Any]] = {
        "overwrite": lambda: value.update_inplace(X),
        "at_address": lambda: made.io_binding().bind_input("x", "board", 0, np.float32, [3], 64),
        "copy": value.numpy,
        "copy_into": lambda: OrtValue.on(board, X),
    }
    with pytest.raises(RuntimeException, match=r"BoardExecutionProvider: .* failed: OSError: bus"):
        calls[method]()
    assert board.memory.bytes_in_use == 256


def test_values_outlive_the_session_and_their_memory_goes_back() -> None:
    board = Board()
    made = session(board)
    binding = bound(made, OrtValue.on(board, X))
    made.run_with_iobinding(binding)
    (y,) = binding.get_outputs()
    made.close()
    with pytest.raises(RuntimeException, match="the session is closed"):
        made.run_with_iobinding(binding)
    del binding, made
    gc.collect()
    assert board.memory.bytes_in_use == 256
    np.testing.assert_array_equal(y.numpy(), -X)
    del y
    assert board.memory.bytes_in_use == 0


def test_runs_with_a_profile_options_and_verification_take_values_too(tmp_path: Path) -> None:
    board = Board()
    options = ort_lite.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    made = ort_lite.InferenceSession(proto(TEXT), options, [board, CpuStandIn()])
    value = OrtValue.on(board, X)
    for keywords in ({"run_options": ort_lite.RunOptions()}, {"verify": "partition"}):
        np.testing.assert_array_equal(made.run(None, {"x": value}, **keywords)[0], -X)
    assert made.verification is not None
    assert made.verification.ok
    assert "BoardExecutionProvider_0" in Path(made.end_profiling()).read_text()


def test_many_threads_run_with_values_in_many_places() -> None:
    board = Board()
    made = session(board, text="main (float[N] a, float[N] b) => (float[N] y) { y = Sub(a, b) }")

    def work(seed: int) -> None:
        for k in range(40):
            a, b = np.array([seed, k], np.float32), np.array([k, 1], np.float32)
            feed = {"a": OrtValue.on(board, a) if (seed + k) % 2 else a, "b": OrtValue.on(board, b) if k % 3 else b}
            np.testing.assert_array_equal(made.run(None, feed)[0], a - b)

    run_together(work, 4)
    assert board.memory.bytes_in_use == 0


def test_the_next_provider_takes_over_with_values_on_the_device() -> None:
    class Failing(Board):
        def compile(self, partitions: Any) -> Any:
            def fail(inputs: Any) -> Any:
                raise ValueError("no")

            return [fail for _ in partitions]

    board = Failing()
    made = session((board, {"on_run_error": "next"}))
    binding = bound(made, OrtValue.on(board, X))
    for _ in range(2):
        np.testing.assert_array_equal(made.run(None, {"x": OrtValue.on(board, X)})[0], -X)
        np.testing.assert_array_equal(made.run(None, {"x": X})[0], -X)
        made.run_with_iobinding(binding)
        assert binding.get_outputs()[0].device_name() == "board"
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], -X)


# Memory for outputs


def test_outputs_are_in_memory_of_the_allocator() -> None:
    board = Board()
    made = session(board)
    for n in (3, 0, 300):
        made.run(None, {"x": np.ones(n, np.float32)})
    assert board.memory.statistics()["NumAllocs"] == 6
    assert board.memory.bytes_in_use == 0


def test_an_output_whose_size_the_run_tells_gets_no_memory() -> None:
    class Finding(Board):
        def compile(self, partitions: Any) -> Any:
            return [Found(partition, self) for partition in partitions]

    class Found(OnBoard):
        def into_memory(self, inputs: Any, memory: Any) -> list[Any]:
            self.board.log.append(f"memory {memory}")
            found = np.stack(np.nonzero(inputs[0].array()))
            made = Tensor(self.board.memory.allocate(found.nbytes), found.dtype, found.shape)
            made.array()[...] = found
            return [made]

    board = Finding()
    board.operators = ("NonZero",)
    text = "main (float[N] x) => (int64[1,M] y) { y = NonZero(x) }"
    made = session(board, text=text)
    binding = bound(made, OrtValue.on(board, np.array([0, 2, 3], np.float32)))
    made.run_with_iobinding(binding)
    assert "memory [None]" in board.log
    assert binding.get_outputs()[0].shape() == [1, 2]
    assert binding.copy_outputs_to_cpu()[0].tolist() == [[1, 2]]


def test_an_allocator_without_room_for_an_output_ends_the_run() -> None:
    board = Board(limit=1024)
    made = session(board)
    with pytest.raises(OutOfMemory, match="allocator of board:0: 1,024 bytes asked for"):
        made.run(None, {"x": np.ones(200, np.float32)})
    assert board.memory.bytes_in_use == 0
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], -X)


@pytest.mark.parametrize("wanted", ["copy of 'x'", "BoardExecutionProvider_0"])
def test_an_allocator_that_gives_nothing_is_named(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board()
    made, right, asked = session(board), board.memory.allocate, list[int]()
    first = 0 if wanted.startswith("copy") else 1  # the copy comes before the partition

    def allocate(nbytes: int) -> Any:
        asked.append(nbytes)
        return right(nbytes) if len(asked) <= first else None

    monkeypatch.setattr(board.memory, "allocate", allocate)
    with pytest.raises(ProviderError, match=rf"{wanted}.* allocate returned None; expected a handle"):
        made.run(None, {"x": X})
    gc.collect()
    assert board.memory.bytes_in_use == 0


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda memory: memory, "into_memory returned the handle; expected a value of its own in the memory of board:0"),
        (lambda memory: [None], "into_memory returned None"),
        (lambda memory: [3], "into_memory returned a int, to which no weak reference may point"),
        (lambda memory: [], "returned 0 values for 1 outputs"),
        (lambda memory: 1 // 0, "failed: ZeroDivisionError"),
    ],
)
def test_a_partition_that_makes_no_value_is_named_and_leaves_no_memory(result: Any, message: str) -> None:
    class Nonsense(Board):
        def compile(self, partitions: Any) -> Any:
            return [type("Made", (OnBoard,), {"into_memory": lambda self, inputs, memory: result(memory)})(partitions[0], self)]

    board = Nonsense()
    with pytest.raises((ProviderError, RuntimeException), match=message) as caught:
        session(board).run(None, {"x": X})
    assert "BoardExecutionProvider_0" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    del caught
    gc.collect()
    assert board.memory.bytes_in_use == 0


def test_a_state_comes_with_the_memory() -> None:
    class Streaming(Board):
        concurrency = "per-thread"

        def compile(self, partitions: Any) -> Any:
            return [WithStream(partition, self) for partition in partitions]

    class WithStream(OnBoard):
        def create_state(self) -> str:
            return "stream"

        def into_memory(self, inputs: Any, memory: Any, state: str = "") -> list[Any]:
            self.board.log.append(state)
            return super().into_memory(inputs, memory)

    board = Streaming()
    np.testing.assert_array_equal(session(board).run(None, {"x": X})[0], -X)
    assert "stream" in board.log


# Copies that do not block


class Pending:
    """A copy that a thread makes, `seconds` later."""

    def __init__(self, work: Callable[[], None], seconds: float, told: Callable[[], None]) -> None:
        self._error: Exception | None = None
        self._work, self._told = work, told
        self._thread = threading.Thread(target=self._run, args=(seconds,))
        self._thread.start()

    def _run(self, seconds: float) -> None:
        time.sleep(seconds)
        try:
            self._work()
        except Exception as error:  # noqa: BLE001  for whoever waits
            self._error = error

    def wait_on_host(self) -> None:
        join(self._thread)
        self._told()
        if self._error is not None:
            raise self._error


class SlowTransfer(Transfer):
    """The first copy takes long."""

    seconds = 0.0
    fails = ""

    def copy_async(self, value: Any, source: Device, destination: Device, memory: Any) -> tuple[Any, Pending]:
        way = f"{source} -> {destination}"
        self.log.append(f"begin {way}")
        if self.fails == "begin":
            raise OSError("bus")
        made: Any
        if destination == CPU:
            made = np.empty(value.shape, value.dtype)
            target, given = made, value.array()
        else:
            made = Tensor(memory, value.dtype, value.shape)
            target, given = made.array(), value

        def work() -> None:
            if self.fails == "wait":
                raise OSError("lost")
            target[...] = given
            self.log.append(f"end {way}")

        seconds, self.seconds = self.seconds, 0
        return made, Pending(work, seconds, lambda: self.log.append(f"wait {way}"))


class SlowCpu(CpuStandIn):
    """The first partition takes long."""

    def __init__(self, log: list[str], seconds: float) -> None:
        super().__init__()
        self.log, self.seconds, self.compute = log, seconds, evaluate

    def compile(self, partitions: Sequence[Partition]) -> Any:
        def slow(partition: Partition) -> Any:
            def run(inputs: Any) -> Any:
                seconds, self.seconds = self.seconds, 0
                time.sleep(seconds)
                self.log.append(f"{partition.name} is done")
                return self.compute(partition, inputs)

            return run

        return [slow(partition) for partition in partitions]


class SlowBoard(Board):
    transfer: SlowTransfer

    def __init__(self, takes: Callable[[Node], bool], seconds: float = 0) -> None:
        super().__init__(takes)
        self.transfer = SlowTransfer(self.device, self.log)
        self.transfer.seconds = seconds
        self.slow = SlowCpu(self.log, seconds)


BESIDE = "main (float[N] x, float[N] z) => (float[N] y) { a = Abs(z)  b = Mul(x, a)  y = Neg(b) }"


def slow_session(seconds: float, parallel: bool = False) -> tuple[SlowBoard, ort_lite.InferenceSession]:
    """On the board is Mul; x goes there while the CPU computes a."""
    board = SlowBoard(lambda node: node.op_type == "Mul", seconds)
    options = ort_lite.SessionOptions()
    options.execution_mode = ort_lite.ExecutionMode(parallel)
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    return board, ort_lite.InferenceSession(proto(BESIDE), options, [board, board.slow])


def test_a_copy_is_made_beside_a_partition_and_waited_for_before_its_reader() -> None:
    board, made = slow_session(0.4)
    begin = time.perf_counter()
    (y,) = made.run(None, {"x": X, "z": X})
    seconds = time.perf_counter() - begin
    np.testing.assert_array_equal(y, -X * np.abs(X))
    assert 0.4 <= seconds < 0.7, "x comes while the CPU computes; one after the other would take 0.8 s"
    log = board.log
    assert log[0] == "begin cpu:0 -> board:0", "before anything else"
    assert log.index("CPUExecutionProvider_0 is done") > 0
    reader = log.index("BoardExecutionProvider_0")
    assert [line.split()[0] for line in log[:reader]].count("wait") == 2
    assert log.count("begin cpu:0 -> board:0") == log.count("end cpu:0 -> board:0") == 2
    assert log.index("begin board:0 -> cpu:0") == reader + 1, "as soon as it is there"
    assert board.memory.bytes_in_use == 0


@pytest.mark.parametrize(("fails", "what"), [("begin", "bus"), ("wait", "lost")])
def test_a_copy_that_fails_is_named(fails: str, what: str) -> None:
    board, made = slow_session(0)
    board.transfer.fails = fails
    with pytest.raises(
        RuntimeException, match=f"copy of 'x', cpu:0 -> board:0 by SlowTransfer, failed: OSError: {what}"
    ) as caught:
        made.run(None, {"x": X, "z": X})
    del caught
    gc.collect()
    assert board.memory.bytes_in_use == 0


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("error", [RunTerminated, RuntimeException])
def test_copies_of_a_run_that_fails_or_is_ended_are_waited_for_before_memory_goes_back(
    error: type[Exception], parallel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    board, made = slow_session(0, parallel=parallel)
    board.transfer.seconds = 0.1
    options = ort_lite.RunOptions()

    def end(partition: Any, inputs: Any) -> Any:
        if error is RuntimeException:
            raise ValueError("no")
        options.terminate = True
        return evaluate(partition, inputs)

    freed: list[int] = []
    free = board.memory.free

    def noting(handle: Chunk) -> None:
        freed.append(len(board.log))
        free(handle)

    monkeypatch.setattr(board.memory, "free", noting)
    monkeypatch.setattr(board.slow, "compute", end)
    with pytest.raises(error) as caught:
        made.run(None, {"x": X, "z": X}, options)
    assert error is RunTerminated or board.log[-2:] == ["wait cpu:0 -> board:0", "sync"], "a run that fails has waited"
    for thread in threading.enumerate():
        if thread.name == "ort-lite-device-wait":  # a run that must end leaves a long wait to a thread
            join(thread)
    assert sorted(board.log[-2:]) == ["sync", "wait cpu:0 -> board:0"]
    del caught
    gc.collect()
    assert "BoardExecutionProvider_0" not in board.log
    assert "end cpu:0 -> board:0" in board.log
    assert freed
    assert min(freed) > board.log.index("wait cpu:0 -> board:0")
    assert board.memory.bytes_in_use == 0


class Done:
    def wait_on_host(self) -> None:
        """There is nothing to wait for."""


NO_COPY = r"copy_async returned .*; expected the value and a notification with `wait_on_host`"


@pytest.mark.parametrize(
    ("begun", "message"),
    [
        ((None, Done()), "began None"),
        ((3, Done()), "copy_async returned a int, to which no weak reference may point"),
        *((begun, NO_COPY) for begun in (None, 3, (1,), (1, 2))),
    ],
    ids=["no value", "a number as value", "nothing", "a number", "one", "no notification"],
)
def test_a_copy_that_begins_nothing_or_makes_no_value_is_named(
    begun: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    board, made = slow_session(0)
    monkeypatch.setattr(SlowTransfer, "copy_async", lambda *arguments: begun)
    with pytest.raises(ProviderError, match=message):
        made.run(None, {"x": X, "z": X})
    gc.collect()
    assert board.memory.bytes_in_use == 0


def test_with_a_next_provider_copies_block() -> None:
    board = SlowBoard(lambda node: True)
    made = session((board, {"on_run_error": "next"}))
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], -X)
    assert copies(board) == ["cpu:0 -> board:0", "board:0 -> cpu:0"]


# Random graphs


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_with_values_anywhere(seed: int) -> None:
    """Two boards, of which one copies without blocking, and the CPU; inputs and outputs of each run lie somewhere else."""
    rng, graph = random.Random(seed), random_graph(seed, 4 + seed % 30)
    owner = {node.name: rng.randrange(3) for node in graph.all_nodes()}
    one, two = (
        kind(lambda node, k=k: node.op_type != "If" and owner.get(node.name) == k) for k, kind in enumerate((Board, SlowBoard))
    )
    two.transfer.device = two.memory.device = two.device = Device("board", 1)
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_mode = ort_lite.ExecutionMode(seed % 2)
    given = feeds(seed)
    expected = [np.array(y) for y in reference(graph, given)]
    made = ort_lite.InferenceSession(Model(graph, {"": 17}), options, [one, two, CpuStandIn()])
    for _ in range(4):
        binding = made.io_binding()
        for arg, array in zip(made.get_inputs(), given, strict=True):
            place = rng.choice((None, one, two))
            binding.bind_ortvalue_input(arg.name, OrtValue(array) if place is None else OrtValue.on(place, array))
        wanted = [k for k in range(len(expected)) if rng.random() < 0.7] or [0]
        for k in wanted:
            binding.bind_output(made.get_outputs()[k].name, *rng.choice((("cpu", 0), ("board", 0), ("board", 1))))
        made.run_with_iobinding(binding)
        for k, value in zip(wanted, binding.get_outputs(), strict=True):
            np.testing.assert_array_equal(value.numpy(), expected[k])
        del binding, value
        assert (one.memory.bytes_in_use, two.memory.bytes_in_use) == (0, 0)
