"""Numba's front end as kernels need it: without what is for arrays, closures, exceptions and messages. Imported by compiler.py.

The LLVM IR of a kernel stays the same but for loads that nobody reads, in half the time: fewer passes run, the life of variables is
worked out once a function instead of after every pass, and calls of the same function with the same types are resolved once.
Where this fails, `compiler.py` starts again with all of Numba: it may know what was left out here, and has the better message.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

from llvmlite.ir import Block, Constant, Function, VoidType, instructions
from numba.core import base, errors, ir, lowering, postproc, ssa, transforms, typeinfer, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.typed_passes import IRLegalization, NativeLowering, NoPythonBackend, NopythonTypeInference, PreLowerStripPhis
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    RewriteSemanticConstants,
    TranslateByteCode,
)


@register_pass(mutates_CFG=True, analysis_only=False)
class StaticArguments(FunctionPass):  # type: ignore[misc]
    """Arguments of a literal type and omitted ones are constants: numba then decides branches on them."""

    _name = "ort_lite_static_arguments"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.Assign):
                if isinstance(statement.value, ir.Arg):
                    kind = state.args[statement.value.index]
                    if isinstance(kind, types.Omitted):
                        statement.value = ir.Const(kind.value, statement.loc)
                    elif isinstance(kind, types.Literal):
                        statement.value = ir.Const(kind.literal_value, statement.loc)
        return True


class _Lower(lowering.Lower):  # type: ignore[misc]
    """Values of kernels are not counted: what a variable holds is not loaded before it is stored to or goes."""

    def storevar(self, value: Any, name: str, argidx: Any = None) -> None:
        self._alloca_var(name, self.typeof(name))
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        if name in self._blk_local_varmap:
            return
        self._singly_assigned_vars.discard(name)
        self._alloca_var(name, self.typeof(name))
        slot = self.getvar(name)
        self.builder.store(Constant(slot.type.pointee, None), slot)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):  # type: ignore[misc]
    _name = "ort_lite_lowering"

    @property
    def lowering_class(self) -> Any:
        return _Lower


class _Manager(PassManager):  # type: ignore[misc]
    """Runs passes, and nothing around them: no events, no times, no checks of what earlier passes left.

    Passes that change blocks bring them into numba's form themselves, but for one.
    """

    def _runPass(self, index: int, pass_instance: Any, state: Any) -> None:
        pass_instance.analysis = self._analysis
        pass_instance.run_initialization(state)
        pass_instance.run_pass(state)
        pass_instance.run_finalizer(state)
        if isinstance(pass_instance, DeadBranchPrune):
            state.func_ir.blocks = transforms.canonicalize_cfg(state.func_ir.blocks)


_PASSES = (
    TranslateByteCode,
    FixupArgs,
    StaticArguments,
    IRProcessing,
    RewriteSemanticConstants,
    DeadBranchPrune,
    GenericRewrites,
    ReconstructSSA,
    DeadBranchPrune,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    _Lowering,
    NoPythonBackend,
)


class FullPipeline(CompilerBase):  # type: ignore[misc]
    """All of Numba's passes."""

    def define_pipelines(self) -> list[Any]:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.add_pass_after(StaticArguments, FixupArgs)
        manager.finalize()
        return [manager]


class LeanPipeline(CompilerBase):  # type: ignore[misc]
    """Those of _PASSES, within `shortcuts`."""

    def define_pipelines(self) -> list[Any]:
        manager = _Manager("ort_lite")
        for item in _PASSES:
            manager.add_pass(item, item._name)
        manager.finalize()
        return [manager]


# --- What stands in for functions of numba, with the same results
def _post_process(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """PostProcessor.run without what generators and object mode ask for."""
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)
    self.func_ir.generator_info = None
    if self.func_ir.is_generator:
        raise errors.UnsupportedError("a generator")
    if emit_dels:
        self._insert_var_dels(extend_lifetimes=extend_lifetimes)


