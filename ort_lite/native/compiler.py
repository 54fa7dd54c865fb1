"""Spec -> relocatable object code. With `lowering.py` and `frontend.py` alone imports numba; a warm process never imports this one.

Numba types and lowers each function; everything below LLVM IR is done here: helpers are linked unoptimised, all
symbols but the entry become internal, and one pass pipeline for the target runs over the whole.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType
from typing import Any

import llvmlite.binding as llvm
from numba.core import cpu, fastmathpass, types, typing
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu_options import FastMathOptions
from numba.core.errors import TypingError
from numba.core.typing import templates
from numba.cpython import numbers

from ort_lite import log
from ort_lite.errors import KernelCompileError
from ort_lite.native import entry
from ort_lite.native.cpu import Target
from ort_lite.native.frontend import FullPipeline, LeanPipeline, shortcuts
from ort_lite.native.libraries import Codegen, joined, texts
from ort_lite.native.llvm import Module
from ort_lite.native.lowering import BUILTINS, builtin_template, emitted_template, name_of, named
from ort_lite.native.marks import DEFAULT_OPTIONS, Emitted, NativeOptions
from ort_lite.native.spec import Spec, compiled_for, is_static
from ort_lite.native.values import Value
from ort_lite.record import Record


class _TargetContext(cpu.CPUContext):  # type: ignore[misc]
    def init(self) -> None:
        self.is32bit = False
        self._internal_codegen = Codegen("ort_lite")
        self._sizes: dict[Any, int] = {}

    def load_additional_registries(self) -> None:
        """Scalars, ranges, tuples: what kernels use. No NumPy, no run-time system."""
        from numba.cpython import builtins, iterators, mathimpl, rangeobj, tupleobj  # noqa: F401  they register

        self.install_registry(mathimpl.registry)

    def post_lowering(self, mod: Any, library: Any) -> None:
        """As numba's, but without linking its run-time system: kernels allocate nothing."""
        if self.fastmath:
            fastmathpass.rewrite_module(mod, self.fastmath)

    def get_abi_sizeof(self, ty: Any) -> int:
        """As numba's, which asks LLVM for every variable, through a module of its own."""
        if ty not in self._sizes:
            self._sizes[ty] = super().get_abi_sizeof(ty)
        return self._sizes[ty]

    def cast(self, builder: Any, val: Any, fromty: Any, toty: Any) -> Any:
        """As numba's, but a float that becomes an integer is defined for every value."""
        if fromty is toty:
            return val
        if isinstance(fromty, types.Float) and isinstance(toty, types.Integer):
            return Value(builder, val, name_of(fromty)).to(name_of(toty)).raw
        return super().cast(builder, val, fromty, toty)


_ATTRIBUTES = (types.Module, types.NumberClass, types.BaseNamedTuple, types.NamedTupleClass)


class _TypingContext(typing.Context):  # type: ignore[misc]
    """Knows every plain Python function of the project as a helper to be compiled."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.installed: dict[Any, Any] = {}
        self.resolved: dict[Any, Any] = {}
        self.values: dict[Any, Any] = {}
        super().__init__()

    def resolve_value_type(self, val: Any) -> Any:
        """Operators are asked for most: numba tries whether they are data each time, before it looks for their type."""
        found = self.values.get(val) if isinstance(val, BuiltinFunctionType | type) else None
        if found is not None:
            return found
        if isinstance(val, FunctionType | Emitted) or any(val is item for item in BUILTINS):
            return self.session.callable_type(val)
        found = super().resolve_value_type(val)
        if isinstance(val, BuiltinFunctionType | type):
            self.values[val] = found
        return found

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """As numba's, once for the same types: most calls of a kernel are sums and products of int64."""
        if isinstance(func, str):  # of static items: their numbers are no types, 1 and True are one key
            return super().resolve_function_type(func, args, kws)
        key = func, args, tuple(kws.items()) if kws else ()
        found = self.resolved.get(key)
        if found is None:
            found = self.resolved[key] = super().resolve_function_type(func, args, kws)
        return found

    def load_additional_registries(self) -> None:
        from numba.core.typing import collections, mathdecl  # noqa: F401  collections registers named tuples

        self.install_registry(mathdecl.registry)

    def install_registry(self, registry: Any) -> None:
        """Of attributes, those of _ATTRIBUTES: the others are of containers, 0.2 s to set up."""
        if registry not in self.installed:
            slim = templates.Registry()
            slim.functions, slim.globals = registry.functions, registry.globals
            slim.attributes = [item for item in registry.attributes if item.key in _ATTRIBUTES]
            self.installed[registry] = slim
            super().install_registry(slim)


