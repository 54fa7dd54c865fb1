"""Settings of the CPU provider that lowering and running depend on."""

from ort_lite.memory.planning.planner import DEFAULT_PLANNER, MemoryPlanner
from ort_lite.memory.pool import ScratchPool
from ort_lite.native.cpu import runnable
from ort_lite.native.missing import WAIT
from ort_lite.record import Record
from ort_lite_cpu.costs import Costs
from ort_lite_cpu.run.kernels import Kernels
from ort_lite_cpu.run.run_context import RunContext


class CPUOptions(Record):
    """threads: of one run, the caller's included. fusion: elementwise expressions become one loop.

    winograd: 3x3 and 5x5 convolutions may use Winograd's F(4x4, 3x3), F(2x2, 3x3) and F(2x2, 5x5): errors about 1e-5 of the largest
    magnitude.
    pool: where runs lease scratch memory; None: each program has a pool of its own. planner: packs scratch memory. target: what kernels
    are compiled for, a name of `ort_lite.native.cpu`. inline: bodies of If, Loop and Scan become part of the program around them where
    they can. compile: what to do about missing kernels, see `ort_lite.native.missing`. steps: types of 16 bits that are rounded where
    the operators of ONNX's functions end, not where a node does. seed: of random numbers without one of their own; None: the system's
    entropy. pins: pairs of a node's name and the candidate that computes it (see `ort_lite_cpu.lowering.candidates`). costs: constants
    of predicted costs; None: those that are shipped for the target.
    """

    threads: int = 1
    fusion: bool = True
    winograd: bool = True
    pool: ScratchPool[RunContext] | None = None
    planner: MemoryPlanner = DEFAULT_PLANNER
    target: str = "host"
    inline: bool = True
    compile: str = WAIT
    steps: frozenset[str] = frozenset({"bfloat16"})
    seed: int | None = None
    pins: tuple[tuple[str, str], ...] = ()
    costs: Costs | None = None

    @property
    def kernels(self) -> Kernels:
        """The source of compiled kernels."""
        return Kernels(runnable(self.target), self.compile)
