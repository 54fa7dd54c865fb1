"""Declarations of the few calls of llvmlite's library that load object code or compile it from text.

Importing `llvmlite.binding` for them takes 40 ms, four times as long as all the calls: it declares the whole library and loads
`llvmlite.ir`, `importlib.resources` and `zipfile`. The declarations hold for the releases in `compilers.VERIFIED`, for which a test
compares them with llvmlite's own; for others, `binding.py` replaces this module. A process may use both: functions are declared on
separate handles, without the lock that llvmlite holds during every call.
"""

import ctypes
import os
from collections.abc import Iterable
from ctypes import c_bool, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from functools import cache
from typing import Any

_TEXT = ctypes.POINTER(c_char_p)  # where a function stores a string

# name -> (result, parameters)
SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "buildPerModuleDefaultPipeline": (c_void_p, (c_void_p, c_int)),
    "ContextCreate": (c_void_p, ()),
    "ContextDispose": (None, (c_void_p,)),
    "CreateMCJITCompiler": (c_void_p, (c_void_p, c_void_p, c_bool, _TEXT)),
    "CreateObjectFile": (c_void_p, (c_char_p, c_size_t)),
    "CreatePassBuilder": (c_void_p, (c_void_p, c_void_p)),
    "CreatePipelineTuningOptions": (c_void_p, ()),
    "CreateTargetMachine": (
        c_void_p,
        (c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_char_p, c_char_p, c_int, c_int, c_char_p),
    ),
    "DisposeMemoryBuffer": (None, (c_void_p,)),
    "DisposeModule": (None, (c_void_p,)),
    "DisposeNewModulePassManger": (None, (c_void_p,)),
    "DisposePassBuilder": (None, (c_void_p,)),
    "DisposePipelineTuningOptions": (None, (c_void_p,)),
    "DisposeString": (None, (c_char_p,)),
    "DisposeTargetMachine": (None, (c_void_p,)),
    "FinalizeObject": (None, (c_void_p,)),
    "GetBufferSize": (c_size_t, (c_void_p,)),
    "GetBufferStart": (c_void_p, (c_void_p,)),
    "GetFunctionAddress": (c_uint64, (c_void_p, c_char_p)),
    "GetHostCPUFeatures": (c_int, (_TEXT,)),
    "GetHostCPUName": (None, (_TEXT,)),
    "GetProcessTriple": (None, (_TEXT,)),
    "GetTargetFromTriple": (c_void_p, (c_char_p, _TEXT)),
    "InitializeNativeAsmPrinter": (None, ()),
    "InitializeNativeTarget": (None, ()),
    "LoadLibraryPermanently": (c_bool, (c_char_p, _TEXT)),
    "MCJITAddObjectFile": (None, (c_void_p, c_void_p)),
    "ParseAssembly": (c_void_p, (c_void_p, c_char_p, _TEXT)),
    "PrintModuleToString": (None, (c_void_p, _TEXT)),
    "RunNewModulePassManager": (None, (c_void_p, c_void_p, c_void_p)),
    "SearchAddressOfSymbol": (c_void_p, (c_char_p,)),
    "TargetMachineEmitToMemory": (c_void_p, (c_void_p, c_void_p, c_int, _TEXT)),
    "VerifyModule": (c_bool, (c_void_p, _TEXT)),
}


@cache
def _library() -> ctypes.CDLL:
    import llvmlite
    from llvmlite.utils import get_library_name

    return ctypes.CDLL(os.path.join(os.path.dirname(llvmlite.__file__), "binding", get_library_name()))


@cache
def _function(name: str) -> Any:
    found = getattr(_library(), f"LLVMPY_{name}")
    found.restype, found.argtypes = SIGNATURES[name]
    return found


def _call(name: str, *arguments: Any) -> Any:
    return _function(name)(*arguments)


def _call_with_text(name: str, *arguments: Any) -> tuple[Any, str]:
    """Call a function whose last parameter points to a string that it returns. Return (result, string)."""
    text = c_char_p()
    result = _call(name, *arguments, ctypes.byref(text))
    if text.value is None:
        return result, ""
    copied = text.value.decode()
    _call("DisposeString", text)
    return result, copied


def process_triple() -> str:
    """Return the triple of the code that this process can run: "x86_64-unknown-linux-gnu"."""
    return _call_with_text("GetProcessTriple")[1]


def host_cpu_name() -> str:
    """Return LLVM's name of this machine's CPU: "znver5"."""
    return _call_with_text("GetHostCPUName")[1]


