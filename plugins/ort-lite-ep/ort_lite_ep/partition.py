"""A compiled partition as a kernel of onnxruntime: its inputs become arrays, its results are copied into onnxruntime's outputs."""

from collections.abc import Sequence
from ctypes import byref, c_void_p
from struct import unpack
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.execute.execute import Executable
from ort_lite.graph import TensorType, Value
from ort_lite_ep.c_api import CApi
from ort_lite_ep.shim import Shim
from ort_lite_ep.tensors import DTYPES, STRING, array_at, contents, read_strings, to_host, unpack_array, write_strings

_HEAD = 4  # the numbers before the dimensions of an input, see `describe` in shim.c
_MOST_VIEWS = 16


class HostedPartition:
    """The function of one fused node, which onnxruntime calls.

    Args:
        api: the functions of onnxruntime.
        executable: the partition, compiled.
        inputs: the names of the fused node's inputs, in the order in which a run passes them.
        outputs: the names of its outputs.
    """

    def __init__(self, api: CApi, shim: Shim, executable: Executable, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._api, self._output, self._run = api, shim.output, executable.run
        position = {name: k for k, name in enumerate(inputs)}
        self._picks = [position[value.name] for value in executable.inputs]
        results = {value.name: k for k, value in enumerate(executable.outputs)}
        self._results = [(results[name], *_types_of(executable.outputs[results[name]])) for name in outputs]
        self._views: dict[bytes, list[Array]] = {}
        """Arrays over the memory that recent runs passed, which onnxruntime tends to use again for the same tensors."""

    def compute(self, context: int, described: bytes) -> None:
        """Run the partition on inputs that `describe` in shim.c described."""
        given = self._views.get(described) or self._read(described)
        found = self._run([*given])
        for k, (result, plain, dtype, code) in enumerate(self._results):
            array = found[result]
            if type(array) is np.ndarray and array.dtype is plain and array.flags.c_contiguous:
                status = self._output(context, k, id(array), id(array), array.nbytes, None)
                if status:
                    self._api.check(status)
            else:
                self._write(context, k, array, dtype, code)

    def _read(self, described: bytes) -> list[Any]:
        """Return arrays for the inputs, and keep them if they are views."""
        numbers = unpack(f"{len(described) // 8}q", described)
        given, at, views = list[Any](), 0, True
        while at < len(numbers):
            value, address, code, rank = numbers[at : at + _HEAD]
            begin, at = at + _HEAD, at + _HEAD + rank
            if code and DTYPES[code] is not None:
                given.append(array_at(address, code, numbers[begin:at]))
            else:
                views = False
                given.append(self._copy_input(value, address, code, numbers[begin:at]))
        picked = [given[k] for k in self._picks]
        if views:
            if len(self._views) >= _MOST_VIEWS:
                self._views = {}
            self._views[described] = picked
        return picked

    def _copy_input(self, value: int, address: int, code: int, shape: tuple[int, ...]) -> Array | None:
        if not code:
            return None  # an optional that is empty
        return read_strings(self._api, value, shape) if code == STRING else unpack_array(address, code, shape)

    def _write(self, context: int, index: int, result: Any, dtype: "np.dtype[Any]", code: int) -> None:
        array: Array = np.asarray(result)
        if code == STRING:
            target = c_void_p()
            self._api.check(self._output(context, index, id(array), None, 0, byref(target)))
            if target.value:
                write_strings(self._api, target.value, array)
            return
        if array.dtype != dtype:
            raise InvalidArgument(f"output {index} is {array.dtype}; expected {dtype}")
        filled = contents(array, code)
        self._api.check(self._output(context, index, id(array), id(filled), filled.nbytes, None))


def _types_of(value: Value) -> "tuple[np.dtype[Any] | None, np.dtype[Any], int]":
    """Return the type of results that are copied as they are, or None if there is none; the type of results; ONNX's code of it."""
    assert isinstance(value.type, TensorType), "nodes with other results are not offered"
    dtype, code = to_numpy(value.type.dtype), to_host(value.type.dtype)
    return (None if DTYPES[code] is None else dtype), dtype, code
