"""int64 values that are int32 in the memory of a device."""

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument
from ort_lite.graph import Value
from ort_lite.provider import CPU, DataTransfer, Device, Partition
from ort_lite.provider.kernels import KernelProvider, KernelRegistry
from ort_lite.provider.narrowing import holds_int64, narrow, widen
from tests.provider.numpy_provider import Box, BoxTransfer, CpuStandIn, OtherDevice
from tests.provider.texts import graph, named, plain, proto

BOX = Device("box")
N = np.array([1, -2, 3], np.int64)
F = np.array([1, 2, 3], np.float32)


class Narrow(OtherDevice):
    """It computes with what its values hold."""

    name = "NarrowExecutionProvider"
    narrows_int64 = True

    def __init__(self, takes: Any = lambda node: True, host: Collection[str] = ()) -> None:
        super().__init__(takes)
        self.host, self.held = host, list[str]()

    def host_values(self, partition: Partition) -> list[Value]:
        return [value for value in (*partition.inputs, *partition.outputs) if value.name in self.host]

    def data_transfer(self) -> DataTransfer:
        return BoxTransfer(BOX)

    def _boxed(self, partition: Partition, inputs: Any) -> Any:
        self.held += [(x.open(BOX) if isinstance(x, Box) else x).dtype.name for x in inputs]
        given = [x if v not in partition.host_values else Box(BOX, x) for v, x in zip(partition.inputs, inputs, strict=True)]
        results = super()._boxed(partition, given)
        return [y.open(BOX) if v in partition.host_values else y for v, y in zip(partition.outputs, results, strict=True)]


def make(text: str, *providers: Any, options: Any = None) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(proto(text), plain(), providers=[*providers, CpuStandIn()], provider_options=options)


CHAIN = "(int64[N] x, float[N] f) => (int64[N] y, float[N] g) { a = Abs(x)  b = Neg(a)  y = Abs(b)  g = Neg(f) }"


def test_values_are_narrow_on_the_device_and_wide_elsewhere() -> None:
    box = Narrow(named("a", "y", "g"))
    session = make(CHAIN, box)
    y, g = session.run(None, {"x": N, "f": F})
    assert (y.dtype, y.tolist(), g.dtype) == (np.int64, [1, 2, 3], np.float32)
    assert sorted(box.held) == ["float32", "int32", "int32"]


def test_host_values_stay_wide() -> None:
    box = Narrow(host=["x", "y"])
    big = np.array([2**40, 1, 2])
    y, _ = make(CHAIN, box).run(None, {"x": big, "f": F})
    assert (y.tolist(), sorted(box.held)) == ([2**40, 1, 2], ["float32", "int64"])


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**62])
def test_a_number_out_of_range_is_an_error_that_names_it(number: int) -> None:
    with pytest.raises(
        InvalidArgument, match=rf"^'x' has the element {number}; .* int32 on box:0: expected -2147483648 to 2147483647"
    ):
        make(CHAIN, Narrow()).run(None, {"x": np.array([1, number]), "f": F[:2]})


@pytest.mark.parametrize("numbers", [[2**31 - 1, -(2**31) + 1], []])
def test_the_limits_are_in_range(numbers: list[int]) -> None:
    y, _ = make(CHAIN, Narrow(named("y"))).run(
        None, {"x": np.array(numbers, np.int64), "f": np.zeros(len(numbers), np.float32)}
    )
    assert y.tolist() == np.abs(numbers).tolist()


def test_a_number_out_of_range_goes_to_the_next_provider() -> None:
    session = make(CHAIN, Narrow(), options=[{"on_run_error": "next"}, {}])
    y, _ = session.run(None, {"x": np.array([2**40, -1]), "f": F[:2]})
    assert y.tolist() == [2**40, 1]