class Session:
    """Numba's contexts for one target. Not thread-safe: callers hold numba's global compiler lock."""

    def __init__(self, target: Target, pipeline: Any = LeanPipeline) -> None:
        self.target = target
        self.pipeline = pipeline
        self.typing = _TypingContext(self)
        self.context = _TargetContext(self.typing, "cpu")
        self.context.refresh()
        self.context.codegen().triple = target.triple  # emitted functions look at it
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
        """numba's CompileResult; IR not optimised."""
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
        """numba's type of a helper or emitted function, made when it is first met."""
        if item not in self.callables:
            self.callables[item] = types.Function(self.template(item))
        return self.callables[item]

    def template(self, item: Any) -> Any:
        """The template that types calls of one function."""
        if isinstance(item, Emitted):
            if self.target.has(item.needs):
                return emitted_template(item, self.define)
            if item.otherwise is None:
                raise TypingError(f"{item.__name__} needs {item.needs}, which {self.target.name} has not")
            return self.template(item.otherwise)
        if isinstance(item, FunctionType):
            return self.helper_template(item)
        return builtin_template(item, self.define)

    def define(self, key: Any, lower: Any, arguments: Any) -> None:
        """Makes `lower` the implementation of an emitted function for these argument types; once."""
        if key not in self.helpers:
            self.helpers[key] = lower
            self.context.insert_func_defn([(lower, key, arguments)])

    def helper_template(self, function: Any) -> Any:
        """Template of a plain function: typing a call compiles it for the argument types."""
        session, pysig = self, inspect.signature(function)

        class Helper(templates.AbstractTemplate):  # type: ignore[misc]
            key = function

            def generic(self, args: Any, kws: Any) -> Any:
                arguments = typing.fold_arguments(
                    pysig, args, kws, lambda i, p, v: v, lambda i, p, d: types.Omitted(d), lambda i, p, v: v
                )
                result = session.helper(function, _decide(function, arguments))
                self.implementation = result.fndesc
                return result.signature.replace(pysig=pysig)

            def get_impl_key(self, sig: Any) -> Any:
                return self.implementation

        return Helper

    def helper(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        """A helper compiled for these argument types; once."""
        key = function, arguments
        if key not in self.helpers:
            self.helpers[key] = None  # being compiled
            try:
                result = self.compile(function, arguments)
            except BaseException:
                del self.helpers[key]
                raise
            self.helpers[key] = result
            self.context.insert_user_function(result.fndesc, result.fndesc, [result.library])
        if self.helpers[key] is None:
            raise TypingError(f"{function.__qualname__} calls itself: kernels do not recurse")
        return self.helpers[key]

    # --- From numba's IR to an object
    def text(self, spec: Spec, symbol: str) -> str:
        """LLVM's text of a module that defines `symbol` and nothing else that is visible, not optimised."""
        function = spec.resolve()
        result, found = entry.arguments(spec, function)
        kinds = tuple(types.Omitted(value) if name == "static" else named(name) for name, value in found)
        compiled = self.compile(function, kinds, named(result))
        names = [name for name, _ in found if name != "static"]
        head = f'target triple = "{self.target.triple}"\ntarget datalayout = "{self.layout}"\n'
        parts = texts(compiled, self.outlined)
        text = joined(head, parts, entry.wrapper(spec, result, names, compiled.fndesc.llvm_func_name, symbol))
        here = (name for part in parts for name in part.defined if name in self.outlined)
        for number, name in enumerate(dict.fromkeys(here)):  # numba numbers them from the start of the process
            text = text.replace(f'"{name}"', f'"{symbol}.{number}"')
        return text


@contextmanager
def _wrapping_integers() -> Iterator[None]:
    """Within it, numba marks no integer operation as free of overflow: int64 sums wrap, and checks for it work."""
    saved = numbers._int_arith_flags
    numbers._int_arith_flags = lambda result: []
    try:
        yield
    finally:
        numbers._int_arith_flags = saved


def _decide(function: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Argument types to compile a helper for: literal where its parameter is Static, general elsewhere."""
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


_sessions: dict[Any, Session] = {}


class Written(Record):
    """A spec as LLVM's text, not optimised, and what LLVM is to make it for."""

    name: str
    text: str
    target: Target

    def module(self) -> Module:
        """Optimised; whoever asked closes it. Raises KernelCompileError."""
        try:
            module = Module(self.text, self.target.triple, self.target.tuning, self.target.features)
        except RuntimeError as error:
            raise KernelCompileError(f"kernel {self.name}: {error}") from error
        module.optimise()
        return module

    def emit_object(self) -> bytes:
        """Relocatable object that defines the symbol. Raises KernelCompileError."""
        with self.module() as module:
            return module.emit_object()


def write(spec: Spec, target: Target, symbol: str) -> Written:
    """Numba's part of compiling; one thread at a time. Of the target it uses what the spec's key names. Raises KernelCompileError."""
    target = compiled_for(spec, target)
    with global_compiler_lock, _wrapping_integers():
        try:
            with shortcuts():
                return Written(spec.name, _session(target, LeanPipeline).text(spec, symbol), target)
        except Exception as error:  # noqa: BLE001  all of numba may compile it, or says what is wrong
            short = error
        try:
            text = _session(target, FullPipeline).text(spec, symbol)
        except Exception as error:  # whatever numba or an emitter raises, it is about this kernel
            source = f"\n{spec.source[1]}" if spec.source else ""
            raise KernelCompileError(f"kernel {spec.name}: {type(error).__name__}: {error}{source}") from error
    log.warn(-1, f"kernel {spec.name}: compiled with all of Numba, since a part of it fails: {type(short).__name__}: {short}")
    return Written(spec.name, text, target)


def _session(target: Target, pipeline: Any) -> Session:
    if (target, pipeline) not in _sessions:
        _sessions[target, pipeline] = Session(target, pipeline)
    return _sessions[target, pipeline]


def compile_object(spec: Spec, target: Target, symbol: str) -> bytes:
    """Relocatable object that defines `symbol`. Raises KernelCompileError."""
    return write(spec, target, symbol).emit_object()
