"""What numba writes for LLVM, as text: a library for each function, and one module of all that a kernel uses.

Numba would parse the text of every function, optimise it, and link it into whatever calls it. Here nothing is parsed before all of a
kernel is together: LLVM then has it once, in a context of its own.
"""

from collections.abc import Collection, Iterable
from itertools import count
from operator import attrgetter
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_process_triple
from numba.core import cgutils, codegen

from ort_lite.record import Record


class Text(Record):
    """A module's definitions and declarations by name, and its metadata."""

    defined: dict[str, str]
    declared: dict[str, str]
    metadata: tuple[str, ...]


class Library(codegen.JITCodeLibrary):  # type: ignore[misc]
    """A function that numba has lowered, and the libraries of those that it calls."""

    def __init__(self, code: Any, name: str) -> None:
        codegen.CodeLibrary.__init__(self, code, name)
        self._linked: list[Library] = []
        self._modules: list[ir.Module] = []
        self._texts: list[Text] = []

    def add_linking_library(self, library: "Library") -> None:
        self._linked.append(library)

    def add_ir_module(self, ir_module: ir.Module) -> None:
        self._modules.append(ir_module)

    def finalize(self) -> None:
        self._finalized = True

    def texts(self, outlined: Collection[str]) -> Iterable[Text]:
        """Of its modules; each is written once. Functions that are not `outlined` are to be inlined."""
        while self._modules:
            self._texts.append(_written(self._modules.pop(0), outlined))
        return self._texts

    def add_to(self, found: dict["Library", None]) -> None:
        """Adds this library and all that it uses, each once: a caller comes before what it calls."""
        found[self] = None
        for library in self._linked:
            if library not in found:
                library.add_to(found)


_library_of = attrgetter("library")


def texts(compiled: Any, outlined: Collection[str]) -> list[Text]:
    """Of numba's result for a function, and of all that the function uses."""
    found: dict[Library, None] = {}
    _library_of(compiled).add_to(found)
    return [text for each in found for text in each.texts(outlined)]


def _written(module: ir.Module, outlined: Collection[str]) -> Text:
    """Nothing that is defined can be seen from elsewhere."""
    defined: dict[str, str] = {}
    declared: dict[str, str] = {}
    for name, item in module.globals.items():
        here = bool(item.blocks) if isinstance(item, ir.Function) else item.initializer is not None
        if here:
            item.linkage = "internal"
            if isinstance(item, ir.Function):
                item.attributes.add("noinline" if name in outlined else "alwaysinline")
        (defined if here else declared)[name] = cgutils.normalize_ir_text(str(item))
    return Text(defined, declared, tuple(map(cgutils.normalize_ir_text, module._get_metadata_lines())))


def joined(head: str, texts: Iterable[Text], entry: str) -> str:
    """One module of all, each name once; `entry` is the text of the function that can be seen. Raises ValueError."""
    defined: dict[str, str] = {}
    declared: dict[str, str] = {}
    metadata: list[str] = []
    for text in texts:
        for name, body in text.defined.items():
            if defined.setdefault(name, body) != body:
                raise ValueError(f"{name} is defined twice, and not the same")
        declared.update(text.declared)
        metadata += text.metadata
    left = (body for name, body in declared.items() if name not in defined)
    return "\n".join((head, *defined.values(), *left, entry, *metadata))


class _Module(ir.Module):  # type: ignore[misc]
    """Its metadata have numbers that no other module of the same code generator has."""

    def __init__(self, name: str, numbers: Any) -> None:
        super().__init__(name)
        self._numbers = numbers

    def add_metadata(self, operands: Any) -> Any:
        known = len(self.metadata)
        value = super().add_metadata(operands)
        if len(self.metadata) > known and self.metadata[-1] is value:
            value._name = str(next(self._numbers))
        return value


class Codegen(codegen.JITCPUCodegen):  # type: ignore[misc]
    """Numba's, for libraries of text."""

    _library_class = Library
    triple = ""

    def __init__(self, name: str) -> None:
        self._numbers = count()
        super().__init__(name)

    def _create_empty_module(self, name: str) -> ir.Module:
        module = _Module(cgutils.normalize_ir_text(name), self._numbers)
        module.triple = self.triple or get_process_triple()
        module.data_layout = self._data_layout or ""
        return module
