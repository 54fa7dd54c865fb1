"""Faster writing of LLVM text: replacements for llvmlite's methods, and a kernel's modules joined as text.

Each module is written once and only parsed when all parts of a kernel are together. LLVM then has each kernel once, in a context of
its own.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import count
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_process_triple
from llvmlite.ir import Block, Function, VectorType, VoidType, instructions
from numba.core import cgutils

from ort_lite.native.libraries import Codegen, FunctionLibrary
from ort_lite.record import Record


def _describe_function(self: Any, buffer: list[str]) -> None:
    """Replace Function.descr, with numbers for names: LLVM would copy, extend and compare names whenever it inlines."""
    count = 0
    for value in (*self.args, *(value for block in self.blocks for value in (block, *block.instructions))):
        if not isinstance(value.type, VoidType):
            value._StringReferenceCaching__cached_refstr = f"%{count}"
            count += 1
    self.descr_prototype(buffer)
    if self.blocks:
        buffer.append("{\n")
        self.descr_body(buffer)
        buffer.append("}\n")


def _keep_name(self: Any, name: str) -> None:
    """Replace NamedValue._set_name for values with numbers, whose names need not be unique."""
    self._name = name


def _describe_block(self: Any, buffer: list[str]) -> None:
    """Replace Block.descr. Nearly all instructions are in _WRITERS; llvmlite would format each of them three times."""
    buffer.append(f"{self.get_reference()[1:]}:\n")
    for item in self.instructions:
        write = None if item.metadata else _WRITERS.get(type(item))
        buffer.append(f"  {item}\n" if write is None else write(item))


def _store(item: Any) -> str:
    value, slot = item.operands
    return f"  store {_with_type(value)}, {_with_type(slot)}{_align(item)}\n"


def _load(item: Any) -> str:
    return f"  {item.get_reference()} = load {item.type}, {_with_type(item.operands[0])}{_align(item)}\n"


def _element(item: Any) -> str:
    bounds = " inbounds" if item.inbounds else ""
    indices = ", ".join(map(_with_type, item.indices))
    return f"  {item.get_reference()} = getelementptr{bounds} {item.source_etype}, {_with_type(item.pointer)}, {indices}\n"


def _phi(item: Any) -> str:
    incoming = ", ".join([f"[{value.get_reference()}, {block.get_reference()}]" for value, block in item.incomings])
    return f"  {item.get_reference()} = phi {' '.join(item.flags)} {item.type} {incoming}\n"


def _operation(item: Any) -> str:
    operands = ", ".join([value.get_reference() for value in item.operands])
    return f"  {item.get_reference()} = {' '.join([item.opname, *item.flags])} {item.type} {operands}\n"


def _comparison(item: Any) -> str:
    first, second = item.operands
    flags = " ".join([item.opname, *item.flags])
    return f"  {item.get_reference()} = {flags} {item.op} {_with_type(first)}, {second.get_reference()}\n"


def _cast(item: Any) -> str:
    return f"  {item.get_reference()} = {item.opname} {_with_type(item.operands[0])} to {item.type}\n"


def _select(item: Any) -> str:
    operands = ", ".join(map(_with_type, item.operands))
    return f"  {item.get_reference()} = {' '.join(['select', *item.flags])} {operands}\n"


def _branch(item: Any) -> str:
    return f"  br {', '.join(map(_with_type, item.operands))}\n"


def _with_type(value: Any) -> str:
    return f"{value.type} {value.get_reference()}"


def _align(item: Any) -> str:
    return "" if item.align is None else f", align {item.align}"


_WRITERS: dict[type, Callable[[Any], str]] = {
    instructions.StoreInstr: _store,
    instructions.LoadInstr: _load,
    instructions.GEPInstr: _element,
    instructions.PhiInstr: _phi,
    instructions.Instruction: _operation,
    instructions.ICMPInstr: _comparison,
    instructions.FCMPInstr: _comparison,
    instructions.CastInstr: _cast,
    instructions.SelectInstr: _select,
    instructions.Branch: _branch,
    instructions.ConditionalBranch: _branch,
}


def _format_vector(self: Any, value: Any) -> str:
    """Replace VectorType.format_constant: a constant that fills all lanes is formatted once."""
    first = value[0]
    if all(item is first for item in value):
        return f"<{', '.join([_with_type(first)] * len(value))}>"
    return f"<{', '.join(map(_with_type, value))}>"


STAND_INS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (Block, "descr", _describe_block),
    (Function, "descr", _describe_function),
    (Block, "_set_name", _keep_name),
    (instructions.Instruction, "_set_name", _keep_name),
    (VectorType, "format_constant", _format_vector),
)
"""The replacements: (class, method, function)."""


class Text(Record):
    """A module's definitions and declarations by name, and its metadata."""

    defined: dict[str, str]
    declared: dict[str, str]
    metadata: tuple[str, ...]


class TextLibrary(FunctionLibrary):
    """A library whose modules are written once, however many kernels use it."""

    def __init__(self, code: Any, name: str) -> None:
        super().__init__(code, name)
        self._texts: list[Text] = []

    def texts(self, outlined: Collection[str]) -> Iterable[Text]:
        """Return the texts of its modules. Functions are inlined, except those in `outlined`."""
        while self.modules:
            self._texts.append(_write(self.modules.pop(0), outlined))
        return self._texts


def _write(module: ir.Module, outlined: Collection[str]) -> Text:
    """Write a module in which all definitions are internal."""
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


def join(library: TextLibrary, outlined: Collection[str], entry: str, symbol: str, triple: str, layout: str) -> str:
    """Return the text that `libraries.join` links, each name once. Raises ValueError for a name with two definitions."""
    defined: dict[str, str] = {}
    declared: dict[str, str] = {}
    metadata: list[str] = []
    for text in (text for used in library.reachable() for text in used.texts(outlined)):
        for name, body in text.defined.items():
            if defined.setdefault(name, body) != body:
                raise ValueError(f"{name} is defined twice, and not the same")
        declared.update(text.declared)
        metadata += text.metadata
    missing = (body for name, body in declared.items() if name not in defined)
    head = f'target triple = "{triple}"\ntarget datalayout = "{layout}"\n'
    joined = "\n".join((head, *defined.values(), *missing, entry, *metadata))
    for number, name in enumerate(
        name for name in defined if name in outlined
    ):  # numba numbers functions from the start of the process
        joined = joined.replace(f'"{name}"', f'"{symbol}.{number}"')
    return joined


class _Module(ir.Module):  # type: ignore[misc]
    """A module whose metadata numbers are unique within the code generator."""

    def __init__(self, name: str, numbers: Any) -> None:
        super().__init__(name)
        self._numbers = numbers

    def add_metadata(self, operands: Any) -> Any:
        known = len(self.metadata)
        value = super().add_metadata(operands)
        if len(self.metadata) > known and self.metadata[-1] is value:
            value._name = str(next(self._numbers))
        return value


class TextCodegen(Codegen):
    """The code generator for libraries of text."""

    _library_class = TextLibrary

    def __init__(self, name: str) -> None:
        self._numbers = count()
        super().__init__(name)

    def _create_empty_module(self, name: str) -> ir.Module:
        module = _Module(cgutils.normalize_ir_text(name), self._numbers)
        module.triple = self.triple or get_process_triple()
        module.data_layout = self._data_layout or ""
        return module
