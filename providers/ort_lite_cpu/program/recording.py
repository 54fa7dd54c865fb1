"""The events of instructions, in runs that somebody recorded: one instruction after the other, an event for each.

Other runs never get here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from threading import get_native_id
from time import perf_counter_ns
from typing import Any

from ort_lite.dtypes import from_numpy
from ort_lite.native import Spec
from ort_lite.native.cpu import Target
from ort_lite.provider import CURRENT, StepEvents
from ort_lite.shapes import evaluate
from ort_lite_cpu.costs import kernel_family
from ort_lite_cpu.kernels.gemm.byte_tile import PAIRS
from ort_lite_cpu.lowering.lowered import HostStep, Instruction
from ort_lite_cpu.lowering.tensor import Buffer, Tensor
from ort_lite_cpu.program.bind import Bound
from ort_lite_cpu.program.host_step import run_host_step
from ort_lite_cpu.program.segment import Segment
from ort_lite_cpu.program.segment_run import SegmentRun, run_halting
from ort_lite_cpu.run.loop import Job
from ort_lite_cpu.run.run_context import RunContext


def record_host_step(step: HostStep, places: list[Any], events: StepEvents) -> None:
    """Run a host step as `run_host_step` does, and emit its event, even if it fails."""
    begin = perf_counter_ns()
    try:
        run_host_step(step, places)
    finally:
        kind = "python" if step.python else "control flow"
        args = {"op_name": step.node.op_type, "kernel": kind}
        events.kernel(step.node.name, begin, perf_counter_ns(), args, get_native_id())


def record_segment(
    run: SegmentRun, bound: Bound, places: list[Any], lease: RunContext, primary: Mapping[Buffer, Tensor]
) -> None:
    """Run a segment and time it, which says nothing of other runs: the bound program is not timed. `primary`: see `LoweringResult`."""
    events, options = CURRENT.events, CURRENT.options
    assert events is not None
    if bound.about is None:
        bound.about = [_args(run.segment, primary, bound, k) for k in range(len(run.segment.instructions))]
    run.attach(bound, places, lease, options)
    job = lease.job
    step = partial(_run_one_by_one, job, run.segment, bound.about, events)
    failed = step(0, bound.count) if options is None else run_halting(job, bound.count, options, step)
    if failed:
        raise run.error(bound, lease.memory, *job.failure, options)


def _run_one_by_one(
    job: Job, segment: Segment, about: Sequence[Mapping[str, str]], events: StepEvents, start: int, stop: int
) -> int:
    """Run a job as `Job.run` does, one instruction at a time."""
    index, thread = start, get_native_id()
    while start <= index < stop:
        begin = perf_counter_ns()
        failed = job.run(index, index + 1)
        end = perf_counter_ns()
        events.kernel(segment.instructions[index].node.name, begin, end, about[index], thread)
        if failed:
            return failed
        index = job.next
    return 0


def kernel_name(spec: Spec) -> str:
    """Return the name of a kernel without its module: "gemm<f32, ...>"."""
    where, _, details = spec.name.partition("<")
    return where.rpartition(".")[2] + (f"<{details}" if details else "")


def instruction_name(specs: Sequence[Spec], target: Target) -> str:
    """Return the instruction that multiplies in the kernels of a node, by its name in `ort_lite.native.instructions`.

    Tiles, which are Static, tell it: those of bfloat16 have `pairs` of k, those of bytes `quads`. Kernels without one have names.
    """
    statics, names = {name: value for spec in specs for name, value in spec.statics}, {kernel_family(spec) for spec in specs}
    if "tile.pairs" in statics:
        return "amx bf16" if statics["tile.amx"] else "dots bf16"
    if statics.get("tile.middle") == PAIRS:
        return "pairs s16s16"
    if "tile.quads" in statics:
        kind = "amx" if statics["tile.amx"] else "i8mm" if statics["tile.quads"] == 2 else "dots"
        return f"{kind} {'s8s8' if statics['tile.middle'] else 'u8s8'}"
    if names & {"few_bit_dots", "dot_depthwise"}:
        return "dots u8s8" if target.has_vnni else "dots s8s8"
    return "pairs s16s16" if "madd" in statics or "integer_depthwise" in names else "fma f32"


def _args(segment: Segment, primary: Mapping[Buffer, Tensor], bound: Bound, index: int) -> Mapping[str, str]:
    """Return the arguments of an instruction's event."""
    instruction = segment.instructions[index]
    sizes = {symbol.name: value for (symbol, _), value in zip(segment.leaves, bound.values, strict=True)}
    return {
        "op_name": instruction.node.op_type,
        "kernel": kernel_name(instruction.spec),
        "shapes": ", ".join(_shapes(instruction, primary, sizes)),
        "bytes": str(sum(evaluate(buffer.nbytes, sizes) for buffer in instruction.operands if buffer is not None)),
        "parts": str(int(bound.table[index, 2])),
    }


def _shapes(instruction: Instruction, primary: Mapping[Buffer, Tensor], sizes: Mapping[str, int]) -> Iterator[str]:
    """The shapes of the operands, in the order in which they are stored."""
    for buffer in instruction.operands:
        tensor = primary.get(buffer) if buffer is not None else None
        if buffer is None:
            yield "-"
        elif buffer.constant is not None:
            yield f"{from_numpy(buffer.constant.dtype)}{list(buffer.constant.shape)}"
        else:
            assert tensor is not None
            yield f"{tensor.dtype}{[evaluate(dim, sizes) for dim in tensor.storage_shape]}"
