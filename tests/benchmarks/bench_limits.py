"""Plans for a fast memory of limited size: what is fast, what is slow, what moves, and that a run moves what the plan says.

python -m tests.benchmarks.bench_limits MODEL.onnx[=DIM:SIZE,...] ...    models: their nodes, and the partitions of the accelerator
python -m tests.benchmarks.bench_limits FOLDER [PROBLEM ...]             packing problems, without uses: what is fast or slow

The fast memory has 1.0, 0.7 and 0.4 of the peak without a limit. Prints a table in Markdown. Every plan is checked, those of models
are also run: nodes with random bytes in arenas, where each operand is compared, and the accelerator with results compared with its own
in one memory.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np
from ort_lite_accelerator import AcceleratorExecutionProvider

import ort_lite
from ort_lite.memory.planning.memories import Memories
from ort_lite.memory.planning.plan import MemoryPlan
from ort_lite.memory.planning.planner import PLANNERS
from ort_lite.memory.planning.program_requests import PlannedProgram
from ort_lite.memory.planning.requests import Memory, MemoryConstraint, Platform, TensorAttributes
from ort_lite.tools.cli.feed_arguments import random
from ort_lite.tools.cli.graph_plans import GraphPlans
from tests.memory import problems
from tests.memory.replay import replay

SHARES = (1.0, 0.7, 0.4)
PLANNER = PLANNERS["adaptive"]
CPU, CARD = "CPUExecutionProvider", AcceleratorExecutionProvider.name


def cells(plan: MemoryPlan, seconds: float) -> str:
    proof, slow = plan.certificates["fast"], plan.accesses.get("slow", 0)
    share = slow / (slow + plan.accesses.get("fast", 0))
    return (
        f"{proof.peak:,} | {proof.ratio:.3f} | {share:.1%} | {len(plan.moves)} | {plan.moved_bytes:,} | {seconds * 1e3:,.0f} ms"
    )


def fed(session: ort_lite.InferenceSession, dims: dict[str, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {
        arg.name: [dims.get(str(d), 1) if not isinstance(d, int) else d for d in arg.shape] for arg in session.get_inputs()
    }
    return {arg.name: random(arg, shapes[arg.name], rng) for arg in session.get_inputs()}


def nodes(model: str, dims: dict[str, int]) -> Iterator[str]:
    """Plan the nodes of a model, run the plans with random bytes, and yield rows."""
    session = ort_lite.InferenceSession(model, providers=[CPU])
    feeds, prepared = fed(session, dims), session._stage_results
    memories = memories_of(None)
    plans = GraphPlans(prepared.model.graph, feeds, memories, PLANNER)
    programs = [plans.program(partition) for partition in prepared.assignment.partitions]
    for number, program in enumerate(programs):
        peak = planned(program, None)[0].certificates["fast"].peak
        for share in SHARES:
            plan, moved, seconds = planned(program, int(peak * share))
            assert moved == plan.moved_bytes
            if peak:
                yield f"{Path(model).stem}, nodes{f' {number}' if len(programs) > 1 else ''} | {share} | {cells(plan, seconds)}"


def memories_of(limit: int | None) -> Memories:
    return Memories.of([Memory("fast", limit), Memory("slow")])


def planned(program: PlannedProgram, limit: int | None) -> tuple[MemoryPlan, int, float]:
    """Return a plan, the bytes that running it moves, and the seconds of planning."""
    memories = memories_of(limit)
    requests = program.requests(memories)
    begin = perf_counter()
    plan = memories.plan(PLANNER, requests, {})
    seconds = perf_counter() - begin
    rng = np.random.default_rng(0)
    contents = {one.tensor_id: rng.integers(0, 256, one.size, np.uint8) for one in requests}
    return plan, replay(plan, requests, contents), seconds


def on_card(model: str, dims: dict[str, int]) -> Iterator[str]:
    """Run a model on the accelerator with limits, and yield rows for its largest partition."""
    free = ort_lite.InferenceSession(model, stated("fast=*, slow=*"), [CARD, CPU])
    feeds = fed(free, dims)
    expected = free.run(None, feeds)
    peaks = {name: plan.certificates["fast"].peak for name, plan in card_plans(free).items() if "fast" in plan.arena_usages}
    largest = max(peaks, key=peaks.__getitem__, default="")
    for share in SHARES if largest else ():
        card = AcceleratorExecutionProvider(mem_limit=8 << 30)
        session = ort_lite.InferenceSession(model, stated(f"fast={int(share * peaks[largest])}, slow=*"), [card, CPU])
        for mine, right in zip(session.run(None, feeds), expected, strict=True):
            np.testing.assert_array_equal(mine, right)
        plans, counted = card_plans(session), card.data_transfer()
        assert counted.moves == sum(len(plan.moves) for plan in plans.values())
        assert counted.moved_bytes == sum(plan.moved_bytes for plan in plans.values())
        yield f"{Path(model).stem}, accelerator | {share} | {cells(plans[largest], 0)}"


def stated(text: str) -> ort_lite.SessionOptions:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.memories", text)
    return options


def card_plans(session: ort_lite.InferenceSession) -> dict[str, MemoryPlan]:
    return {name: plan for name, plan in session.memory_plans().items() if name.startswith(CARD)}


def packing(name: str) -> Iterator[str]:
    """Place a packing problem, and yield rows."""
    problem = problems.Problem.read(name)
    requests, lifetimes = problem.requests(attributes=TensorAttributes("fast")), problem.lifetimes()
    peak = None
    for share in SHARES:
        platform = Platform(("fast", "slow"), min_alignment=1)
        if peak is None:
            peak = Memories(platform).plan(PLANNER, requests, lifetimes).certificates["fast"].peak
        begin = perf_counter()
        plan = Memories(platform, [MemoryConstraint("fast", int(peak * share))]).plan(PLANNER, requests, lifetimes)
        seconds, proof = perf_counter() - begin, plan.certificates["fast"]
        slow = sum(slot.size for slot in plan.tensor_allocs.values() if slot.memory == "slow") / sum(problem.size)
        yield f"{name} | {share} | {proof.peak:,} | {proof.ratio:.3f} | {slow:.1%} | 0 | 0 | {seconds * 1e3:,.0f} ms"


def main() -> None:
    print("| problem | limit | fast peak | / lower bound | slow | moves | bytes moved | planning |\n| --- |", "---: |" * 7)
    first, *rest = sys.argv[1:]
    rows: Iterator[str]
    if Path(first).is_dir():
        problems.DATA = Path(first)
        for name in rest or sorted((p.stem for p in Path(first).glob("*.csv")), key=lambda name: (len(name), name)):
            for row in packing(name):
                print(f"| {row} |", flush=True)
        return
    for argument in (first, *rest):
        model, _, text = argument.partition("=")
        dims = {name: int(size) for name, _, size in (part.partition(":") for part in text.split(",") if part)}
        for rows in (nodes(model, dims), on_card(model, dims)):
            for row in rows:
                print(f"| {row} |", flush=True)


if __name__ == "__main__":
    main()
