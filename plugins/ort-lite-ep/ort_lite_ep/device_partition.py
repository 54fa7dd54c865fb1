"""A compiled partition of a provider whose device has memory of its own: its values stay there from one fused node to the next."""

import struct
from collections.abc import Sequence
from ctypes import c_int64
from typing import Any

from ort_lite.compile.fallback import UncopiedValue
from ort_lite.compile.linking import DeviceSlots
from ort_lite.execute.results import KnownShapes
from ort_lite.graph import Value
from ort_lite.partition.borders import transfers_of
from ort_lite.provider import ExecutionProvider
from ort_lite.session.device_values import put
from ort_lite.session.placed import link_on_devices, shape_on_device
from ort_lite.session.settle import Settled
from ort_lite.tensors.device_tensor import DeviceTensor
from ort_lite_ep.c_api import CApi
from ort_lite_ep.devices import Devices, Operand, read_operands
from ort_lite_ep.shim import Shim
from ort_lite_ep.tensors import to_host


class DevicePartition:
    """The kernel of one fused node.

    Args:
        settled: the partition, compiled.
        provider: the provider whose device has the inputs and outputs.
        inputs: the names of the fused node's inputs, in the order in which a run passes them.
        outputs: the names of its outputs.
    """

    def __init__(
        self,
        api: CApi,
        shim: Shim,
        devices: Devices,
        settled: Settled,
        provider: ExecutionProvider,
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> None:
        self._api, self._shim, self._devices, self._provider = api, shim, devices, provider
        graph, compiled = settled.assignment.graph, settled.compiled
        assert compiled is not None, "there is a compiler"
        homes = dict.fromkeys(graph.inputs, provider.device)
        wanted = {value: None if value.constant is not None else provider for value in graph.outputs}
        transfers = transfers_of(list(settled.assignment.providers.values()))
        self._run = link_on_devices(settled.assignment, compiled, DeviceSlots(homes, wanted), transfers).run
        position = {name: k for k, name in enumerate(inputs)}
        self._picks = [position[value.name] for value in graph.inputs]
        self._values: list[Value] = list(wanted)
        self._shapes = KnownShapes(self._values, graph.inputs)
        results = {value.name: k for k, value in enumerate(self._values)}
        self._results = [results[name] for name in outputs]

    def compute(self, context: int, described: bytes) -> None:
        """Run the partition on inputs that `describe_place` in shim.c described."""
        given = read_operands(struct.unpack(f"{len(described) // 8}q", described))
        tensors = [self._devices.read(given[k], self._provider) for k in self._picks]
        found = self._run([*tensors, *(tensor.value for tensor in tensors)])
        shapes = self._shapes.of(tensors)
        for k, result in enumerate(self._results):
            self._write(context, k, self._tensor(self._values[result], found[result], shapes[result]))

    def _tensor(self, value: Value, x: Any, shape: tuple[int, ...] | None) -> DeviceTensor:
        """Return a result as a value of the device. Constants, and what could not be copied there, are on the host."""
        if type(x) is UncopiedValue or value.constant is not None:
            return put(x.value if type(x) is UncopiedValue else x, self._provider)
        return DeviceTensor(x, self._provider, value.dtype or "", shape_on_device(value, x, self._provider, shape))

    def _write(self, context: int, index: int, tensor: DeviceTensor) -> None:
        found, rank = (c_int64 * 3)(), len(tensor.shape)
        dims = struct.pack(f"{rank}q", *tensor.shape)
        self._api.check(self._shim.place_output(context, index, dims, rank, found))
        value, address, place = found
        if value:
            self._devices.write(Operand(address, to_host(tensor.dtype), place, tensor.shape), tensor)
