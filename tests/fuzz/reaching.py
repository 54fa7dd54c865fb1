"""Programs whose kernel reaches where it is told to: into an array of each kind, or beyond it. The walls must notice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Node
from ort_lite.native import Spec
from ort_lite.native.cpu import host
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, native
from ort_lite_cpu.kernels.once import run_once
from ort_lite_cpu.lowering.lowered import Instruction, LoweringResult
from ort_lite_cpu.lowering.tensor import Buffer, Tensor
from ort_lite_cpu.program import program
from ort_lite_cpu.program.bind import Binder
from ort_lite_cpu.program.segment import FIRST_PLACE, Segment, assemble
from ort_lite_cpu.run.kernels import Kernels
from ort_lite_cpu.run.run_context import RunContext
from tests.fuzz.guarded import GuardError, guarded
from tests.fuzz.trial import ACCESS, Verdict
from tests.fuzz.trial import OK as RAN

COUNT = 3
"""Elements of every array: 12 bytes, no multiple of any alignment."""
KINDS = ("input", "constant", "output", "crossing", "scratch", "at load")
INSIDE = {"the first": 0, "the last": COUNT - 1}
OUTSIDE = {"one before": -1, "one beyond": COUNT}


@native
@extents(x="1", y="1")
def reach(x: Ptr, y: Ptr, at: int, writes: Static, part: int, parts: int) -> int:
    """Reads x[at] into y[0], or writes it; what it says of its extents is a lie."""
    if writes:
        x[at] = 7
    else:
        y[0] = x[at]
    return OK


@native
def zero(x: Ptr, count: int, part: int, parts: int) -> int:
    """x (count,) = 0"""
    for k in range(count):
        x[k] = 0
    return OK


class Reaching(NamedTuple):
    """Into which kind of array, where, and whether to write."""

    kind: str
    at: int
    writes: bool


SCENARIOS = [
    Reaching(kind, at, writes) for kind in KINDS for at in (*INSIDE.values(), *OUTSIDE.values()) for writes in (False, True)
]


def judge(number: int) -> Iterator[Verdict]:
    """Runs a scenario between walls, as `trial.judge` runs a mutant."""
    scenario = SCENARIOS[number]
    try:
        with guarded():
            run(scenario)
    except GuardError as error:
        yield Verdict(number, scenario.kind, ACCESS, str(error))
    else:
        yield Verdict(number, scenario.kind, RAN, "")


def run(scenario: Reaching) -> None:
    array = np.zeros(COUNT, np.float32)
    if scenario.kind == "at load":
        run_once(reach, [array, np.zeros(COUNT, np.float32)], Kernels(host()), at=scenario.at, writes=scenario.writes)
        return
    lowered, arrays = _lowered(scenario, array)
    for step in assemble(lowered, 1, schedule=False).steps:
        assert isinstance(step, Segment)
        made = vars(program)["SegmentRun"].of(step, Binder(step), (1, FIRST_PLACE + len(arrays)), len(arrays))
        made.run(made.bind((), ()), arrays, RunContext(), None)


def _lowered(scenario: Reaching, array: Array) -> tuple[LoweringResult, list[Array]]:
    """The program, and the arrays of its places: input, result, and what crosses from one segment to the next."""
    source, result, other = Buffer(array.nbytes), Buffer(array.nbytes), Buffer(array.nbytes)
    target = {"input": source, "output": result}.get(scenario.kind, other)
    if scenario.kind == "constant":
        other.constant = array
    lowered = LoweringResult(inputs=[source])
    tensors = [Tensor("float32", (COUNT,), buffer, name=name) for buffer, name in ((source, "x"), (result, "y"), (other, "z"))]
    lowered.primary = {tensor.buffer: tensor for tensor in tensors if tensor.buffer is not None}
    lowered.outputs = [tensors[1]]
    written = [result, *([other] if scenario.kind in ("crossing", "scratch") else [])]
    lowered.items = [_call(Spec(zero, ["f32"]), [buffer], COUNT) for buffer in written]
    if scenario.kind == "crossing":
        lowered.items.append(None)
    lowered.items.append(_call(Spec(reach, ["f32", "f32"], {"writes": scenario.writes}), [target, result], scenario.at))
    return lowered, [array, np.zeros_like(array), np.zeros_like(array)]


def _call(spec: Spec, operands: list[Buffer], *scalars: int) -> Instruction:
    return Instruction(Node("Reach", (), (), name="reaching"), spec, tuple(operands), scalars, 1, "", None)
