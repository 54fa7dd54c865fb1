"""Compilation of a spec to relocatable object code. It needs numba, so a warm process never imports this module.

Numba types and lowers each function. Everything below LLVM IR happens here: helpers are linked unoptimised, all symbols except the
entry become internal, and one pass pipeline for the target runs over the whole module.
"""

from functools import cache
from typing import TYPE_CHECKING

from numba.core.compiler_lock import global_compiler_lock

from ort_lite import log
from ort_lite.errors import KernelCompileError
from ort_lite.native.compilers import llvm, unknown_release
from ort_lite.native.cpu import Target
from ort_lite.native.spec import Spec, target_of
from ort_lite.native.translator import Translator
from ort_lite.record import Record

if TYPE_CHECKING:
    from ort_lite.native.llvm import Module


class Written(Record):
    """A spec as unoptimised LLVM text, with the target to compile it for."""

    name: str
    text: str
    target: Target

    def module(self) -> "Module":
        """Return the optimised module, which the caller closes. Raises KernelCompileError."""
        try:
            module: Module = llvm().Module(self.text, self.target.triple, self.target.tuning, self.target.features)
        except RuntimeError as error:
            raise KernelCompileError(f"kernel {self.name}: {error}") from error
        module.optimise()
        return module

    def emit_object(self) -> bytes:
        """Return a relocatable object that defines the symbol. Raises KernelCompileError."""
        with self.module() as module:
            return module.emit_object()


def write(spec: Spec, target: Target, symbol: str) -> Written:
    """Run Numba's part of the compilation, on one thread at a time. Raises KernelCompileError.

    Uses only the parts of the target that the spec's key depends on.
    """
    target = target_of(spec, target)
    with global_compiler_lock:
        short = None
        if not unknown_release():
            try:
                return Written(spec.name, _lean(target).text(spec, symbol), target)
            except Exception as error:  # noqa: BLE001  all of numba may compile it, or has a better error
                short = error
        try:
            text = _plain(target).text(spec, symbol)
        except Exception as error:  # any error of numba or an emitter is about this kernel
            source = f"\n{spec.source[1]}" if spec.source else ""
            raise KernelCompileError(f"kernel {spec.name}: {type(error).__name__}: {error}{source}") from error
    if short is not None:
        log.warn(
            -1, f"kernel {spec.name}: compiled with all of Numba, since a part of it fails: {type(short).__name__}: {short}"
        )
    return Written(spec.name, text, target)


@cache
def _lean(target: Target) -> Translator:
    from ort_lite.native.frontend import LeanTranslator

    return LeanTranslator(target)


@cache
def _plain(target: Target) -> Translator:
    return Translator(target)


def compile_object(spec: Spec, target: Target, symbol: str) -> bytes:
    """Return a relocatable object that defines `symbol`. Raises KernelCompileError."""
    return write(spec, target, symbol).emit_object()
