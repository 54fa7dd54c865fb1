"""`ort-lite plan MODEL.onnx`: show where and when each tensor of a run lives, the size of the arenas, and the lower bound."""

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.memory.planning.plan import MemoryPlan, TensorAllocation
from ort_lite.memory.planning.requests import ArenaRole
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.feed_arguments import feeds_of
from ort_lite.tools.cli.printing import print_json, print_table, print_text

COLUMNS = ("tensor", "arena", "offset", "bytes", "from", "to", "shares the bytes of")
_KEYS = {"from": "first_step", "to": "last_step", "shares the bytes of": "alias_of"}
"""Keys of the JSON for columns whose names are not keys."""


def main(arguments: Namespace) -> None:
    """Run `ort-lite plan`. It runs the model once, because memory is planned when sizes are known."""
    with session_arguments.session(arguments, arguments.model) as session:
        feeds = feeds_of(arguments, session.get_inputs())
        session.run(None, feeds)
        plans = {name: plan for name, plan in session.memory_plans().items() if isinstance(plan, MemoryPlan)}
        names = [partition.name for partition in session.explain().assignment.partitions]
    if not plans:
        raise InvalidArgument(
            f"none of {', '.join(names) or 'no partition'} states a plan; --providers chooses who runs the model"
        )
    if arguments.json:
        print_json("plan", {"partitions": {name: _data(plan) for name, plan in plans.items()}})
        return
    for name, plan in plans.items():
        _show(name, plan, arguments.top)
    for name in names:
        if name not in plans:
            print_text(f"{name} states no plan")


def _show(name: str, plan: MemoryPlan, top: int) -> None:
    shapes = ", ".join(f"{value} {list(shape)}" for value, shape in plan.shapes.items())
    print_text(f"{name}{f', for {shapes}' if shapes else ''}\n{plan}")
    rows = list(_rows(plan))
    shown = rows[:top] if top > 0 else rows
    print_table(COLUMNS, ([_text(row[column]) for column in COLUMNS] for row in shown), COLUMNS[2:6])
    if len(shown) < len(rows):
        print_text(f"{len(rows) - len(shown)} more: --top 0 shows all")


def _text(cell: Any) -> str:
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell)


def _rows(plan: MemoryPlan) -> Iterator[dict[str, Any]]:
    """Return one row of COLUMNS per tensor, ordered by offset."""
    order = sorted(
        plan.tensor_allocs.values(), key=lambda slot: (_arena(slot), slot.offset, _first(plan, slot), slot.tensor_id)
    )
    for slot in order:
        life = plan.tensor_lifetimes.get(slot.tensor_id)
        span = (None, None) if life is None else (life.start_op, life.end_op)
        shared = plan.aliases.get(slot.tensor_id)
        yield dict(zip(COLUMNS, (slot.tensor_id, _arena(slot), slot.offset, slot.size, *span, shared), strict=True))


def _arena(slot: TensorAllocation) -> str:
    return f"{slot.role} in {slot.memory}"


def _first(plan: MemoryPlan, slot: TensorAllocation) -> int:
    life = plan.tensor_lifetimes.get(slot.tensor_id)
    return -1 if life is None else life.start_op


def _data(plan: MemoryPlan) -> dict[str, Any]:
    arenas = [
        {"arena": f"{role} in {memory}", "bytes": arena.total_size, "used": arena.used}
        for role in ArenaRole
        for memory, arena in plan.arenas(role).items()
    ]
    proofs = {
        memory: {"peak": found.peak, "lower_bound": found.lower_bound, "gap": found.gap}
        for memory, found in plan.certificates.items()
    }
    told = {"planner": plan.planner, "shapes": plan.shapes, "steps": plan.steps}
    return {
        **told,
        "arenas": arenas,
        "certificates": proofs,
        "tensors": [{_KEYS.get(name, name): cell for name, cell in row.items()} for row in _rows(plan)],
    }