def host_cpu_features() -> str:
    """Return all features that LLVM knows for this kind of CPU, sorted by name: "+avx,-avx512f"."""
    return ",".join(sorted(_call_with_text("GetHostCPUFeatures")[1].split(","), key=lambda feature: feature[1:]))


class Module:
    """A module and its target machine, in a context of its own, so that threads can use LLVM concurrently. Needs `close`.

    Raises RuntimeError with LLVM's message if the text is not a module or uses a value before its definition.
    """

    def __init__(self, text: str, triple: str, cpu: str, features: str) -> None:
        target = _call_or_raise("GetTargetFromTriple", triple.encode())
        options = triple.encode(), cpu.encode(), features.encode(), 3, b"static", b"jitdefault", 0, 1, b""
        self._machine = _call("CreateTargetMachine", target, *options)
        self._context = _call("ContextCreate")
        self._module = None
        try:
            self._module = _call_or_raise("ParseAssembly", self._context, text.encode("latin-1"))
            _call_or_raise("VerifyModule", self._module, failed=True)
        except RuntimeError:
            self.close()
            raise

    def optimise(self) -> None:
        """Run LLVM's level 3 passes for the machine."""
        options = _call("CreatePipelineTuningOptions")
        builder = _call("CreatePassBuilder", self._machine, options)
        passes = _call("buildPerModuleDefaultPipeline", builder, 3)
        _call("RunNewModulePassManager", passes, self._module, builder)
        _call("DisposeNewModulePassManger", passes)
        _call("DisposePassBuilder", builder)
        _call("DisposePipelineTuningOptions", options)

    def emit_object(self) -> bytes:
        """Return relocatable machine code."""
        return self._emit(1)

    def emit_assembly(self) -> str:
        """Return the machine code as text."""
        return self._emit(0).decode()

    def _emit(self, as_object: int) -> bytes:
        buffer = _call_or_raise("TargetMachineEmitToMemory", self._machine, self._module, as_object)
        data = ctypes.string_at(_call("GetBufferStart", buffer), _call("GetBufferSize", buffer))
        _call("DisposeMemoryBuffer", buffer)
        return data

    def __str__(self) -> str:
        return _call_with_text("PrintModuleToString", self._module)[1]

    def close(self) -> None:
        """Free the module. May be called once."""
        if self._module is not None:
            _call("DisposeModule", self._module)
        _call("ContextDispose", self._context)
        _call("DisposeTargetMachine", self._machine)

    def __enter__(self) -> "Module":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Engine:
    """An owner of executable memory, which lives as long as the process. Its objects may call the C library's mathematics.

    Not thread-safe. It has an LLVM context of its own, so that other threads can use LLVM concurrently. Raises RuntimeError with
    LLVM's message.
    """

    def __init__(self) -> None:
        _call("InitializeNativeTarget")
        _call("InitializeNativeAsmPrinter")
        if not _call("SearchAddressOfSymbol", b"expf"):
            _call_or_raise("LoadLibraryPermanently", b"libm.so.6", failed=True)
        triple = process_triple().encode()
        target = _call_or_raise("GetTargetFromTriple", triple)
        machine = _call("CreateTargetMachine", target, triple, b"", b"", 2, b"default", b"jitdefault", 0, 1, b"")
        module = _call_or_raise("ParseAssembly", _call("ContextCreate"), b"")
        own_memory_manager = triple.startswith((b"aarch64", b"arm64"))  # LLVM's default places code too far apart there
        self._engine = _call_or_raise("CreateMCJITCompiler", module, machine, own_memory_manager)

    def add(self, objects: Iterable[bytes]) -> None:
        """Link object files, which gives their symbols addresses."""
        for data in objects:
            _call("MCJITAddObjectFile", self._engine, _call("CreateObjectFile", data, len(data)))
        _call("FinalizeObject", self._engine)

    def address(self, symbol: str) -> int:
        """Return the address of a function in an object that was added. An unknown name ends the process."""
        found: int = _call("GetFunctionAddress", self._engine, symbol.encode())
        return found


def _call_or_raise(name: str, *arguments: Any, failed: bool = False) -> Any:
    """Call a function that reports errors as text. `failed` is the truth value of its result on failure."""
    result, text = _call_with_text(name, *arguments)
    if bool(result) is failed:
        raise RuntimeError(f"LLVM: {text or name}")
    return result
