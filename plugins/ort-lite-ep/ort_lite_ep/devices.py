"""Values on devices, by the addresses under which onnxruntime knows them.

onnxruntime allocates memory and copies bytes; a provider of ort-lite has values, which may be any objects. The library gives out
addresses that are numbers (see shim.c), and this module keeps the value that was written at each until its block is freed. A value
is never written to: a copy within a device shares it, and a write puts another one in its place.
"""

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple, TypeGuard

import numpy as np

from ort_lite.dtypes import Array, itemsize, to_numpy
from ort_lite.errors import ProviderError
from ort_lite.provider import Device, ExecutionProvider
from ort_lite.session.device_values import fetch, put
from ort_lite.tensors.device_tensor import DeviceTensor
from ort_lite_ep.c_api import CApi
from ort_lite_ep.shim import Shim
from ort_lite_ep.tensors import STRING, array_at, from_host

GPU = 1
"""OrtMemoryInfoDeviceType. onnxruntime's Python interface creates OrtValues on devices of this type alone."""
MOST = 32
"""The devices that the library has numbers for."""
_BYTES = 2  # ONNX's code of uint8
_ELSEWHERE = 0xFF  # the place of memory that belongs to neither the host nor this library
_SIZE_SHIFT, _SIZES = 50, 63  # see the layout of an address in shim.c


class Operand(NamedTuple):
    """A tensor of onnxruntime. `place` is 0 for the host's memory, else the number of a device + 1."""

    address: int
    code: int
    place: int
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return prod(self.shape) * itemsize(from_host(self.code))


def read_operands(numbers: Sequence[int]) -> list[Operand]:
    """Return the tensors that shim.c describes (`describe_place`)."""
    found, at = [], 0
    while at < len(numbers):
        _, address, code, rank = numbers[at : at + 4]
        at += 4 + rank
        found.append(Operand(address, code & 0xFF, code >> 8, tuple(numbers[at - rank : at])))
    return found


class _Known(NamedTuple):
    """A device: the library's number, onnxruntime's number, and the address of its OrtMemoryInfo, which is never released."""

    number: int
    id: int
    info: int


_Copier = Callable[[Device], ExecutionProvider]


