"""Spec -> relocatable object code. With `lowering.py` and `frontend.py` alone imports numba; a warm process never imports this one.

Numba types and lowers each function; everything below LLVM IR is done here: helpers are linked unoptimised, all
symbols but the entry become internal, and one pass pipeline for the target runs over the whole.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen, cpu, fastmathpass, types, typing
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
from ort_lite.native.lowering import BUILTINS, builtin_template, emitted_template, name_of, named
from ort_lite.native.marks import DEFAULT_OPTIONS, Emitted, NativeOptions
from ort_lite.native.spec import Spec, compiled_for, is_static
from ort_lite.native.values import Value


class _Library(codegen.JITCodeLibrary):  # type: ignore[misc]
    """A library that leaves optimisation to the end: it would only be done twice, and vectorise too early."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


class _Codegen(codegen.JITCPUCodegen):  # type: ignore[misc]
    _library_class = _Library
    triple = ""

    def _create_empty_module(self, name: str) -> Any:
        module = super()._create_empty_module(name)
        module.triple = self.triple or module.triple
        return module


class _TargetContext(cpu.CPUContext):  # type: ignore[misc]
    def init(self) -> None:
        self.is32bit = False
        self._internal_codegen = _Codegen("ort_lite")
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
        super().__init__()

    def resolve_value_type(self, val: Any) -> Any:
        if isinstance(val, FunctionType | Emitted) or any(val is item for item in BUILTINS):
            return self.session.callable_type(val)
        return super().resolve_value_type(val)

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
        self.machine = llvm.Target.from_triple(target.triple).create_target_machine(
            cpu=target.tuning, features=target.features, opt=3, reloc="static", codemodel="jitdefault", jit=True
        )

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
    def module(self, spec: Spec, symbol: str) -> Any:
        """Optimised LLVM module that defines `symbol` and nothing else that is visible."""
        function = spec.resolve()
        result, found = entry.arguments(spec, function)
        kinds = tuple(types.Omitted(value) if name == "static" else named(name) for name, value in found)
        compiled = self.compile(function, kinds, named(result))
        compiled.library.finalize()
        module = compiled.library._final_module
        names = [name for name, _ in found if name != "static"]
        module.triple, module.data_layout = self.target.triple, str(self.machine.target_data)
        head = f'target triple = "{module.triple}"\ntarget datalayout = "{module.data_layout}"\n'
        text = entry.wrapper(spec, result, names, compiled.fndesc.llvm_func_name, symbol)
        module.link_in(llvm.parse_assembly(head + text))
        self.hide(module, symbol)
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        builder = llvm.create_pass_builder(self.machine, options)
        builder.getModulePassManager().run(module, builder)
        module.verify()
        return module

    def hide(self, module: Any, symbol: str) -> None:
        """Leaves `symbol` as the only one that is visible; every function is inlined unless its options say no."""
        for item in module.functions:
            if item.name != symbol and not item.is_declaration:
                item.linkage = "internal"
                item.add_function_attribute("noinline" if item.name in self.outlined else "alwaysinline")
        for item in module.global_variables:
            if not item.is_declaration or item.name.startswith("_ZN08NumbaEnv"):
                item.linkage = "internal"


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


def compile_module(spec: Spec, target: Target, symbol: str) -> Any:
    """(optimised LLVM module, target machine) of a spec, which uses of the target what its key names. Raises KernelCompileError."""
    target = compiled_for(spec, target)
    with global_compiler_lock, _wrapping_integers():
        try:
            with shortcuts():
                session = _session(target, LeanPipeline)
                return session.module(spec, symbol), session.machine
        except Exception as error:  # noqa: BLE001  all of numba may compile it, or says what is wrong
            short = error
        session = _session(target, FullPipeline)
        try:
            module = session.module(spec, symbol)
        except Exception as error:  # whatever numba or an emitter raises, it is about this kernel
            source = f"\n{spec.source[1]}" if spec.source else ""
            raise KernelCompileError(f"kernel {spec.name}: {type(error).__name__}: {error}{source}") from error
    log.warn(-1, f"kernel {spec.name}: compiled with all of Numba, since a part of it fails: {type(short).__name__}: {short}")
    return module, session.machine


def _session(target: Target, pipeline: Any) -> Session:
    if (target, pipeline) not in _sessions:
        _sessions[target, pipeline] = Session(target, pipeline)
    return _sessions[target, pipeline]


def compile_object(spec: Spec, target: Target, symbol: str) -> bytes:
    """Relocatable object that defines `symbol`. Raises KernelCompileError."""
    module, machine = compile_module(spec, target, symbol)
    data: bytes = machine.emit_object(module)
    return data
