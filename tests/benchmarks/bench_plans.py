"""Plans of real models: proved to be safe by the checker, their peak beside the most bytes alive at once.

python tests/benchmarks/bench_plans.py MODEL.onnx=INPUTS.npz ...      arrays by the names of the model's inputs

Prints one line a model with scratch memory; where the two differ, one line for each segment that has a gap, with what is alive
when most is: first the largest tensors. A gap is no proof of waste: the bound is not always attainable.
"""

import sys
from typing import Any

import numpy as np

import ort_lite
from ort_lite.memory.planning.checker import check
from ort_lite.memory.planning.plan import MemoryPlan


def plans(model: str, inputs: dict[str, Any]) -> dict[str, MemoryPlan]:
    session = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"])
    session.run(None, {arg.name: inputs[arg.name] for arg in session.get_inputs() if arg.name in inputs})
    found: dict[str, MemoryPlan] = session.memory_plans()
    return found


def report(model: str, inputs: dict[str, Any]) -> tuple[int, int]:
    """Prints what there is to say; returns peak and bound, arenas added up."""
    peak = bound = 0
    gaps: list[str] = []
    for name, plan in plans(model, inputs).items():
        check(plan)
        for memory, certificate in plan.certificates.items():
            peak, bound = peak + certificate.peak, bound + certificate.lower_bound
            if certificate.gap:
                gaps.append(f"    {name}, {memory}: {certificate}; {crowd(plan, memory)}")
    ratio = f"{peak / bound:.4f}" if bound else "no scratch"
    print(f"{model.rsplit('/', 1)[-1]:44} peak {peak:12,} bound {bound:12,} {ratio}", *gaps, sep="\n", flush=True)
    return peak, bound


def crowd(plan: MemoryPlan, memory: str) -> str:
    """The largest tensors at the moment when most bytes are alive."""
    sizes = {tensor: slot.size for tensor, slot in plan.tensor_allocs.items() if slot.memory == memory}
    lives = {tensor: plan.tensor_lifetimes[tensor] for tensor in sizes}
    moments = {life.start_op for life in lives.values()}
    alive = {at: [t for t, life in lives.items() if life.start_op <= at <= life.end_op] for at in moments}
    most = max(alive, key=lambda at: sum(sizes[t] for t in alive[at]))
    largest = sorted(alive[most], key=lambda t: -sizes[t])[:4]
    tensors = ", ".join(f"{sizes[t]:,} for {lives[t].end_op - lives[t].start_op + 1}" for t in largest)
    return f"at operator {most} {len(alive[most])} tensors live (bytes for so many operators: {tensors})"


def main() -> None:
    for argument in sys.argv[1:]:
        model, _, inputs = argument.partition("=")
        report(model, dict(np.load(inputs)) if inputs else {})


if __name__ == "__main__":
    main()
