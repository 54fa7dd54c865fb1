"""`ort-lite plan MODEL.onnx`: show where and when each tensor of a run lives, the size of the arenas, and the lower bound."""

from argparse import Namespace
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.errors import InvalidArgument
from ort_lite.memory.planning.plan import MemoryPlan, TensorAllocation, TensorMove
from ort_lite.memory.planning.requests import ArenaRole
from ort_lite.options.config_keys import MEMORIES
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.feed_arguments import feeds_of
from ort_lite.tools.cli.graph_plans import GraphPlans
from ort_lite.tools.cli.printing import print_json, print_table, print_text

MOVE_COLUMNS = ("tensor", "bytes", "from", "to", "before")
COLUMNS = ("tensor", "arena", "offset", "bytes", "from", "to", "shares the bytes of")
_KEYS = {"from": "first_step", "to": "last_step", "shares the bytes of": "alias_of"}
_MOVE_KEYS = {"from": "source", "to": "destination", "before": "before_step"}
"""Keys of the JSON for columns whose names are not keys."""


def main(arguments: Namespace) -> None:
    """Run `ort-lite plan`. It runs the model once, because memory is planned when sizes are known."""
    if arguments.memory:
        arguments.config = [*arguments.config, f"{MEMORIES}={arguments.memory}"]
    with session_arguments.session(arguments, arguments.model) as session:
        feeds = feeds_of(arguments, session.get_inputs())
        session.run(None, feeds)
        plans = {name: plan for name, plan in session.memory_plans().items() if isinstance(plan, MemoryPlan)}
        reasons = {partition.name: "states no plan" for partition in session.explain().assignment.partitions}
        if arguments.memory:
            plans, reasons = _plans_for_memories(session, feeds, plans)
    if not plans:
        raise InvalidArgument(
            f"{', '.join(f'{name} {reason}' for name, reason in reasons.items()) or 'no partition'}; --providers chooses who "
            "runs the model"
        )
    if arguments.picture:
        Path(arguments.picture).write_text(_page(plans), "utf-8")
    if arguments.json:
        print_json("plan", {"partitions": {name: _data(plan) for name, plan in plans.items()}})
        return
    for name, plan in plans.items():
        _show(name, plan, arguments.top)
    for name, reason in reasons.items():
        if name not in plans:
            print_text(f"{name} {reason}")


def _plans_for_memories(
    session: InferenceSession, feeds: dict[str, Any], stated: dict[str, MemoryPlan]
) -> tuple[dict[str, MemoryPlan], dict[str, str]]:
    """Return the plans of partitions that run by the stated memories, plans of the graph for others, and reasons for the rest."""
    memory = session._state.session_memory
    memories = memory.device_memories(())
    assert memories is not None
    prepared = session._stage_results
    others = GraphPlans(prepared.model.graph, feeds, memories, memory.planner)
    found: dict[str, MemoryPlan] = {}
    reasons: dict[str, str] = {}
    for partition in prepared.assignment.partitions:
        plan = stated.get(partition.name)
        try:
            is_planned = plan is not None and plan.memories == memories.declared
            found[partition.name] = plan if plan is not None and is_planned else others.plan(partition)
        except InvalidArgument as error:
            reasons[partition.name] = f"is not planned: {error}"
    return found, reasons


def _page(plans: dict[str, MemoryPlan]) -> str:
    """Return a page that draws plans."""
    parts = [f"<h2>{escape(name)}</h2>\n{plan._repr_html_()}" for name, plan in plans.items()]
    return "\n".join(['<!doctype html>\n<meta charset="utf-8">\n<title>Memory plan</title>', *parts])


def _show(name: str, plan: MemoryPlan, top: int) -> None:
    shapes = ", ".join(f"{value} {list(shape)}" for value, shape in plan.shapes.items())
    print_text(f"{name}{f', for {shapes}' if shapes else ''}\n{plan}")
    rows = list(_rows(plan))
    shown = rows[:top] if top > 0 else rows
    print_table(COLUMNS, ([_text(row[column]) for column in COLUMNS] for row in shown), COLUMNS[2:6])
    if len(shown) < len(rows):
        print_text(f"{len(rows) - len(shown)} more: --top 0 shows all")
    if plan.moves:
        moves = plan.moves[:top] if top > 0 else plan.moves
        print_table(MOVE_COLUMNS, ([_text(cell) for cell in _move(move).values()] for move in moves), MOVE_COLUMNS[1:2])
        if len(moves) < len(plan.moves):
            print_text(f"{len(plan.moves) - len(moves)} more moves: --top 0 shows all")


def _move(move: TensorMove) -> dict[str, Any]:
    return dict(zip(MOVE_COLUMNS, (move.tensor_id, move.size, move.source_memory, move.memory, move.step), strict=True))


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
        "accesses": dict(plan.accesses),
        "moves": [{_MOVE_KEYS.get(name, name): cell for name, cell in _move(move).items()} for move in plan.moves],
        "tensors": [{_KEYS.get(name, name): cell for name, cell in row.items()} for row in _rows(plan)],
    }
