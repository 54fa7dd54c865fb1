"""Object code -> addresses, with llvmlite alone. Code stays for the life of the process: threads may be in it."""

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from ort_lite.native import cache
from ort_lite.native.cpu import host
from ort_lite.native.spec import Spec, key_of

_lock = threading.RLock()
_addresses: dict[Spec, int] = {}
_by_key: dict[str, int] = {}
_engine: Any = None


def load(specs: Sequence[Spec]) -> list[int]:
    """Addresses of the native code of each spec, compiled now if the cache lacks it.

    A spec that was loaded before costs a dict lookup. Thread-safe. Raises KernelCompileError.
    """
    missing = [spec for spec in specs if spec not in _addresses]
    if missing:
        with _lock:
            _load(dict.fromkeys(spec for spec in missing if spec not in _addresses))
    return [_addresses[spec] for spec in specs]


def _load(specs: dict[Spec, None]) -> None:
    target = host()
    keys = {spec: key_of(spec, target) for spec in specs}
    wanted = {key: spec for spec, key in keys.items() if key not in _by_key}
    if wanted:
        folder = cache.directory()
        objects = {key: cache.read(folder, key) for key in wanted}
        absent = {key: wanted[key] for key, data in objects.items() if data is None}
        if absent:
            from ort_lite.native import workers

            objects.update(workers.compile_all(absent, target, folder))
        _link({key: data for key, data in objects.items() if data is not None})
    for spec, key in keys.items():
        _addresses[spec] = _by_key[key]


def symbol_of(key: str) -> str:
    """The one visible symbol of an object."""
    return "ort_lite_" + key


def _link(objects: dict[str, bytes]) -> None:
    import llvmlite.binding as llvm

    engine = _get_engine()
    for data in objects.values():
        engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    for key in objects:
        _by_key[key] = engine.get_function_address(symbol_of(key))


def _get_engine() -> Any:
    global _engine
    if _engine is None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
        _engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        # Never collected, not even while the interpreter shuts down.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_engine))
    return _engine
