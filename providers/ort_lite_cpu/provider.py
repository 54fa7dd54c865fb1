"""CPUExecutionProvider: claims whatever it has a kernel for, one node at a time, and compiles partitions to Programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from ort_lite.dtypes import COMPLEX
from ort_lite.errors import InvalidArgument, ProviderError
from ort_lite.graph import Node, Value
from ort_lite.inference import Info
from ort_lite.memory.arenas import Growth
from ort_lite.native.cpu import runnable
from ort_lite.native.loader import ahead
from ort_lite.native.missing import NEVER, OPTION, WAIT, check_option
from ort_lite.provider import (
    Capability,
    CompiledPartition,
    ExecutionProvider,
    GraphView,
    Partition,
    Rejection,
    SessionOptions,
)
from ort_lite.provider.seeds import seed
from ort_lite.record import asdict
from ort_lite.transform import Transform
from ort_lite_cpu.costs import calibrated_costs
from ort_lite_cpu.lowering.lowered import NOWHERE
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program.body import BodyProgram
from ort_lite_cpu.program.program import Program, machinery
from ort_lite_cpu.program.segment import NOTHING
from ort_lite_cpu.registry import STRING, OperatorRegistration, find
from ort_lite_cpu.run.run_context import RunContext
from ort_lite_cpu.run.work_item import MAX_PARTS
from ort_lite_cpu.types import HALVES

_STEPWISE = {"": frozenset({"bfloat16"}), "steps": frozenset({"bfloat16", "float16"})}
"""Types that are rounded where the operators of ONNX's functions end, by config entry `ort_lite.round_16_bit`."""
MOST_THREADS = 1024
"""That an option may ask for; a run uses MAX_PARTS of them."""


class CPUExecutionProvider(ExecutionProvider):
    """The default provider. CPUOptions: threads (intra-op, the caller's included; 0: all cores), fusion, winograd, target (what
    kernels are compiled for, see `ort_lite.native.cpu.parse_target`: less than this machine can do, to try it here), and two of
    onnxruntime's: arena_extend_strategy (how scratch memory grows, see `ort_lite.memory.arenas.Growth`) and use_arena
    ("0": it goes back after each run).
    """

    name: ClassVar[str] = "CPUExecutionProvider"
    exact: ClassVar[bool] = True
    config_keys: ClassVar[Sequence[str]] = ("ort_lite.fusion", "ort_lite.kernels", "ort_lite.target", "ort_lite.winograd")

    def __init__(
        self,
        threads: int = 0,
        fusion: bool = True,
        winograd: bool = True,
        arena_extend_strategy: Any = Growth.half,
        use_arena: Any = True,
        target: str = "",
        **unknown: Any,
    ) -> None:
        if unknown:
            known = "threads, fusion, winograd, arena_extend_strategy, use_arena, target"
            raise ProviderError(f"{self.name} knows no option {', '.join(unknown)}; it knows {known}")
        self._growth, self._keep = Growth.parse(arena_extend_strategy), str(use_arena) not in ("0", "False")
        self._threads = min(_count(threads), MAX_PARTS)
        self._target = _check_target(target)
        self.options = CPUOptions(self._threads or _cores(), bool(fusion), bool(winograd), target=self._target or "host")

    def configure(self, options: SessionOptions) -> None:
        """Threads that no provider option fixed are the session's intra_op_num_threads.

        Config entry `ort_lite.winograd` "0" turns Winograd's convolutions off, `ort_lite.fusion` "0" fused elementwise loops;
        `ort_lite.target` names the target that no provider option did, `ort_lite.compile` says what to do about missing kernels,
        `ort_lite.round_16_bit` "steps" rounds 16-bit floats where ONNX's functions do; without it bfloat16 alone is rounded so.
        `ort_lite.kernels` is a JSON object of candidates by name of node: {"conv1": "winograd-2"}.
        """
        threads = self._threads or min(options.intra_op_num_threads or _cores(), MAX_PARTS)
        fusion = self.options.fusion and options.config("ort_lite.fusion", "1") != "0"
        winograd = self.options.winograd and options.config("ort_lite.winograd", "1") != "0"
        target = self._target or _check_target(options.config("ort_lite.target", "")) or "host"
        steps = _STEPWISE.get(options.config("ort_lite.round_16_bit", ""), frozenset())
        self.options = CPUOptions(
            threads,
            fusion,
            winograd,
            target=target,
            compile=check_option(options.config(OPTION, WAIT)),
            steps=steps,
            seed=seed(),
            pins=_parse_pins(options.config("ort_lite.kernels", "")),
            costs=calibrated_costs(runnable(target)),
        )
        session_memory = options.session_memory
        if session_memory is not None:
            pool = session_memory.pool(RunContext, self._growth, self._keep)
            self.options = self.options.replace(pool=pool, planner=session_memory.planner)
        if self.options.compile != NEVER:
            ahead((*machinery(threads), NOTHING))

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        """Yield one capability for each node with a kernel, and a rejection for each of the others."""
        for node in graph:
            registration = find(node)
            rejection = _no_kernel(node) if registration is None else _wrong_type(node, registration, self.options.steps)
            yield Capability((node,)) if rejection is None else rejection

    def supports_type(self, node: Node, dtype: str) -> bool:
        """Return True if the node's kernel accepts the element type, or no kernel is registered for the node."""
        registration = find(node)
        return registration is None or dtype in registration.types

    def fusions(self) -> Iterable[Transform | str]:
        """All, and before them what says which convolutions of integers this target computes in floating point."""
        target = runnable(self.options.target)
        if target.has_byte_products:
            return ("all",)
        from ort_lite_cpu.lowering.float_filters import float_filters

        return (*float_filters(self.options, target), "all")

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition]:
        """Compile the partitions."""
        return [_compile(partition, self.options) for partition in partitions]

    def prepared_state(self) -> tuple[str, dict[str, Any]] | str:
        """Return what programs depend on, as text, and the objects that they refer to by name; or why they cannot be stored."""
        options, target = self.options, runnable(self.options.target)
        if not options.kernels.all_come:
            return "missing kernels are not compiled"
        costs = None if options.costs is None else sorted(options.costs.factors.items())
        fields = asdict(options, "pool", "planner", "costs") | {"steps": sorted(options.steps)}
        described = repr((fields, costs, target))
        planner = options.planner
        named = {"options": options, "planner": planner, "nowhere": NOWHERE, "cpu target": options.kernels.target}
        if options.pool is not None:
            named["pool"] = options.pool
        return f"{described} {type(planner).__module__}.{type(planner).__qualname__} {planner.name}", named

    def get_options(self) -> dict[str, Any]:
        """Return the provider's options by name."""
        options = self.options
        return {"threads": options.threads, "fusion": options.fusion, "winograd": options.winograd, "target": options.target}