_NOTHING, _VARIABLE, _SEQUENCE, _MAPPING, _EXPRESSION, _INSTRUCTION = range(6)
_CLASSES = (
    (ir.Var, _VARIABLE),
    (ir.Expr, _EXPRESSION),
    (ir.Inst, _INSTRUCTION),
    ((list, tuple), _SEQUENCE),
    (dict, _MAPPING),
)


def _find_class(kind: Any) -> int:
    return next((number for base_class, number in _CLASSES if issubclass(kind, base_class)), _NOTHING)


_class_of: Callable[[Any], int] = cache(_find_class)


def _list_vars(self: Any, value: Any) -> list[Any]:
    """Inst._rec_list_vars, which asks `isinstance` of every field of every instruction, five times."""
    found: list[Any] = []
    _collect(value, found)
    return found


def _collect(value: Any, found: list[Any]) -> None:
    number = _class_of(type(value))
    if number == _VARIABLE:
        found.append(value)
    elif number == _INSTRUCTION:
        found.extend(value.list_vars())
    elif number != _NOTHING:
        if number == _EXPRESSION:
            value = value._kws
        for item in value if number == _SEQUENCE else value.values():
            kind = _class_of(type(item))
            if kind == _VARIABLE:
                found.append(item)
            elif kind != _NOTHING:
                _collect(item, found)


def _propagate(self: Any, inferer: Any) -> list[Exception]:
    """ConstraintNetwork.propagate, which besides catches warnings of every constraint, and gives every error a place."""
    failed: list[Exception] = []
    for constraint in self.constraints:
        try:
            constraint(inferer)
        except errors.NumbaError as error:
            failed.append(error)
    return failed


def _visit_block(states: Any, block: Any, handler: Any) -> Iterator[Any]:
    """ssa._run_ssa_block_pass without its log."""
    for statement in block.body:
        yield handler.on_assign(states, statement) if isinstance(statement, ir.Assign) else handler.on_other(states, statement)


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
    """Block.descr. Two of three instructions are of _WRITERS; llvmlite would format each of them three times."""
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


def _typed(value: Any) -> str:
    return f"{value.type} {value.get_reference()}"


def _align(item: Any) -> str:
    return "" if item.align is None else f", align {item.align}"


_WRITERS = {
    instructions.StoreInstr: _store,
    instructions.LoadInstr: _load,
    instructions.GEPInstr: _element,
    instructions.PhiInstr: _phi,
    instructions.Instruction: _operation,
}

_NO_CONTEXT = nullcontext()


def _error_context(text: str, *args: Any, **kwargs: Any) -> AbstractContextManager[None]:
    return _NO_CONTEXT


_has_loc = cache(base._has_loc)

_SHORTCUTS = (
    (postproc.PostProcessor, "run", _post_process),
    (ir.Inst, "_rec_list_vars", _list_vars),
    (typeinfer.ConstraintNetwork, "propagate", _propagate),
    (ssa, "_run_ssa_block_pass", _visit_block),
    (typeinfer, "new_error_context", _error_context),
    (lowering, "new_error_context", _error_context),
    (base, "_has_loc", _has_loc),
    (type(types.Type), "__instancecheck__", type.__instancecheck__),  # of an ABCMeta whose classes nobody registers
    (Block, "descr", _describe_block),
    (Function, "descr", _describe_function),
    (Block, "_set_name", _keep_name),
    (instructions.Instruction, "_set_name", _keep_name),
)


@contextmanager
def shortcuts() -> Iterator[None]:
    """Within it, numba has those of _SHORTCUTS. For holders of its global lock: every compilation of this process waits for it."""
    saved = [(owner, name, getattr(owner, name)) for owner, name, _ in _SHORTCUTS]
    try:
        for owner, name, function in _SHORTCUTS:
            setattr(owner, name, function)
        yield
    finally:
        for owner, name, function in saved:
            setattr(owner, name, function)
