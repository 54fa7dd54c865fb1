"""The interface of `llvm.py`, built on llvmlite's documented bindings, for releases that `llvm.py` has no declarations for."""

from collections.abc import Iterable

import llvmlite.binding as llvm

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def process_triple() -> str:
    """Return the triple of the code that this process can run: "x86_64-unknown-linux-gnu"."""
    triple: str = llvm.get_process_triple()
    return triple


def host_cpu_name() -> str:
    """Return LLVM's name of this machine's CPU: "znver5"."""
    name: str = llvm.get_host_cpu_name()
    return name


def host_cpu_features() -> str:
    """Return all features that LLVM knows for this kind of CPU, sorted by name: "+avx,-avx512f"."""
    features: str = llvm.get_host_cpu_features().flatten()
    return features


class BindingModule:
    """A module and its target machine, in a context of its own.

    Raises RuntimeError with LLVM's message if the text is not a module or uses a value before its definition.
    """

    def __init__(self, text: str, triple: str, cpu: str, features: str) -> None:
        target = llvm.Target.from_triple(triple)
        self._machine = target.create_target_machine(
            cpu=cpu, features=features, opt=3, reloc="static", codemodel="jitdefault", jit=True
        )
        self._module = llvm.parse_assembly(text, llvm.create_context())
        self._module.verify()

    def optimise(self) -> None:
        """Run LLVM's level 3 passes for the machine."""
        builder = llvm.create_pass_builder(self._machine, llvm.create_pipeline_tuning_options(speed_level=3))
        builder.getModulePassManager().run(self._module, builder)

    def emit_object(self) -> bytes:
        """Return relocatable machine code."""
        data: bytes = self._machine.emit_object(self._module)
        return data

    def emit_assembly(self) -> str:
        """Return the machine code as text."""
        text: str = self._machine.emit_assembly(self._module)
        return text

    def __str__(self) -> str:
        return str(self._module)

    def __enter__(self) -> "BindingModule":
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: llvmlite frees the module and its machine with their last reference."""


class BindingEngine:
    """An owner of executable memory, which lives as long as the process. Not thread-safe."""

    def __init__(self) -> None:
        if not llvm.address_of_symbol("expf"):
            llvm.load_library_permanently("libm.so.6")
        triple = llvm.get_process_triple()
        machine = llvm.Target.from_triple(triple).create_target_machine(jit=True)
        own_memory_manager = triple.startswith(("aarch64", "arm64"))  # LLVM's default places code too far apart there
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=own_memory_manager)

    def add(self, objects: Iterable[bytes]) -> None:
        """Link object files, which gives their symbols addresses."""
        for data in objects:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        """Return the address of a function in an object that was added."""
        address: int = self._engine.get_function_address(symbol)
        return address


Module, Engine = BindingModule, BindingEngine
"""The names that `llvm.py` uses."""
