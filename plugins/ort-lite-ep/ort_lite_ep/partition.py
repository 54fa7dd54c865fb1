"""A compiled partition as a kernel of onnxruntime: its inputs become arrays, its results are copied into onnxruntime's outputs."""

import struct
from collections.abc import Sequence
from ctypes import byref, c_void_p
from functools import cache
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.execute.execute import Executable
from ort_lite.graph import TensorType, Value
from ort_lite_ep.c_api import CApi
from ort_lite_ep.shim import Shim
from ort_lite_ep.tensors import DTYPES, STRING, array_at, contents, read_strings, to_host, unpacked, write_strings

_HEAD = 4  # the numbers before the dimensions of an input, see `describe` in shim.c


@cache
def _packer(rank: int) -> struct.Struct:
    return struct.Struct(f"{rank}q")


class HostedPartition:
    """What onnxruntime calls for one fused node.

    Args:
        api: the functions of onnxruntime.
        executable: the partition, compiled.
        inputs: the names of the fused node's inputs, in the order in which a run passes them.
        outputs: the names of its outputs.
    """

    def __init__(self, api: CApi, shim: Shim, executable: Executable, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._api, self._shim, self._run = api, shim, executable.run
        position = {name: k for k, name in enumerate(inputs)}
        self._picks = [position[value.name] for value in executable.inputs]
        results = {value.name: k for k, value in enumerate(executable.outputs)}
        self._results = [(results[name], _dtype_of(executable.outputs[results[name]])) for name in outputs]

    def compute(self, context: int, numbers: Sequence[int]) -> None:
        """Run the partition on the inputs that `numbers` describe (see `describe` in shim.c)."""
        given, at = [], 0
        while at < len(numbers):
            value, address, code, rank = numbers[at : at + _HEAD]
            at += _HEAD + rank
            given.append(self._array(value, address, code, tuple(numbers[at - rank : at])))
        found = self._run([given[k] for k in self._picks])
        for k, (result, (dtype, code)) in enumerate(self._results):
            self._write(context, k, found[result], dtype, code)

    def _array(self, value: int, address: int, code: int, shape: tuple[int, ...]) -> Array | None:
        if not code:
            return None  # an optional that is empty
        if DTYPES[code] is not None:
            return array_at(address, code, shape)
        return read_strings(self._api, value, shape) if code == STRING else unpacked(address, code, shape)

    def _write(self, context: int, index: int, result: Any, dtype: "np.dtype[Any]", code: int) -> None:
        array: Array = np.asarray(result)
        if array.dtype != dtype and code != STRING:
            raise InvalidArgument(f"output {index} is {array.dtype}; expected {dtype}")
        shape = _packer(array.ndim).pack(*array.shape)
        target = c_void_p()
        if code == STRING:
            self._api.check(self._shim.output(context, index, shape, array.ndim, None, 0, byref(target)))
            if target.value:
                write_strings(self._api, target.value, array)
            return
        filled = contents(array, code)
        address = filled.__array_interface__["data"][0]
        self._api.check(self._shim.output(context, index, shape, array.ndim, address, filled.nbytes, byref(target)))


def _dtype_of(value: Value) -> "tuple[np.dtype[Any], int]":
    assert isinstance(value.type, TensorType), "nodes with other results are not offered"
    return to_numpy(value.type.dtype), to_host(value.type.dtype)
