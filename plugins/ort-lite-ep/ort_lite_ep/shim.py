"""The native library, which holds what onnxruntime calls: loading it, and the types of its functions."""

import ctypes
import os
import sys
from ctypes import CDLL, CFUNCTYPE, Structure, c_bool, c_char_p, c_int, c_int64, c_long, c_size_t, c_void_p
from typing import Any

import numpy as np

SUFFIX = {"nt": ".dll"}.get(os.name, ".so")
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"libort_lite_ep{SUFFIX}")

HOOKS: dict[str, Any] = {
    "create_factories": CFUNCTYPE(c_void_p, c_char_p, c_void_p, c_void_p, c_size_t, c_void_p),
    "supported_devices": CFUNCTYPE(c_void_p, c_int64, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p),
    "create_provider": CFUNCTYPE(c_void_p, c_int64, c_void_p, c_size_t, c_void_p, c_void_p),
    "capability": CFUNCTYPE(c_void_p, c_int64, c_void_p, c_void_p),
    "compile": CFUNCTYPE(c_void_p, c_int64, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p),
    "compute": CFUNCTYPE(c_void_p, c_int64, c_void_p, c_void_p, c_size_t),
    "run_start": CFUNCTYPE(c_void_p, c_int64, c_void_p),
    "run_end": CFUNCTYPE(c_void_p, c_int64, c_void_p, c_bool),
    "set_options": CFUNCTYPE(c_void_p, c_int64, c_void_p, c_void_p, c_size_t),
    "copy": CFUNCTYPE(c_void_p, c_void_p, c_size_t),
    "free_block": CFUNCTYPE(None, c_int64),
    "check_compatibility": CFUNCTYPE(c_void_p, c_int64, c_char_p, c_void_p),
    "end_creation": CFUNCTYPE(c_void_p, c_int64),
    "sync": CFUNCTYPE(c_void_p, c_int64),
    "start_profiling": CFUNCTYPE(c_void_p, c_int64, c_void_p, c_int64),
    "end_profiling": CFUNCTYPE(c_void_p, c_int64, c_void_p, c_void_p),
    "release": CFUNCTYPE(None, c_int, c_int64),
}
"""The types of the hooks, in the order of `struct hooks` in shim.c."""


class _Hooks(Structure):
    _fields_ = list(HOOKS.items())


class _ArrayFields(Structure):
    """The fields of a NumPy array behind the head of every object of Python: `struct array` in shim.c."""

    _fields_ = [("data", c_void_p), ("rank", c_int), ("dims", c_void_p)]


def _array_offset() -> int:
    """Return the offset of the fields in an array. Raises ImportError if they are not there."""
    probe, offset = np.zeros((3, 5)), object.__basicsize__
    found = _ArrayFields.from_address(id(probe) + offset)
    known = found.data == probe.ctypes.data and found.rank == 2
    if not known or (c_int64 * 2).from_address(found.dims)[:] != [3, 5]:
        raise ImportError(f"ort-lite-ep knows no such layout of arrays: NumPy {np.__version__}, Python {sys.version}")
    return offset


class Shim:
    """The library of one process. Loading it registers nothing."""

    def __init__(self, path: str = PATH) -> None:
        self._library = CDLL(path)
        self.new_factory = self._function("new_factory", c_void_p, c_int64, c_char_p, c_char_p, c_char_p, c_bool)
        self.new_device = self._function("new_device", None, c_size_t, c_void_p)
        self.new_provider = self._function("new_provider", c_void_p, c_int64, c_char_p, c_int)
        self.set_compiler = self._function("set_compiler", None, c_void_p, c_char_p)
        self.new_partition = self._function("new_partition", c_void_p, c_int64, c_bool)
        self.place_output = self._function("place_output", c_void_p, c_void_p, c_size_t, c_char_p, c_size_t, c_void_p)
        self.output = self._function("output", c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_size_t, c_void_p)
        self.close = self._function("close", c_long)
        self.forget_calls = self._function("forget_calls", None)
        self._hooks: _Hooks | None = None

    def open(self, hooks: dict[str, Any]) -> None:
        """Let the library call these hooks, by name. They live as long as the process."""
        self._hooks = _Hooks(**{name: type_(hooks[name]) for name, type_ in HOOKS.items()})
        self._function("open", None, c_void_p, c_size_t)(ctypes.addressof(self._hooks), _array_offset())

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(self._library, f"ort_lite_ep_{name}")
        function.restype, function.argtypes = result, arguments
        return function
