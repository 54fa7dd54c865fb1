"""Numba's front end as kernels need it: without what is for arrays, closures, exceptions and messages.

The LLVM IR of a kernel stays the same but for loads that nobody reads, in half the time: fewer passes run, the life of variables is
worked out once a function instead of after every pass, and calls of the same function with the same types are resolved once.
This file and `writing.py` replace private methods: `compiler.py` imports them for the releases of `compilers.VERIFIED` alone.
Where this fails, it starts again with all of Numba, which may know what was left out here, and has the better message.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from types import BuiltinFunctionType
from typing import Any

from llvmlite.ir import Constant
from numba.core import base, errors, ir, lowering, postproc, ssa, transforms, typeinfer, types
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import IRLegalization, NativeLowering, NoPythonBackend, NopythonTypeInference, PreLowerStripPhis
from numba.core.typing import templates, typeof
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    RewriteSemanticConstants,
    TranslateByteCode,
)

from ort_lite.native import writing
from ort_lite.native.spec import Spec
from ort_lite.native.translator import StaticArguments, TargetContext, Translator, TypingContext


class _Lower(lowering.Lower):  # type: ignore[misc]
    """Values of kernels are not counted: what a variable holds is not loaded before it is stored to or goes.

    Instructions are not written into a log that nobody keeps. Two operands that are no constants have no special case.
    """

    def lower_block(self, block: Any) -> None:
        self.pre_block(block)
        for instruction in block.body:
            self.loc = instruction.loc
            self.lower_inst(instruction)
        self.post_block(block)

    def lower_inst(self, inst: Any) -> None:
        kind = type(inst)
        if kind is ir.Assign:
            name = inst.target.name
            self.storevar(self.lower_assign(self.typeof(name), inst), name)
        elif kind is ir.Del:
            self.delvar(inst.value)
        else:
            super().lower_inst(inst)

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        if not (expr.static_lhs is ir.UNDEFINED and expr.static_rhs is ir.UNDEFINED):
            return super().lower_binop(resty, expr, op)
        context, builder, signature = self.context, self.builder, self.fndesc.calltypes[expr]
        operands = [
            context.cast(builder, self.loadvar(item.name), self.typeof(item.name), kind)
            for item, kind in zip((expr.lhs, expr.rhs), signature.args, strict=True)
        ]
        function = context.typing_context.resolve_value_type(op)
        if signature.args not in function._impl_keys:  # typed where this process compiled another function
            function.get_call_type(context.typing_context, signature.args, {})
        implementation = context.get_function(function, signature)
        return context.cast(builder, implementation(builder, operands), signature.return_type, resty)

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


class LeanPipeline(CompilerBase):  # type: ignore[misc]
    """The passes of _PASSES, within `shortcuts`."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes that kernels need."""
        manager = _Manager("ort_lite")
        for item in _PASSES:
            manager.add_pass(item, item._name)
        manager.finalize()
        return [manager]


class LeanTargetContext(TargetContext):
    """The target context, with libraries of text."""

    codegen_class = writing.TextCodegen

    def init(self) -> None:
        """Set the target up, with few registries."""
        super().init()
        self._sizes: dict[Any, int] = {}

    def get_abi_sizeof(self, ty: Any) -> int:
        """Return the size of a type, as numba's method, which asks LLVM for every variable through a module of its own."""
        if ty not in self._sizes:
            self._sizes[ty] = super().get_abi_sizeof(ty)
        return self._sizes[ty]


_ATTRIBUTES = (types.Module, types.NumberClass, types.BaseNamedTuple, types.NamedTupleClass)


class LeanTypingContext(TypingContext):
    """The typing context, which resolves nothing twice and knows no containers."""

    def __init__(self, translator: Translator) -> None:
        self.installed: dict[Any, Any] = {}
        self.resolved: dict[Any, Any] = {}
        self.values: dict[Any, Any] = {}
        super().__init__(translator)

    def resolve_value_type(self, val: Any) -> Any:
        """Operators are asked for most: numba tries whether they are data each time, before it looks for their type."""
        if not isinstance(val, BuiltinFunctionType | type):
            return super().resolve_value_type(val)
        found = self.values.get(val)
        if found is None:
            found = self.values[val] = super().resolve_value_type(val)
        return found

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Resolve as numba's method, once for the same types: most calls of a kernel are sums and products of int64."""
        if isinstance(func, str):  # of static items: their numbers are no types, 1 and True are one key
            return super().resolve_function_type(func, args, kws)
        key = func, args, tuple(kws.items()) if kws else ()
        found = self.resolved.get(key)
        if found is None:
            found = self.resolved[key] = super().resolve_function_type(func, args, kws)
        return found

    def install_registry(self, registry: Any) -> None:
        """Install the attributes in _ATTRIBUTES: the others are of containers, 0.2 s to set up."""
        if registry not in self.installed:
            slim = templates.Registry()
            slim.functions, slim.globals = registry.functions, registry.globals
            slim.attributes = [item for item in registry.attributes if item.key in _ATTRIBUTES]
            self.installed[registry] = slim
            super().install_registry(slim)


class LeanTranslator(Translator):
    """The translator within `shortcuts`."""

    pipeline = LeanPipeline
    typing_context = LeanTypingContext
    target_context = LeanTargetContext

    def text(self, spec: Spec, symbol: str) -> str:
        with shortcuts():
            return super().text(spec, symbol)

    def join(self, library: Any, wrapper: str, symbol: str) -> str:
        return writing.join(library, self.outlined, wrapper, symbol, self.target.triple, self.layout)


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


_NO_CONTEXT = nullcontext()


def _error_context(text: str, *args: Any, **kwargs: Any) -> AbstractContextManager[None]:
    return _NO_CONTEXT


_has_loc = cache(base._has_loc)


class _Plain:
    """A replacement of numba's colours: nobody reads most of its messages, and colorama takes longer than what failed."""

    def __getattr__(self, name: str) -> Callable[[str], str]:
        return str


_SHORTCUTS = (
    (postproc.PostProcessor, "run", _post_process),
    (ir.Inst, "_rec_list_vars", _list_vars),
    (typeinfer.ConstraintNetwork, "propagate", _propagate),
    (ssa, "_run_ssa_block_pass", _visit_block),
    (typeinfer, "new_error_context", _error_context),
    (lowering, "new_error_context", _error_context),
    (base, "_has_loc", _has_loc),
    (type(types.Type), "__instancecheck__", type.__instancecheck__),  # of an ABCMeta whose classes nobody registers
    (errors, "termcolor", _Plain),
    (typeof, "_termcolor", _Plain()),
    *writing.STAND_INS,
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
