"""python -m tests.session.mixed_sessions FIRST COUNT: random models of `mixed_models`, dealt out to two to four providers.

Every provider has the CPU provider's kernels, so that a session gives the bits of one with the CPU provider alone. What holds of
partitions is looked up in the graph, without what partitioning knows of it. A graph that takes too long ends the process.
"""

import argparse
import faulthandler
import json
import sys
from collections import Counter
from typing import Any

import numpy as np
from onnx import ModelProto

import ort_lite
from ort_lite.partition.assignment import Assignment, Level
from ort_lite.provider import Partition
from tests.provider.texts import plain
from tests.session.mixed_models import feeds, mixed_model
from tests.session.mixed_providers import Share, Whole, entries, providers_for, session

LIMIT_S = 60.0
SEQUENCES = ("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceErase", "SequenceInsert", "SplitToSequence")
CONTROL_FLOW = ("If", "Loop", "Scan")


def check_assignment(found: Assignment) -> None:
    """Every node is in one partition of its graph, or in a body that the partition around it took whole."""
    inside = {node for level in found.levels for node in level.graph}
    for level in found.levels:
        check_level(level)
        for partition in level.partitions:
            whole = [body for node in partition.nodes for body in node.subgraphs() if not inside.issuperset(body)]
            assert not whole or isinstance(partition.provider, Whole)
            inside.update(node for body in whole for node in body.all_nodes())
    assert inside == set(found.graph.all_nodes()) == set(found.placements)


def check_level(level: Level) -> None:
    """Every node has one partition, partitions are in an order that respects all edges, and no two that may be one could be."""
    number = {node: k for k, partition in enumerate(level.partitions) for node in partition.nodes}
    assert set(number) == set(level.graph) and len(number) == sum(len(p.nodes) for p in level.partitions)
    after: list[set[int]] = [set() for _ in level.partitions]
    for node, own in number.items():
        for value in (*node.inputs, *node.captures()):
            producer = value.producer if value is not None else None
            if producer in number and number[producer] != own:
                assert number[producer] < own, f"{level.partitions[own].name} comes before what it reads"
                after[number[producer]].add(own)
    reach = [set(own) for own in after]
    for own in reversed(range(len(reach))):
        for other in after[own]:
            reach[own] |= reach[other]
    for second, later in enumerate(level.partitions):
        for first, earlier in enumerate(level.partitions[:second]):
            if earlier.provider is later.provider and not (stays_apart(earlier) or stays_apart(later)):
                around = any(second in reach[other] for other in after[first] if other != second)
                assert around, f"{earlier.name} and {later.name} could be one"


def stays_apart(partition: Partition) -> bool:
    """It is a unit that its provider keeps apart from its others."""
    return isinstance(partition.provider, Share) and any(map(partition.provider.apart, partition.nodes))


def same(mine: Any, right: Any) -> bool:
    """Bit by bit, but for which not-a-number it is."""
    if isinstance(right, list):
        return isinstance(mine, list) and len(mine) == len(right) and all(map(same, mine, right))
    if mine is None or right is None or mine.dtype != right.dtype or mine.shape != right.shape:
        return mine is right
    if right.dtype == object:
        return np.array_equal(mine, right)
    return mine.tobytes() == right.tobytes() or (
        right.dtype.kind == "f" and bool(np.all((np.isnan(mine) & np.isnan(right)) | (bits(mine) == bits(right))))
    )


def bits(array: Any) -> Any:
    return array.view(f"u{array.itemsize}")


def check_model(seed: int) -> Counter[str]:
    """Raises AssertionError for what does not hold; returns what there was of each kind."""
    fused = bool(seed // 3 % 2)
    # Fused, Casts to float16 and back go, and the rounding with them: only those that no border parts.
    model = mixed_model(seed, size_of(seed), without=("float16",) if fused else ())
    data, fed = model.SerializeToString(), feeds(model, seed)
    options = ort_lite.SessionOptions() if fused else plain()
    expected = session(data, options, []).run(None, fed)
    made = session(data, options, providers_for(seed, fused))
    found = made.explain().assignment
    check_assignment(found)
    if seed % 10 == 0:
        planned = ort_lite.plan(data, entries(providers_for(seed, fused)), options).assignment
        assert planned.as_dict() == found.as_dict(), "the same model and providers give another assignment"
    for _ in range(2):
        for mine, right, output in zip(made.run(None, fed), expected, made.get_outputs(), strict=True):
            assert same(mine, right), f"{output.name} is {mine}, expected {right}"
    return counts(model, found, fused)


def size_of(seed: int) -> int:
    """Mostly tens of nodes, every fiftieth model 150."""
    return 150 if seed % 50 == 0 else 5 + seed % 45


def counts(model: ModelProto, found: Assignment, fused: bool) -> Counter[str]:
    nodes = list(found.graph.all_nodes())
    operators = {node.op_type for node in nodes}
    nested = any(inner.op_type in CONTROL_FLOW for n in nodes for body in n.subgraphs() for inner in body)
    devices = {str(p.provider.device) for p in found.partitions}
    said = {
        "models": True,
        "fused": fused,
        "control flow": any(name in operators for name in CONTROL_FLOW),
        "nested": nested,
        "host values": any(p.host_values for p in found.partitions),
        "bodies on a device": any(level.on_device for level in found.levels),
        "captures": any(node.captures() for node in nodes),
        "sequences": any(name in operators for name in SEQUENCES),
        "functions": bool(model.functions),
        "optionals": any(name.startswith("Optional") for name in operators),
        f"{len(found.providers)} providers": True,
        f"{len(devices)} devices": True,
        **{name: name in operators for name in CONTROL_FLOW},
        **{dtype: True for node in nodes for v in node.outputs if v is not None and (dtype := v.dtype)},
    }
    made = Counter({name: 1 for name, so in said.items() if so})
    made["nodes"] = len(nodes)
    made["partitions"] = len(found.partitions)
    made["copies"] = sum(len(level.copies) for level in found.levels)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.session.mixed_sessions", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--go-on", action="store_true", help="name models that fail, and go on with the next")
    chosen = parser.parse_args()
    total: Counter[str] = Counter()
    for seed in range(chosen.first, chosen.first + chosen.count):
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        try:
            total += check_model(seed)
        except Exception as error:
            if not chosen.go_on:
                error.add_note(f"seed {seed}")
                raise
            total["failed"] += 1
            sys.stdout.write(f"seed {seed}: {type(error).__name__}: {error}\n")
            sys.stdout.flush()
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.write(json.dumps(dict(sorted(total.items()))) + "\n")


if __name__ == "__main__":
    main()