def test_sequences_and_optionals() -> None:
    made = graph("(seq(int64[N]) s, optional(int64[N]) o, float[N] f) => (float[N] y) { y = Abs(f) }")
    assert [holds_int64(value.type) for value in made.inputs] == [True, True, False]
    assert [x.dtype.name for x in narrow([N, N], "s", BOX)] == ["int32", "int32"]
    assert [x.dtype.name for x in widen(narrow([N, F], "s", BOX))] == ["int64", "float32"]


def test_bound_values_are_narrow_on_the_device() -> None:
    ort_lite.register_provider(Narrow.name, Narrow)
    try:
        held = ort_lite.OrtValue.ortvalue_from_numpy(N, "box", 0)
        assert (held.element_type(), held.device_name(), held.numpy().tolist()) == (7, "box", N.tolist())
        assert held.device_tensor is not None
        assert (held.device_tensor.nbytes, held.device_tensor.value.open(BOX).dtype.name) == (12, "int32")
        held.update_inplace(N + 1)
        assert held.numpy().tolist() == (N + 1).tolist()
        with pytest.raises(InvalidArgument, match="'an OrtValue' has the element 4294967299"):
            held.update_inplace(N + 2**32)
        binding = make(CHAIN, box := Narrow()).io_binding()
        binding.bind_ortvalue_input("x", held)
        binding.bind_cpu_input("f", F)
        binding.bind_output("y", "box", 0)
        binding.bind_output("g")
        session = make(CHAIN, box)
        session.run_with_iobinding(binding)
    finally:
        ort_lite.unregister_provider(Narrow.name)
    y = binding.get_outputs()[0]
    assert (y.device_name(), y.numpy().tolist(), y.numpy().dtype) == ("box", [2, 1, 4], np.int64)


def test_between_two_devices_elements_that_differ_go_through_the_cpu() -> None:
    class Wide(OtherDevice):
        name = "WideExecutionProvider"
        device = Device("crate")

        def data_transfer(self) -> DataTransfer:
            return Anywhere()

    class Anywhere:
        def can_copy(self, source: Device, destination: Device) -> bool:
            return True

        def copy(self, value: Any, source: Device, destination: Device) -> Any:
            x = value if source == CPU else value.open(source)
            return np.array(x) if destination == CPU else Box(destination, x)

    session = make(CHAIN, Narrow(named("a", "y")), Wide())
    hops = [str(note) for note in session.explain().assignment.notes() if "crate" in note and "box" in note]
    assert all("cpu:0" in hop for hop in hops) and len(hops) == 2
    assert session.run(None, {"x": N, "f": F})[0].tolist() == [1, 2, 3]


def test_kernels_get_narrow_values_and_wide_host_values() -> None:
    seen = list[str]()

    def double(x: Box) -> Box:
        seen.append(x.open(BOX).dtype.name)
        return Box(BOX, x.open(BOX) * 2)

    def gather(x: Box, at: Any) -> Box:
        seen.append(at.dtype.name)
        return Box(BOX, x.open(BOX)[at])

    registry = KernelRegistry()
    registry.add("Neg", double)
    registry.add("Gather", gather, host_inputs=(1,))
    registry.add("Add", lambda x, y: Box(BOX, x.open(BOX) + y.open(BOX)))

    class Kernels(KernelProvider):
        name = "KernelsExecutionProvider"
        device = BOX
        narrows_int64 = True
        kernels = registry

        def data_transfer(self) -> DataTransfer:
            return BoxTransfer(BOX)

    constants = "<int64[3] w = {1, 2, 3}, int64[2] at = {0, 2}>"
    nodes = "{ a = Neg(x)  b = Gather(a, at)  c = Add(a, w)  y = Gather(c, b) }"
    text = f"(int64[N] x) => (int64[K] y) {constants} {nodes}"
    assert make(text, Kernels()).run(None, {"x": np.array([0, 0, 1])})[0].tolist() == [1, 5]
    assert seen == ["int32", "int64", "int64"]
    with pytest.raises(ort_lite.errors.CompileError, match="'w' has the element 9999999999"):
        make(text.replace("w = {1, 2, 3}", "w = {1, 2, 9999999999}"), Kernels())
