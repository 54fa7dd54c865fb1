"""The LLVM text that numba writes: a library per function, and one module with all that a kernel uses.

Numba would parse the text of every function, optimise it, and link it into each caller. Here, nothing is optimised until all parts
of a kernel are together.
"""

from collections.abc import Collection
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, codegen


class FunctionLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """A function that numba has lowered, and the libraries of the functions that it calls."""

    def __init__(self, code: Any, name: str) -> None:
        codegen.CodeLibrary.__init__(self, code, name)
        self._linked: list[FunctionLibrary] = []
        self.modules: list[ir.Module] = []

    def add_linking_library(self, library: "FunctionLibrary") -> None:
        """Link another library into this one."""
        self._linked.append(library)

    def add_ir_module(self, ir_module: ir.Module) -> None:
        """Add a module of LLVM IR."""
        self.modules.append(ir_module)

    def finalize(self) -> None:
        """Accept no more modules."""
        self._finalized = True

    def reachable(self) -> list["FunctionLibrary"]:
        """Return this library and all that it uses, each once: a caller comes before what it calls."""
        found: dict[FunctionLibrary, None] = {}
        self._add_to(found)
        return list(found)

    def _add_to(self, found: dict["FunctionLibrary", None]) -> None:
        found[self] = None
        for library in self._linked:
            if library not in found:
                library._add_to(found)


class Codegen(codegen.JITCPUCodegen):  # type: ignore[misc]
    """Numba's code generator, for unoptimised libraries and for any triple."""

    _library_class = FunctionLibrary
    triple = ""

    def _create_empty_module(self, name: str) -> ir.Module:
        module = super()._create_empty_module(name)
        module.triple = self.triple or module.triple
        return module


def join(library: FunctionLibrary, outlined: Collection[str], entry: str, symbol: str, triple: str, layout: str) -> str:
    """Link all that a function uses into one module and return its text, in which only `entry` is visible.

    Functions are inlined, except those of `outlined`. These are renamed after `symbol`, since numba numbers functions from the
    start of the process.
    """
    context = llvm.create_context()
    module = llvm.parse_assembly(f'target triple = "{triple}"\ntarget datalayout = "{layout}"\n', context)
    defined: dict[str, None] = {}
    for written in (each for used in library.reachable() for each in used.modules):
        part = llvm.parse_assembly(cgutils.normalize_ir_text(str(written)), context)
        part.triple, part.data_layout = triple, layout
        for item in (item for item in part.functions if not item.is_declaration):
            defined[item.name] = None
            if item.linkage == llvm.Linkage.external:
                item.linkage = "weak_odr"  # keeps one of two equal definitions
        module.link_in(part)
    _hide(module, outlined)
    for number, name in enumerate(name for name in defined if name in outlined):
        module.get_function(name).name = f"{symbol}.{number}"
        entry = entry.replace(f'"{name}"', f'"{symbol}.{number}"')
    return f"{module}\n{entry}"


def _hide(module: Any, outlined: Collection[str]) -> None:
    for item in module.functions:
        if not item.is_declaration:
            item.linkage = "internal"
            item.add_function_attribute("noinline" if item.name in outlined else "alwaysinline")
    for item in module.global_variables:
        if not item.is_declaration or item.name.startswith("_ZN08NumbaEnv"):
            item.linkage = "internal"
