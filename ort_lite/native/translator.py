"""Translation of a Python function to LLVM's text by Numba, which types and lowers it; helpers are linked unoptimised.

This derives from Numba's classes and uses parts that seldom change. Shortcuts that make it faster are in `frontend.py`, and are not
used with releases of Numba that were not verified.
"""

import inspect
from itertools import islice
from operator import attrgetter
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
from numba.core import cpu, fastmathpass, ir, types, typing
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags, compile_extra
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.cpu_options import FastMathOptions
from numba.core.errors import TypingError
from numba.core.typing import templates
from numba.core.untyped_passes import FixupArgs

from ort_lite.native import entry, libraries
from ort_lite.native.cpu import Target
from ort_lite.native.lowering import BUILTINS, builtin_template, emitter_template, name_of, numba_type
from ort_lite.native.marks import DEFAULT_OPTIONS, Emitted, NativeOptions
from ort_lite.native.spec import Spec, is_record, is_static, signature
from ort_lite.native.values import LlvmValue


@register_pass(mutates_CFG=True, analysis_only=False)
class StaticArguments(FunctionPass):  # type: ignore[misc]
    """Turns literal and omitted arguments into constants, so that numba decides branches on them."""

    _name = "ort_lite_static_arguments"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Replace static parameters by their values."""
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.Assign):
                if isinstance(statement.value, ir.Arg):
                    kind = state.args[statement.value.index]
                    if isinstance(kind, types.Omitted):
                        statement.value = ir.Const(kind.value, statement.loc)
                    elif isinstance(kind, types.Literal):
                        statement.value = ir.Const(kind.literal_value, statement.loc)
        return True


class NumbaPipeline(CompilerBase):  # type: ignore[misc]
    """All of Numba's passes."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes, with static arguments."""
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.add_pass_after(StaticArguments, FixupArgs)
        manager.finalize()
        return [manager]


class TargetContext(cpu.CPUContext):  # type: ignore[misc]
    """The lowering of kernels: integers wrap, and conversion of a float to an integer is defined for every value."""

    codegen_class = libraries.Codegen

    def init(self) -> None:
        """Set up the target."""
        self.is32bit = False
        self._internal_codegen = self.codegen_class("ort_lite")

    def load_additional_registries(self) -> None:
        """Load the registries that kernels need: scalars, ranges and tuples. No NumPy, no run-time system."""
        from numba.cpython import builtins, iterators, mathimpl, numbers, rangeobj, tupleobj  # noqa: F401  they register

        self.install_registry(mathimpl.registry)

    def post_lowering(self, mod: Any, library: Any) -> None:
        """Finish lowering like numba's method, without linking its run-time system: kernels allocate nothing."""
        _let_integers_wrap(mod)
        if self.fastmath:
            fastmathpass.rewrite_module(mod, self.fastmath)

    def cast(self, builder: Any, val: Any, fromty: Any, toty: Any) -> Any:
        """Cast like numba's method, but define the conversion of a float to an integer for every value."""
        if fromty is toty:
            return val
        if isinstance(fromty, types.Float) and isinstance(toty, types.Integer):
            return LlvmValue(builder, val, name_of(fromty)).to(name_of(toty)).raw
        return super().cast(builder, val, fromty, toty)


_INTEGER_OPERATIONS = frozenset({"add", "sub", "mul"})


def _let_integers_wrap(module: Any) -> None:
    """Remove the no-overflow flags that numba sets: int64 sums wrap, and checks for overflow work."""
    for function in module.functions:
        for block in function.blocks:
            for instruction in block.instructions:
                if instruction.opname in _INTEGER_OPERATIONS and "nsw" in instruction.flags:
                    instruction.flags.remove("nsw")


class TypingContext(typing.Context):  # type: ignore[misc]
    """The typing of kernels: every plain Python function of the project is a helper to compile."""

    def __init__(self, translator: "Translator") -> None:
        self.translator = translator
        super().__init__()

    def resolve_value_type(self, val: Any) -> Any:
        """Return the type of a helper or emitted function; numba handles other values."""
        if isinstance(val, FunctionType | Emitted) or any(val is item for item in BUILTINS):
            return self.translator.callable_type(val)
        return super().resolve_value_type(val)

    def load_additional_registries(self) -> None:
        """Load the registries that kernels need."""
        from numba.core.typing import collections, mathdecl  # noqa: F401  collections registers named tuples

        self.install_registry(mathdecl.registry)


