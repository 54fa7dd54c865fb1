"""LLVM's instructions as text, faster than llvmlite writes them: what stands in for methods of its, with the same meaning."""

from collections.abc import Callable
from typing import Any

from llvmlite.ir import Block, Function, VectorType, VoidType, instructions


def _describe_function(self: Any, buffer: list[str]) -> None:
    """Function.descr with numbers for names, which LLVM would copy, extend and compare whenever it inlines."""
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
    """NamedValue._set_name of what has a number: no name has to be the only one."""
    self._name = name


def _describe_block(self: Any, buffer: list[str]) -> None:
    """Block.descr. Nearly all instructions are of _WRITERS; llvmlite would format each of them three times."""
    buffer.append(f"{self.get_reference()[1:]}:\n")
    for item in self.instructions:
        write = None if item.metadata else _WRITERS.get(type(item))
        buffer.append(f"  {item}\n" if write is None else write(item))


def _store(item: Any) -> str:
    value, slot = item.operands
    return f"  store {_typed(value)}, {_typed(slot)}{_align(item)}\n"


def _load(item: Any) -> str:
    return f"  {item.get_reference()} = load {item.type}, {_typed(item.operands[0])}{_align(item)}\n"


def _element(item: Any) -> str:
    bounds = " inbounds" if item.inbounds else ""
    indices = ", ".join(map(_typed, item.indices))
    return f"  {item.get_reference()} = getelementptr{bounds} {item.source_etype}, {_typed(item.pointer)}, {indices}\n"


def _phi(item: Any) -> str:
    incoming = ", ".join([f"[{value.get_reference()}, {block.get_reference()}]" for value, block in item.incomings])
    return f"  {item.get_reference()} = phi {' '.join(item.flags)} {item.type} {incoming}\n"


def _operation(item: Any) -> str:
    operands = ", ".join([value.get_reference() for value in item.operands])
    return f"  {item.get_reference()} = {' '.join([item.opname, *item.flags])} {item.type} {operands}\n"


def _comparison(item: Any) -> str:
    first, second = item.operands
    flags = " ".join([item.opname, *item.flags])
    return f"  {item.get_reference()} = {flags} {item.op} {_typed(first)}, {second.get_reference()}\n"


def _cast(item: Any) -> str:
    return f"  {item.get_reference()} = {item.opname} {_typed(item.operands[0])} to {item.type}\n"


def _select(item: Any) -> str:
    operands = ", ".join(map(_typed, item.operands))
    return f"  {item.get_reference()} = {' '.join(['select', *item.flags])} {operands}\n"


def _branch(item: Any) -> str:
    return f"  br {', '.join(map(_typed, item.operands))}\n"


def _typed(value: Any) -> str:
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
    """VectorType.format_constant: a constant that fills all lanes is written once."""
    first = value[0]
    if all(item is first for item in value):
        return f"<{', '.join([_typed(first)] * len(value))}>"
    return f"<{', '.join(map(_typed, value))}>"


STAND_INS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (Block, "descr", _describe_block),
    (Function, "descr", _describe_function),
    (Block, "_set_name", _keep_name),
    (instructions.Instruction, "_set_name", _keep_name),
    (VectorType, "format_constant", _format_vector),
)
"""(class, method, what stands in for it)."""
