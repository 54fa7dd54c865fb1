"""Random graphs of up to 200 nodes over two to four providers, the real CPU provider last.

What partitioning must keep for every one of them: it runs, it computes what the reference computes, bit by bit, no two
partitions of one provider could be one, and the same graph and providers give the same assignment.
"""

import os
import random
from functools import cache, partial

import numpy as np
import pytest

from ort_lite.compile.compile import compile_assignment
from ort_lite.graph import Graph, Node
from ort_lite.partition.assignment import Assignment, Level
from ort_lite.partition.partition import partition
from ort_lite.plugins import shape_rules
from ort_lite.provider import Capability, ExecutionProvider
from ort_lite_cpu.provider import CPUExecutionProvider
from tests.partition.random_graphs import feeds, random_graph
from tests.provider.numpy_provider import NumpyProvider, OtherDevice, reference

# RANDOM_GRAPHS=50000 runs more of them: an interface of this file alone.
GRAPHS = int(os.environ.get("RANDOM_GRAPHS", "2000"))
BATCH = 50
FUSED = 100


class Part(NumpyProvider):
    name = "PartExecutionProvider"


class Chunks(NumpyProvider):
    """Takes pairs of neighbours as units: reader and producer, wherever both are free."""

    name = "ChunksExecutionProvider"


@cache
def cpu(fusion: bool) -> CPUExecutionProvider:
    return CPUExecutionProvider(threads=1, fusion=fusion)


def providers_for(seed: int, main: Graph, fusion: bool) -> list[ExecutionProvider]:
    """One to three that take random nodes, and the default one."""
    rng = random.Random(seed)
    kinds: list[type[NumpyProvider]] = [NumpyProvider, OtherDevice, Part, Chunks]
    made: list[ExecutionProvider] = []
    for kind in rng.sample(kinds, 1 + seed % 3):
        share = rng.choice((0.2, 0.5, 0.8))
        chosen = {node.name for node in main.all_nodes() if rng.random() < share}
        takes = partial(wanted, chosen, kind is OtherDevice)  # its bodies would run on the CPU
        made.append(kind(takes, group=partial(pair, takes)) if kind is Chunks else kind(takes))
    return [*made, cpu(fusion)]


def wanted(chosen: set[str], flat: bool, node: Node) -> bool:
    return node.name in chosen and not (flat and node.op_type == "If")


def pair(takes: "partial[bool]", node: Node) -> Capability:
    """The node, with the producer of its first input where that is at hand: units may overlap or close a cycle."""
    first = node.inputs[0]
    before = first.producer if first is not None else None
    near = before is not None and before.graph is node.graph and takes(before) and len(node.name) % 2 == 0
    return Capability([before, node] if near and before is not None else [node])


def size_of(seed: int) -> int:
    """Mostly tens of nodes, every twentieth graph 200."""
    return 200 if seed % 20 == 0 else 5 + seed % 45


def check_level(level: Level) -> None:
    """Every node has one partition, partitions are in an order that respects all edges, and none can be joined."""
    number = {node: k for k, p in enumerate(level.partitions) for node in p.nodes}
    assert set(number) == set(level.graph) and len(number) == sum(len(p.nodes) for p in level.partitions)
    after = [0] * len(level.partitions)  # bit sets of the partitions that read from each
    for node, own in number.items():
        for value in (*node.inputs, *node.captures()):
            producer = value.producer if value is not None else None
            if producer in number and number[producer] != own:
                assert number[producer] < own, f"{level.partitions[own].name} comes before what it reads"
                after[number[producer]] |= 1 << own
    reach = list(after)
    for own in reversed(range(len(reach))):
        for other in bits(after[own]):
            reach[own] |= reach[other]
    for second, later in enumerate(level.partitions):
        for first, earlier in enumerate(level.partitions[:second]):
            if earlier.provider is later.provider:
                around = any(reach[other] >> second & 1 for other in bits(after[first]) if other != second)
                assert around, f"{earlier.name} and {later.name} could be one"


def bits(word: int) -> list[int]:
    return [k for k in range(word.bit_length()) if word >> k & 1]


def check_graph(seed: int, size: int, fusion: bool) -> None:
    main = random_graph(seed, size, depth=2, dtype="int32")
    rules = shape_rules()
    providers = providers_for(seed, main, fusion)
    found: Assignment = partition(main, providers, rules)
    again = partition(main, providers_for(seed, main, fusion), rules)
    assert found.to_json(indent=None) == again.to_json(indent=None)
    for level in found.levels:
        check_level(level)
    for node in main.all_nodes():
        place = found.of(node)
        assert {place.provider, *(reason.provider for reason in place.reasons)} == set(found.providers), "each says why not"
    expected = reference(main, feeds(seed, "int32"))
    for got, want in zip(compile_assignment(found).executable.run(feeds(seed, "int32")), expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("batch", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, GRAPHS // BATCH))])
def test_spec_5_3_several_providers_compute_of_random_graphs_what_one_computes(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        check_graph(seed, size_of(seed), fusion=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FUSED))
def test_spec_5_7_no_two_partitions_could_be_one_where_expressions_are_fused(seed: int) -> None:
    check_graph(seed, 4 + seed % 4, fusion=True)