class Devices:
    """The devices of this process on which providers keep values. Thread-safe."""

    def __init__(self, shim: Shim) -> None:
        self._shim, self._lock = shim, threading.RLock()  # a value that goes may take a session with it
        self._known: dict[Device, _Known] = {}
        self._copiers: dict[Device, weakref.WeakMethod[_Copier]] = {}
        self._blocks: dict[int, dict[int, tuple[DeviceTensor | Array, int]]] = {}

    def begin_child(self) -> None:
        """Forget which thread of the parent process holds the lock."""
        self._lock = threading.RLock()

    # Devices

    def register(self, api: CApi, device: Device, copier: _Copier) -> int:
        """Return the OrtMemoryInfo of a device. `copier`, a method, returns a provider that copies outside of sessions.

        onnxruntime knows a device by its number alone: that of the provider, unless a device of another kind has it.
        """
        with self._lock:
            self._copiers[device] = weakref.WeakMethod(copier)
            return (self._known.get(device) or self._create(api, device)).info

    def _create(self, api: CApi, device: Device) -> _Known:
        number, taken = len(self._known), {known.id for known in self._known.values()}
        if number == MOST:
            raise ProviderError(f"{device}: {MOST} devices are registered already: {', '.join(map(str, self._known))}")
        own = next(k for k in (device.id, *range(MOST)) if k not in taken)
        made = _Known(number, own, api.read("CreateMemoryInfo_V2", str(device).encode(), GPU, 0, own, 0, 0, 0))
        self._shim.new_device(number, made.info)
        self._known[device] = made
        return made

    def _device(self, place: int) -> Device:
        return next(device for device, known in self._known.items() if known.number == place - 1)

    def _put(self, array: Array, place: int) -> DeviceTensor:
        """Copy an array to a device outside of a session."""
        device = self._device(place)
        copier = self._copiers[device]()
        if copier is None:
            raise ProviderError(f"the library of the provider of {device} was unregistered")
        return put(array, copier(device))

    # Values

    def read(self, operand: Operand, provider: ExecutionProvider) -> DeviceTensor:
        """Return a tensor of onnxruntime as a value of the provider's device, copied if it is elsewhere or has another type there."""
        dtype = from_host(operand.code)
        if operand.place == _ELSEWHERE:
            raise ProviderError(f"a tensor for {provider.device} is in the memory of another library's device")
        if not operand.place or not operand.address:
            return put(_array(operand), provider)
        stored = self._find(operand)
        if _fits(stored, dtype, operand.shape) and stored.device == provider.device:
            return stored
        made = put(_reread(_bytes(stored), operand), provider)
        if self._device(operand.place) == provider.device:
            self._replace(operand, stored, made)
        return made

    def write(self, target: Operand, tensor: DeviceTensor) -> None:
        """Make a value that of a tensor of onnxruntime, copied if it is elsewhere."""
        if not target.place:
            _write_bytes(target, _bytes(tensor))
        elif target.address:
            there = tensor.device == self._device(target.place)
            self._store(target, tensor if there else self._put(fetch(tensor), target.place))

    def copy(self, numbers: Sequence[int]) -> None:
        """Copy tensors of onnxruntime, of which shim.c describes source and destination in turn."""
        operands = read_operands(numbers)
        for source, target in zip(operands[::2], operands[1::2], strict=True):
            if _ELSEWHERE in (source.place, target.place) or STRING in (source.code, target.code):
                raise ProviderError("strings, and memory of another library's device, are not copied to or from a device")
            if not source.nbytes:
                continue
            stored = self._find(source) if source.place else self._stage(source, target)
            if isinstance(stored, DeviceTensor):
                self.write(target, stored)
            elif target.place:
                self._store(target, stored)
            else:
                _write_bytes(target, stored)

    def _stage(self, source: Operand, target: Operand) -> "DeviceTensor | Array":
        """Return what is stored for a tensor of the host.

        Bytes alone stay on the host until a partition reads them: onnxruntime's Python interface copies a tensor of any type as
        bytes, and a device has values of a type and a shape.
        """
        array = _array(source)
        if source.code == _BYTES and len(source.shape) == 1:
            return array.copy()
        return self._put(array, target.place)

    def free(self, block: int) -> None:
        """Forget the values in a block of memory, which onnxruntime frees."""
        self._blocks.pop(block, None)

    def _find(self, operand: Operand) -> "DeviceTensor | Array":
        found = self._blocks.get(_block_of(operand.address), {}).get(operand.address)
        if found is None:
            device = self._device(operand.place)
            raise ProviderError(f"a tensor on {device} at {operand.address:#x} is read, where nothing was written")
        return found[0]

    def _store(self, target: Operand, value: "DeviceTensor | Array") -> None:
        """Store a value in place of those that its memory overlaps."""
        begin, nbytes = target.address, target.nbytes
        with self._lock:
            block = self._blocks.setdefault(_block_of(begin), {})
            for other in [at for at, (_, size) in block.items() if at < begin + nbytes and begin < at + size]:
                del block[other]
            block[begin] = value, nbytes

    def _replace(self, operand: Operand, stored: "DeviceTensor | Array", made: DeviceTensor) -> None:
        """Store a value in another form, unless its place has another value or none by now."""
        with self._lock:
            block = self._blocks.get(_block_of(operand.address), {})
            if operand.address in block and block[operand.address][0] is stored:
                block[operand.address] = made, block[operand.address][1]


def _block_of(address: int) -> int:
    power = address >> _SIZE_SHIFT & _SIZES
    return address >> power << power


def _fits(stored: "DeviceTensor | Array", dtype: str, shape: tuple[int, ...]) -> "TypeGuard[DeviceTensor]":
    return isinstance(stored, DeviceTensor) and stored.dtype == dtype and stored.shape == shape


def _array(operand: Operand) -> Array:
    """Return a tensor in the host's memory, or one without elements."""
    return array_at(operand.address, operand.code, operand.shape)


def _bytes(stored: "DeviceTensor | Array") -> Array:
    """Return the bytes of a value."""
    if isinstance(stored, DeviceTensor):
        return np.ascontiguousarray(fetch(stored)).reshape(-1).view(np.uint8)
    return stored


def _reread(data: Array, operand: Operand) -> Array:
    """Return these bytes as an array of the type and shape of a tensor."""
    if len(data) < operand.nbytes:
        raise ProviderError(f"a tensor of {operand.nbytes} bytes is read, where {len(data)} were written")
    return data[: operand.nbytes].view(to_numpy(from_host(operand.code))).reshape(operand.shape)


def _write_bytes(target: Operand, data: Array) -> None:
    if data.nbytes != target.nbytes:
        raise ProviderError(f"{data.nbytes} bytes of a device are copied into {target.nbytes} bytes of the host")
    ctypes.memmove(target.address, data.__array_interface__["data"][0], data.nbytes)
