"""Runs of a memory plan with bytes in arenas: what operators write is what they should, what they read is compared with it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.planning.plan import MemoryPlan
from ort_lite.memory.planning.requests import ArenaRole, TensorRequest


def replay(plan: MemoryPlan, requests: Sequence[TensorRequest], contents: Mapping[str, Array]) -> int:
    """Run a plan and return the bytes that it moved. `contents` has the bytes of each tensor, as uint8.

    Fails if an operator finds other bytes than a tensor's, or if an output of the program ends with others.
    """
    arenas = {(role, name): np.zeros(a.total_size, np.uint8) for role in ArenaRole for name, a in plan.arenas(role).items()}
    outside = {one.tensor_id: np.zeros(one.size, np.uint8) for one in requests if one.outside}

    def place(allocation: str, size: int) -> Any:
        slot = plan.tensor_allocs.get(allocation)
        return outside[allocation] if slot is None else arenas[slot.role, slot.memory][slot.offset : slot.offset + size]

    known = {one.tensor_id: one for one in requests}
    for one in requests:
        if one.role is not ArenaRole.scratch or one.outside == "input":
            place(one.tensor_id, one.size)[...] = contents[one.tensor_id]
    for copy, name in plan.copies.items():
        if plan.tensor_allocs[copy].role is ArenaRole.constant:
            place(copy, known[name].size)[...] = contents[name]
    moved, moves = 0, list(plan.moves)
    last = max((use for one in requests for use in one.uses), default=-1) + 1
    for step in range(last + 1):
        while moves and moves[0].step <= step:
            move = moves.pop(0)
            place(move.destination, move.size)[...] = place(move.source, move.size)
            moved += move.size
        used = [one for one in requests if step in one.uses]
        slots = {one.tensor_id: plan.allocation_at(one.tensor_id, step) for one in used}
        places = {name: place(slot.tensor_id if slot else name, known[name].size) for name, slot in slots.items()}
        for one in used:
            if one.role is ArenaRole.scratch and one.outside != "input" and step == min(one.uses):
                places[one.tensor_id][...] = contents[one.tensor_id]
        for one in used:
            assert (places[one.tensor_id] == contents[one.tensor_id]).all(), f"op {step} finds other bytes for {one.tensor_id}"
    assert not moves
    for one in requests:
        if one.outside == "output":
            assert (outside[one.tensor_id] == contents[one.tensor_id]).all()
    return moved