class Translator:
    """Numba's contexts for one target. Not thread-safe: callers hold numba's global compiler lock."""

    pipeline: type[Any] = NumbaPipeline
    typing_context: type[TypingContext] = TypingContext
    target_context: type[TargetContext] = TargetContext

    def __init__(self, target: Target) -> None:
        self.target = target
        self.typing = self.typing_context(self)
        self.context = self.target_context(self.typing, "cpu")
        self.context.refresh()
        self.context.codegen().triple = target.triple  # emitted functions read it
        self.callables: dict[Any, Any] = {}
        self.helpers: dict[Any, Any] = {}
        self.outlined: set[str] = set()
        if target.triple != llvm.get_process_triple():
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        machine = llvm.Target.from_triple(target.triple).create_target_machine(
            cpu=target.tuning, features=target.features, opt=3, reloc="static", codemodel="jitdefault", jit=True
        )
        self.layout = str(machine.target_data)

    def compile(self, function: Any, arguments: tuple[Any, ...], result: Any = None) -> Any:
        """Compile a function and return numba's CompileResult, with unoptimised IR."""
        options: NativeOptions = getattr(function, "__native__", DEFAULT_OPTIONS)
        flags = Flags()
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        flags.error_model = "numpy"
        flags.fastmath = FastMathOptions(set(options.fastmath))
        compiled = compile_extra(
            self.typing, self.context, function, arguments, result, flags, {}, pipeline_class=self.pipeline
        )
        if not options.inline:
            self.outlined.add(compiled.fndesc.llvm_func_name)
        return compiled

    # --- Functions that kernels call
    def callable_type(self, item: Any) -> Any:
        """Return numba's type of a helper or emitted function, created on first use."""
        if item not in self.callables:
            self.callables[item] = types.Function(self.template(item))
        return self.callables[item]

    def template(self, item: Any) -> Any:
        """Return the template that types calls of a function."""
        if isinstance(item, Emitted):
            if self.target.has(item.needs):
                return emitter_template(item, self.define)
            if item.otherwise is None:
                raise TypingError(f"{item.__name__} needs {item.needs}, which {self.target.name} has not")
            return self.template(item.otherwise)
        if isinstance(item, FunctionType):
            return self.helper_template(item)
        return builtin_template(item, self.define)

    def define(self, key: Any, lower: Any, arguments: Any) -> None:
        """Make `lower` the implementation of an emitted function for these argument types, once."""
        if key not in self.helpers:
            self.helpers[key] = lower
            self.context.insert_func_defn([(lower, key, arguments)])

    def helper_template(self, function: Any) -> Any:
        """Return the template of a plain function: typing a call compiles it for the argument types."""
        translator, pysig = self, inspect.signature(function)

        class Helper(templates.AbstractTemplate):  # type: ignore[misc]
            key = function

            def generic(self, args: Any, kws: Any) -> Any:
                arguments = typing.fold_arguments(
                    pysig, args, kws, lambda i, p, v: v, lambda i, p, d: types.Omitted(d), lambda i, p, v: v
                )
                result = translator.helper(function, _decide(function, arguments))
                self.implementation = result.fndesc
                return result.signature.replace(pysig=pysig)

            def get_impl_key(self, sig: Any) -> Any:
                return self.implementation

        return Helper

    def helper(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        """Return a helper compiled for these argument types, once."""
        key = function, arguments
        if key not in self.helpers:
            self.helpers[key] = None  # being compiled
            try:
                result = self.compile(function, arguments)
            except BaseException:
                del self.helpers[key]
                raise
            self.helpers[key] = result
            self.context.insert_user_function(result.fndesc, result.fndesc, [_linked(result)])
        if self.helpers[key] is None:
            raise TypingError(f"{function.__qualname__} calls itself: kernels do not recurse")
        return self.helpers[key]

    def text(self, spec: Spec, symbol: str) -> str:
        """Return the text of an unoptimised module in which only `symbol` is visible."""
        function = spec.resolve()
        result, found = entry.arguments(spec, function)
        compiled = self.compile(function, _argument_types(function, found), numba_type(result))
        return self.join(_linked(compiled), entry.wrapper(spec, result, found, compiled.fndesc.llvm_func_name, symbol), symbol)

    def join(self, library: Any, wrapper: str, symbol: str) -> str:
        """Return the text of one module with a function, all that it uses, and the visible wrapper."""
        return libraries.join(library, self.outlined, wrapper, symbol, self.target.triple, self.layout)


_linked = attrgetter("library")
"""The code that Numba compiled a function to, with what it is linked with."""


def _argument_types(function: Any, flat: list[tuple[str, Any]]) -> tuple[Any, ...]:
    """Return numba's type of each parameter of `entry.arguments`. Numba passes the fields of a NamedTuple one by one."""
    kinds = iter([_argument_type(name, value) for name, value in flat])
    return tuple(
        _record_type(tuple(islice(kinds, len(annotation._fields))), annotation) if is_record(annotation) else next(kinds)
        for _, annotation in signature(function)
    )


def _record_type(kinds: tuple[Any, ...], record: Any) -> Any:
    """Return the type of a record. Numba would forget the constants among its fields."""
    if any(isinstance(kind, types.Literal) for kind in kinds):
        return types.NamedTuple(kinds, record)
    return types.BaseTuple.from_types(kinds, record)


def _argument_type(name: str, value: Any) -> Any:
    if name == "constant":  # a field of a record, which cannot be omitted
        return types.literal(value)
    return types.Omitted(value) if name == "static" else numba_type(name)


def _decide(function: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the argument types to compile a helper for: literal for Static parameters, general for others."""
    names = inspect.signature(function).parameters
    final = []
    for name, kind in zip(names, arguments, strict=True):
        if is_static(function, name):
            if not isinstance(kind, types.Literal | types.Omitted):
                raise TypingError(f"{function.__qualname__}: {name} is Static, got {kind}: pass a constant")
            final.append(kind)
        else:
            final.append(types.unliteral(kind))
    return tuple(final)
