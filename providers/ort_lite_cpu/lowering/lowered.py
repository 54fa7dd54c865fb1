"""The result of lowering: instructions and steps over buffers, in order, with symbolic sizes.

`segment.assemble` goes on from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_lite.graph import Graph, Node, Value
from ort_lite.inference import Info
from ort_lite.native.cpu import Target, host
from ort_lite.native.spec import Spec
from ort_lite.provider import Body
from ort_lite.provider.compiled import CandidateCost
from ort_lite.record import Record, field
from ort_lite.shapes import Symbol
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.tensor import Buffer, Tensor
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.run.kernels import Kernels
from ort_lite_cpu.run.work_item import MAX_PARTS

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.deferred_suffix import SuffixProgram
    from ort_lite_cpu.lowering.failure import Failure
    from ort_lite_cpu.run.bounded_cache import BoundedCache

Kernel = Callable[..., int]
Message = str | Callable[["Failure"], str]
"""The meaning of a failing status: words with {index} for the position that the kernel reports, or a function that returns them."""


Wiring = tuple[Sequence[int], Sequence[Any] | None, Sequence[tuple[int, int, Callable[[Any], Any]]]]
"""The slots of a HostStep: those of inputs, -1 for constants and missing ones; the constants, or None; and its results.

Each result is (number, slot, check).
"""


ROOM = -1
"""The index of a SymbolSource that is the room of an input: the rows for which its memory has room, or 0 (see `Program.grow`)."""


SERIAL = 0
"""Slices of a kernel that has one part, however much work that is."""
SLICES = 4
"""The most parts for each of several threads, of an instruction that takes long: a thread that is late leaves some to others."""


def most_parts(threads: int, slices: int = SLICES) -> int:
    """Return the most parts of an instruction: up to `slices` for each thread, as many for one as for another."""
    return 1 if threads == 1 or slices == SERIAL else threads * max(min(slices, MAX_PARTS // threads), 1)


class SymbolSource(Record):
    """The source of a symbol's value at run time: dimension `index`, element `index` in flat order, or ROOM, of a buffer's array."""

    buffer: Buffer
    index: int
    element: bool


class Instruction(Record, frozen=False):
    """One kernel call. Scalars are symbolic integers or floats; operands None are null pointers."""

    node: Node
    spec: Spec
    operands: tuple[Buffer | None, ...]
    scalars: tuple[Dim | float, ...]
    work: Dim
    message: Message
    inplace: tuple[int, int] | None
    rounds: Dim = 1
    """The number of calls, each with all parts: see `run.loop`."""
    jump: int = 0
    """The number of instructions to jump by if the kernel returns TAKEN, backwards if negative; 0 if it is no jump."""
    slices: int = SLICES
    """The most parts for each of several threads; 1 if each part computes something that others compute as well; SERIAL."""
    over: tuple[int, int] | None = None
    """(output, input) operand positions that are the same memory in a run whose caller lends it. It may be repeated all the same."""
    inside: str = ""
    """The end of errors for a node of a body: its name, and the node that it belongs to."""


class Source(Record, frozen=False, eq=False):
    """The nodes that a program was lowered from: it may be lowered again, inside of another one."""

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    bodies: Mapping[Graph, Body]
    options: CPUOptions
    inlined: bool = False
    """True if nothing calls the program: its instructions are part of the one around it, or its branch is never taken."""


class HostStep(Record, frozen=False):
    """Work between two segments: a Python step, or a control-flow node that calls compiled bodies.

    `function` takes the inputs' arrays and returns the outputs' (None where an output is not wanted). `programs` are those that a
    `DeferredSuffix` has lowered during runs, and keeps.
    """

    node: Node
    function: Callable[..., Sequence[Any]]
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...]
    python: bool
    programs: BoundedCache[Any, SuffixProgram] | None = None
    wiring: Wiring | None = None
    """The slots that the first run looks up for all runs."""


class ResultRegion(Record):
    """The result of a kernel, as the rows of an operand, for an activation in its epilogue or by another kernel."""

    tensor: Tensor
    rows: Dim
    columns: Dim
    at: Dim = 0
    ld: Dim = 0


def whole(y: Tensor) -> ResultRegion:
    """Return all of a tensor."""
    return ResultRegion(y, 1, y.size)


class Requirement(Record, frozen=False):
    """The run fails with `message` where `condition` is 0; {0}, {1}, ... in it stand for the numbers."""

    node: Node
    condition: Dim
    message: str
    numbers: tuple[Dim, ...]
    expected: bool = False
    """True if it is no condition of the operator: if it does not hold, another program runs."""
    inside: str = ""
    """The end of errors, as of an Instruction."""


class Choice(Record):
    """The candidate that computes a node, and the others."""

    taken: str
    costs: Mapping[str, CandidateCost]
    """The predicted costs of each candidate that fits."""
    rejected: Mapping[str, str]
    """The reason why each of the others does not fit."""


class LoweringResult(Record, frozen=False):
    """The result of lowering: `items` in order. None marks where one segment ends and the next binds on values read by then."""

    LATER = frozenset({"items", "inputs", "outputs", "sources", "primary", "rooms", "wanted", "choices", "restorers"})
    items: list[Instruction | HostStep | Requirement | None] = field(default_factory=list)
    inputs: list[Buffer] = field(default_factory=list)
    input_infos: list[Info] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    sources: dict[Symbol, SymbolSource] = field(default_factory=dict)
    primary: dict[Buffer, Tensor] = field(default_factory=dict)
    """The tensor for which a buffer was made: element type and shape of its array when it has one of its own."""
    rooms: dict[Buffer, Buffer] = field(default_factory=dict)
    """The pasts by presents whose kernels can have room behind the rows of both."""
    kernels: Kernels = field(default_factory=lambda: Kernels(host()))
    wanted: list[Spec] = field(default_factory=list)
    """Missing fused kernels, which were replaced."""
    assumptions: list[Dim] = field(default_factory=list)
    """Conditions on dimensions of inputs that were taken to be 1: for shapes for which one is 0 the program is another."""
    choices: dict[Node, Choice] = field(default_factory=dict)
    """The candidate of each node that has several."""
    restorers: dict[int, Callable[[], Any]] = field(default_factory=dict)
    """Functions that recreate the arrays of constants from their packed forms, by id of the array."""

    @property
    def target(self) -> Target:
        """The target of kernels."""
        return self.kernels.target


NOWHERE = Node("Copy", (), (), name="(inserted)")
"""The node of instructions that no node asked for: changes of storage order, copies."""
