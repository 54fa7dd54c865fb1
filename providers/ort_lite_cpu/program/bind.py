"""Binding: a Segment and the values of its symbols -> a Bound, ready to run. Cached per values; well under a millisecond."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import NodeFailure, OutOfMemory
from ort_lite.graph import Node
from ort_lite.memory.arenas import allocate_array
from ort_lite.memory.planning import packing
from ort_lite.memory.planning.block_kernels import Blocks, spec
from ort_lite.memory.planning.planner import DEFAULT_PLANNER, MemoryPlanner, pack_blocks
from ort_lite.native import load
from ort_lite.native.missing import WAIT
from ort_lite.native.spec import Spec
from ort_lite.record import Record, field
from ort_lite_cpu.lowering.lowered import ROOM
from ort_lite_cpu.program.evaluate import LIMIT, evaluate
from ort_lite_cpu.program.segment import Segment
from ort_lite_cpu.run.interrupt import INTERRUPT

ALIGNMENT = 64
"""Of the addresses and sizes of scratch buffers."""
LARGE = 1 << 15
"""Bytes from which on a result is worth the microsecond that aligning it takes."""


class Bound(Record, frozen=False):
    """Instructions with addresses of descriptors filled in; `allocations` are what to make before a run."""

    table: Array
    table_address: int
    count: int
    scratch: int
    allocations: Sequence[tuple[int, Callable[[tuple[int, ...], np.dtype[Any]], Array], tuple[int, ...], np.dtype[Any]]]
    """(place, what makes an array, shape, dtype)"""
    cost_us: float
    descriptors: Array
    values: Sequence[int]
    """Of the segment's leaves."""
    offsets: Array
    """Of the scratch buffers, and their sizes: what `plans.memory_plan` shows and the overlap checker looks at."""
    sizes: Array
    tries: int = 0
    """Runs that were timed; `gil`: what the next one does with it. See `segment_run`."""
    least_us: float = math.inf
    gil: int = 0
    token: object = field(default_factory=object)
    """What stands for it where it need not be kept."""
    about: Sequence[Mapping[str, str]] | None = None
    """The args of the events of its instructions, once a run was recorded."""

    @property
    def nbytes(self) -> int:
        """The bytes that caching it takes."""
        return sum(array.nbytes for array in (self.table, self.descriptors, self.offsets, self.sizes))


_EVALUATE = Spec.plain(evaluate, "void(i64,i64,i64)")
SPECS = (_EVALUATE, INTERRUPT, spec(packing.first_fit))
"""What binding needs, and ending a run. Loaded together with a program's kernels, which costs a third of one after the other."""


@cache
def _evaluate() -> Any:
    [address] = load([_EVALUATE])
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(address)


class Binder:
    """Binds one Segment; a memory planner packs its scratch. `bind` may be called from many threads. `compile`: see `Blocks`."""

    def __init__(
        self, segment: Segment, planner: MemoryPlanner = DEFAULT_PLANNER, compile: str = WAIT, blocks: bytes = b""
    ) -> None:
        """`blocks`: the dumped blocks of an equal segment."""
        self.segment, self._planner, self._compile = segment, planner, compile
        count = len(segment.starts)
        lifetimes, align = (segment.starts, segment.ends), np.full(count, ALIGNMENT)
        if blocks:
            self._blocks = Blocks.restore(*lifetimes, align, blocks, compile)
        else:
            self._blocks = Blocks(np.zeros(count, np.int64), *lifetimes, align, compile)
        if count:
            self._blocks.near()  # now, as no run waits
        # Where descriptor i begins, in bytes from the first.
        self._descriptor_bytes = segment.descriptor_starts * 8

    def __reduce__(self) -> tuple[Any, ...]:
        return Binder, (self.segment, self._planner, self._compile, self._blocks.dump())

    def bind(self, values: Sequence[int]) -> Bound:
        """`values` of the segment's leaves, in order. Raises NodeFailure where a requirement fails."""
        segment = self.segment
        slots = segment.initial.copy()
        slots[segment.leaf_slots] = values
        _evaluate()(segment.code.ctypes.data, len(segment.code), slots.ctypes.data)
        for k in np.flatnonzero(slots[segment.requirement_slots] == 0).tolist():
            requirement, numbers = segment.requirements[k], slots[segment.number_slots[k]].tolist()
            message = requirement.message.format(*numbers) + requirement.inside
            raise NodeFailure(f"{requirement.node} (CPUExecutionProvider): {message}").about(requirement.node)
        sizes = (slots[segment.size_slots] + (ALIGNMENT - 1)) & -ALIGNMENT
        for k in np.flatnonzero((sizes < 0) | (sizes >= LIMIT)).tolist():
            node = segment.instructions[int(segment.starts[k])].node
            raise self._impossible(node, f"{int(sizes[k])} bytes", values)
        dims = slots[segment.dim_slots]
        for k in np.flatnonzero(dims < 0).tolist():
            raise self._impossible(segment.dim_nodes[k], f"a dimension of {int(dims[k])}", values)
        offsets, scratch = self.pack(sizes)
        slots[segment.offset_slots] = offsets
        descriptors = slots[segment.index]
        table = segment.table.copy()
        table[:, 1] = self._descriptor_bytes + descriptors.ctypes.data
        table[:, 2] = slots[segment.parts_slots]
        table[:, 3] = slots[segment.rounds_slots]
        empty = slots[segment.result_slots] == 0
        if empty.any():
            table[empty, 0], table[empty, 2:] = segment.nothing, 1
        allocations = []
        for allocation in segment.allocations:
            shape, dtype = tuple(slots[allocation.slots].tolist()), allocation.dtype
            nbytes = math.prod(shape) * dtype.itemsize
            if any(dim < 0 for dim in shape) or nbytes >= LIMIT:
                raise self._impossible(allocation.node, f"the shape {shape}", values)
            make = np.empty if nbytes < LARGE else partial(allocate_array, nbytes=nbytes)
            allocations.append((allocation.place, make, shape, dtype))
        cost = float(slots[segment.work_slots].sum()) / 1000
        return Bound(table, table.ctypes.data, len(table), scratch, allocations, cost, descriptors, values, offsets, sizes)

    def pack(self, sizes: Array) -> tuple[Array, int]:
        """(offsets of scratch buffers of these sizes, bytes of the arena). Raises InvalidPlan, OutOfMemory beyond 2**62 bytes."""
        offsets = pack_blocks(self._planner, self._blocks.of(sizes), self.segment.names)
        if offsets.min(initial=0) < 0:
            left, name = int((offsets < 0).sum()), self._planner.name
            raise OutOfMemory(
                f"CPUExecutionProvider: memory planner {name!r} found no place below 2**62 bytes for {left} of {len(sizes)} buffers"
            )
        return offsets, int((offsets + sizes).max(initial=0))

    def _impossible(self, node: Node, what: str, values: Sequence[int]) -> NodeFailure:
        known = zip(self.segment.leaves, values, strict=True)
        pairs = ", ".join(f"{symbol} = {value}" for (symbol, source), value in known if source.index != ROOM)
        return NodeFailure(f"{node} (CPUExecutionProvider): a result would have {what}{' for ' * bool(pairs)}{pairs}").about(
            node
        )
