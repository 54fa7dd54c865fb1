"""A check of the memories of a device: their order, and runs by plans for little memory."""

from functools import partial
from typing import Any, NamedTuple

from ort_lite.errors import OutOfMemory
from ort_lite.memory.planning.checker import check
from ort_lite.memory.planning.memories import Memories
from ort_lite.memory.planning.plan import MemoryPlan
from ort_lite.options.config_keys import MEMORIES
from ort_lite.session.session import Session
from ort_lite.testing.cases import Case, in_a_row
from ort_lite.testing.checks.tries import call_for, format_exception
from ort_lite.testing.hosts import options, quiet
from ort_lite.testing.kit import Finding, Kit, copy_feed

ROWS = 4
"""The operators of which three in a row are planned: only intermediate tensors can be in the wrong memory."""


class Planned(NamedTuple):
    """The results of a run, and the plans of the partitions that run by memories which the session states."""

    results: list[Any]
    plans: list[MemoryPlan]


def memories(kit: Kit) -> list[Finding]:
    """Check that `memories()` names the fastest first, and that plans keep the limits that a session states.

    With less memory, a run gives the same results or raises OutOfMemory. Providers whose partitions do not plan for stated memories
    are not run.
    """
    declared = kit.make().memories()
    wrong = call_for(lambda: Memories.of(tuple(declared)) if declared else None)
    found = [Finding("memories", "", format_exception(wrong))] if isinstance(wrong, Exception) else []
    for case in (*map(in_a_row, kit.unary[:ROWS]), *kit.some):
        free = call_for(partial(_run, kit, case, "fast=*"))
        if isinstance(free, Exception) or not free.plans:
            continue  # what fails without a limit is a finding of `claims`
        remote = call_for(partial(_run, kit, case, "fast=*, slow=*:remote"))
        if isinstance(remote, Exception):
            found.append(Finding("memories", case.name, format_exception(remote)))
            continue
        peak = max((arena.used for plan in remote.plans for arena in plan.arena_usages.values()), default=0)
        for text in (f"fast={peak}, slow=*:remote", f"fast={peak // 2}, slow=*", f"fast={peak // 2}, slow=*:remote"):
            problem = _problem(kit, case, text, free.results)
            found += [Finding("memories", case.name, f"{MEMORIES} {text}: {problem}")] if problem else []
    return found


def _run(kit: Kit, case: Case, text: str) -> Planned:
    made = options()
    made.add_session_config_entry(MEMORIES, text)
    with quiet():
        session = Session(case.model, made, providers=[(kit.make(), {"on_compile_error": "raise"})])
    try:
        results = session.run(None, copy_feed(case.feed))
        return Planned(results, [p for p in session.memory_plans().values() if isinstance(p, MemoryPlan) and p.memories])
    finally:
        session.close()


def _problem(kit: Kit, case: Case, text: str, expected: list[Any]) -> str | None:
    """Return what is wrong with a run by stated memories, if anything."""
    got = call_for(partial(_run, kit, case, text))
    if isinstance(got, OutOfMemory):
        return None
    if isinstance(got, Exception):
        return format_exception(got)
    for plan in got.plans:
        wrong = call_for(partial(check, plan))
        if isinstance(wrong, Exception):
            return format_exception(wrong)
        for name, limit in ((name, memory.size) for name, memory in plan.memories.items()):
            arenas = (plan.arena_usages, plan.constant_arenas, plan.persistent_arenas)
            used = sum(arena[name].used for arena in arenas if name in arena)
            if limit is not None and used > limit:
                return f"the plan uses {used:,} of {limit:,} bytes of {name!r}"
    return kit.differs(got.results, expected, case)