def _count(threads: Any) -> int:
    """A number of threads, which options may write as text."""
    text = str(threads)
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or int(text) > MOST_THREADS:
        name = CPUExecutionProvider.name
        raise ProviderError(f"{name}: threads is {threads!r}, expected 0 (all cores) to {MOST_THREADS}")
    return int(text)


def _parse_pins(text: str) -> tuple[tuple[str, str], ...]:
    """Read the entry `ort_lite.kernels`. Raises InvalidArgument if it is no JSON object of texts."""
    try:
        pins = json.loads(text) if text else {}
    except ValueError as error:
        raise InvalidArgument(f"ort_lite.kernels is no JSON: {error}") from error
    if not isinstance(pins, dict) or not all(isinstance(name, str) for name in pins.values()):
        raise InvalidArgument(f'ort_lite.kernels is {text}, expected {{"NODE": "CANDIDATE", ...}}')
    return tuple(pins.items())


def _compile(partition: Partition, options: CPUOptions) -> Program | BodyProgram:
    if partition.nested:
        return BodyProgram(partition, options)
    inputs = [(value, Info(value.type)) for value in partition.inputs]
    return Program(partition.nodes, inputs, partition.outputs, partition.rules, options, partition.bodies)


def _check_target(target: str) -> str:
    """The name of a target that runs here, or "". Raises InvalidArgument for others."""
    return runnable(target).name if target not in ("", "host") else target


def _cores() -> int:
    import os

    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(found, MAX_PARTS)


def _no_kernel(node: Node) -> Rejection:
    return Rejection(node, "operator", f"no kernel for {node.domain or 'ai.onnx'}.{node.op_type} {node.version}")


def _wrong_type(node: Node, registration: OperatorRegistration, steps: frozenset[str]) -> Rejection | None:
    if registration.types in (STRING, COMPLEX):
        return None  # found because of the types
    values: Sequence[Value | None] = node.inputs or node.outputs
    position = registration.typed_by if node.inputs else 0
    value = values[position] if position < len(values) else None
    types = registration.types | registration.stepwise & steps
    if value is None or value.dtype is None or value.dtype in types:
        return None
    if value.dtype in HALVES and "float32" in types and any(other is not None and other.dtype is None for other in node.inputs):
        return None  # a Cast of this input alone would leave two types: `lowering.widening` converts all of them in the run
    return Rejection(node, "type", f"{value.dtype}, takes {', '.join(sorted(types))}")
