"""IOBinding and the runs that take OrtValues: what is read and written in place, what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import ort_lite
from ort_lite import IOBinding, OrtValue
from ort_lite.compat import io_binding
from ort_lite.errors import InvalidArgument
from tests.load.models import proto

ADD = proto("main (float[N] a, float[N] b) => (float[N] s, float[N] d) { s = Add(a, b) d = Sub(a, b) }")
A, B = np.arange(4, dtype=np.float32), np.ones(4, np.float32)


@pytest.fixture(scope="module")
def session() -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(ADD, providers=["CPUExecutionProvider"])


def bound(session: ort_lite.InferenceSession) -> IOBinding:
    binding = session.io_binding()
    binding.bind_cpu_input("a", A)
    binding.bind_cpu_input("b", B)
    return binding


def test_every_method_of_onnxruntimes_is_there() -> None:
    theirs = {name for name in dir(onnxruntime.IOBinding) if not name.startswith("_")}
    assert theirs <= set(dir(IOBinding))


def test_outputs_that_are_bound_come_in_that_order(session: ort_lite.InferenceSession) -> None:
    binding = bound(session)
    for name in ("d", "s"):
        binding.bind_output(name)
    session.run_with_iobinding(binding)
    assert [value.numpy().tolist() for value in binding.get_outputs()] == [(A - B).tolist(), (A + B).tolist()]
    assert [array.tolist() for array in binding.copy_outputs_to_cpu()] == [(A - B).tolist(), (A + B).tolist()]


def test_an_array_is_read_as_it_is_at_each_run(session: ort_lite.InferenceSession) -> None:
    a = A.copy()
    binding = bound(session)
    binding.bind_cpu_input("a", a)
    binding.bind_output("s")
    session.run_with_iobinding(binding)
    a[0] = 10
    session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0].tolist() == [11, 2, 3, 4]


@pytest.mark.parametrize("way", ["value", "address"])
def test_an_output_is_written_into_the_memory_it_is_bound_to(session: ort_lite.InferenceSession, way: str) -> None:
    target = np.full(4, -1, np.float32)
    binding = bound(session)
    if way == "value":
        binding.bind_ortvalue_output("s", OrtValue.ortvalue_from_numpy(target))
    else:
        binding.bind_output("s", "cpu", 0, np.float32, [4], target.ctypes.data)
    binding.bind_output("d")
    session.run_with_iobinding(binding)
    assert target.tolist() == (A + B).tolist()
    assert binding.get_outputs()[0].data_ptr() == target.ctypes.data
    first = binding.copy_outputs_to_cpu()[0]
    binding.bind_cpu_input("a", -A)
    session.run_with_iobinding(binding)
    assert target.tolist() == (B - A).tolist()
    assert first.tolist() == (A + B).tolist(), "a copy, which the next run leaves alone"


def test_the_cpu_provider_computes_in_the_memory_that_is_bound(
    session: ort_lite.InferenceSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = aligned(4)
    binding = bound(session)
    binding.bind_output("d")
    binding.bind_ortvalue_output("s", OrtValue.ortvalue_from_numpy(target))
    copied = []
    monkeypatch.setattr(io_binding, "fill", lambda name, target, result: copied.append(name))
    session.run_with_iobinding(binding)
    assert copied == []
    assert target.tolist() == (A + B).tolist()
    assert binding.get_outputs()[0].numpy().tolist() == (A - B).tolist()


@pytest.mark.parametrize("case", ["misaligned", "options", "overlapping", "profiled", "list"])
def test_where_it_cannot_the_output_is_copied_there(case: str, session: ort_lite.InferenceSession, tmp_path: Path) -> None:
    memory = aligned(8)
    target = memory[1:5] if case == "misaligned" else memory[:4]
    if case == "profiled":
        options = ort_lite.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
        session = ort_lite.InferenceSession(ADD, options, providers=["CPUExecutionProvider"])
    binding = bound(session)
    binding.bind_ortvalue_output("s", OrtValue(target))
    if case == "overlapping":
        binding.bind_ortvalue_output("d", OrtValue(memory[4:]))
        memory[:4] = A
        binding.bind_cpu_input("a", memory[:4])
    if case == "list":
        binding.bind_cpu_input("a", A.tolist())
    session.run_with_iobinding(binding, ort_lite.RunOptions() if case == "options" else None)
    assert target.tolist() == (A + B).tolist()
    if case == "overlapping":
        assert memory[4:].tolist() == (A - B).tolist()


def aligned(count: int) -> Any:
    """Zeros whose first byte is at a multiple of 64."""
    made = np.zeros(count + 16, np.float32)
    start = -made.ctypes.data % 64 // 4
    return made[start : start + count]


def test_an_output_may_be_bound_to_an_inputs_memory(session: ort_lite.InferenceSession) -> None:
    value = OrtValue.ortvalue_from_numpy(A.copy())
    binding = bound(session)
    binding.bind_ortvalue_input("a", value)
    binding.bind_ortvalue_output("s", value)
    binding.bind_output("d")
    for _ in range(3):
        session.run_with_iobinding(binding)
    assert value.numpy().tolist() == (A + 3).tolist()
    assert binding.get_outputs()[1].numpy().tolist() == (A + 1).tolist()


def test_an_output_bound_again_without_memory_leaves_its_old_memory_and_not_the_others(
    session: ort_lite.InferenceSession,
) -> None:
    """Programs for onnxruntime bind the outputs of each step again."""
    old, kept = (OrtValue.ortvalue_from_numpy(np.zeros(4, np.float32)) for _ in range(2))
    binding = bound(session)
    binding.bind_ortvalue_output("s", old)
    binding.bind_ortvalue_output("d", kept)
    for _ in range(3):
        session.run_with_iobinding(binding)
        binding.bind_output("s")
        binding.bind_cpu_input("a", A + 1)
    session.run_with_iobinding(binding)
    total, difference = binding.get_outputs()
    assert (old.numpy().tolist(), total.numpy().tolist()) == ((A + B).tolist(), (A + 1 + B).tolist())
    assert difference.data_ptr() == kept.data_ptr()
    assert kept.numpy().tolist() == (A + 1 - B).tolist()


def test_an_input_is_read_at_its_address(session: ort_lite.InferenceSession) -> None:
    binding = bound(session)
    binding.bind_input("a", "cpu", 0, 1, [4], A.ctypes.data)
    binding.bind_output("s")
    session.run_with_iobinding(binding)
    assert binding.get_outputs()[0].numpy().tolist() == (A + B).tolist()


def test_bindings_are_taken_back(session: ort_lite.InferenceSession) -> None:
    binding = bound(session)
    binding.bind_output("s")
    session.run_with_iobinding(binding)
    binding.clear_binding_outputs()
    assert binding.get_outputs() == []
    with pytest.raises(InvalidArgument, match="no output is bound; the model has d, s"):
        session.run_with_iobinding(binding)
    binding.bind_output("s")
    binding.clear_binding_inputs()
    with pytest.raises(InvalidArgument, match="missing inputs 'a', 'b'"):
        session.run_with_iobinding(binding)
    binding.synchronize_inputs()
    binding.synchronize_outputs()


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        (lambda b: b.bind_cpu_input("x", A), "the model has no input 'x'; it has 'a', 'b'"),
        (lambda b: b.bind_output("a"), "the model has no output 'a'; it has 'd', 's'"),
        (lambda b: b.bind_output("s", "cuda"), "the session has no device cuda:0; it has cpu:0"),
        (lambda b: b.bind_output("s", buffer_ptr=64), "a buffer needs element_type= and shape= besides"),
        (
            lambda b: b.bind_input("a", "cpu", 0, np.float32, [4], 0),
            "16 bytes at address 0x0: expected the address of the first element",
        ),
        (lambda b: b.bind_ortvalue_output("s", OrtValue([])), "expected a tensor"),
    ],
)
def test_what_cannot_be_bound_is_named(session: ort_lite.InferenceSession, bind: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        bind(session.io_binding())


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.zeros(5, np.float32), r"output 's' is float32\[4\]; it is bound to memory for float32\[5\]"),
        (np.zeros(4), "bound to memory for float64"),
        (np.frombuffer(bytes(16), np.float32), "bound to read-only memory"),
    ],
)
def test_memory_that_does_not_fit_is_named(session: ort_lite.InferenceSession, target: Any, message: str) -> None:
    binding = bound(session)
    binding.bind_ortvalue_output("s", OrtValue(target))
    with pytest.raises(InvalidArgument, match=message):
        session.run_with_iobinding(binding)


def test_ort_values_go_in_and_out(session: ort_lite.InferenceSession) -> None:
    feed = {"a": OrtValue.ortvalue_from_numpy(A), "b": OrtValue.ortvalue_from_numpy(B)}
    (difference,) = session.run_with_ort_values(["d"], feed)
    assert isinstance(difference, OrtValue)
    assert difference.numpy().tolist() == (A - B).tolist()
    both = session.run_with_ort_values(None, {"a": difference, "b": feed["b"]}, ort_lite.RunOptions())
    assert [value.shape() for value in both] == [[4], [4]]
    (plain,) = session.run(["s"], feed)
    assert plain.tolist() == (A + B).tolist()
