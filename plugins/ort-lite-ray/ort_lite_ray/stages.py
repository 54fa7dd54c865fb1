"""The division of a partition into stages, one after the other, for a number of actors."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Node, Value
from ort_lite.partition.cost.work import nbytes, sizes_for, work
from ort_lite.provider import Partition

FREE = 32
"""The length to assume for a free dimension."""
NODE, OPERATIONS, BYTES, HANDED = 5e-7, 5e10, 1e10, 1e8
"""Seconds per node besides its work; operations, bytes of memory traffic and bytes passed between processes per second of one core.
A fast core is five times as fast in all of them: only the proportions decide where to cut.
"""


def stages(partition: Partition, count: int, memory: int | None = None) -> list[Partition]:
    """Divide a partition into `count` stages, or one per node. Each needs only the inputs and earlier stages. O(count * nodes^2).

    The slowest stage is as fast as possible, by its nodes' arithmetic and bytes and the values that it passes on. No stage
    has more than `memory` bytes of constants. Raises ProviderError if that is impossible.
    """
    nodes = partition.nodes
    bounds = _bounds(_seconds(nodes), _crossing(partition), _weights(nodes), min(count, len(nodes)), memory)
    if bounds is None:
        raise ProviderError(
            f"{partition.name}: its weights do not fit {count} actors of {memory} bytes each; expected more actors or more memory"
        )
    return [_stage(partition, k, nodes[a:b]) for k, (a, b) in enumerate(pairwise(bounds))]


def _seconds(nodes: Sequence[Node]) -> list[float]:
    size, found = sizes_for({}, FREE), []
    for node in nodes:
        operations, moved = work(node, size)
        found.append(NODE + max(operations / OPERATIONS, moved / BYTES))
    return found


def _crossing(partition: Partition) -> list[float]:
    """Return, for each position between two nodes, the seconds to pass on the values computed before and read after it."""
    place = {node: k for k, node in enumerate(partition.nodes)}
    size, change = sizes_for({}, FREE), np.zeros(len(place) + 2)
    for k, node in enumerate(partition.nodes):
        for value in filter(None, node.outputs):
            last = max((place[reader] for reader in value.readers if reader in place), default=k)
            change[k + 1] += nbytes(value, size) / HANDED
            change[last + 1] -= nbytes(value, size) / HANDED
    return [float(seconds) for seconds in np.cumsum(change)[: len(place) + 1]]


def _weights(nodes: Sequence[Node]) -> list[int]:
    """Return the bytes of constants of each node, counting a constant at the first node that reads it."""
    seen: set[Value] = set()
    found = []
    for node in nodes:
        new = {value for value in node.reads() if value is not None and value.constant is not None} - seen
        seen |= new
        found.append(sum(value.constant.nbytes for value in new if value.constant is not None))
    return found


def _bounds(
    seconds: Sequence[float], crossing: Sequence[float], weights: Sequence[int], count: int, memory: int | None
) -> list[int] | None:
    """Return the bounds of the stages that minimize the time of the slowest one; None if their weights do not fit."""
    n, time, held = len(seconds), np.concatenate([[0], np.cumsum(seconds)]), np.concatenate([[0], np.cumsum(weights)])
    between, best, came = np.array(crossing), np.full(n + 1, np.inf), []
    best[0] = 0
    for _ in range(count):
        following, origin = np.full(n + 1, np.inf), np.zeros(n + 1, int)
        for end in range(1, n + 1):
            dearest = np.maximum(best[:end], time[end] - time[:end] + between[:end] + between[end])
            if memory is not None:
                dearest[held[end] - held[:end] > memory] = np.inf
            origin[end] = int(np.argmin(dearest))
            following[end] = dearest[origin[end]]
        came.append(origin)
        best = following
    if not np.isfinite(best[n]):
        return None
    bounds = [n]
    for origin in reversed(came):
        bounds.append(int(origin[bounds[-1]]))
    return bounds[::-1]


def _stage(partition: Partition, k: int, nodes: tuple[Node, ...]) -> Partition:
    inside = {value for node in nodes for value in node.outputs if value is not None}
    reads = dict.fromkeys(v for node in nodes for v in node.reads() if v is not None and v.constant is None and v not in inside)
    mine, wanted = set(nodes), set(partition.outputs)
    outer = set(partition.nodes) - mine
    outputs = dict.fromkeys(v for n in nodes for v in n.outputs if v is not None)
    kept = tuple(v for v in outputs if v in wanted or any(reader in outer for reader in v.readers))
    return Partition(f"{partition.name}_stage_{k}", partition.provider, nodes, tuple(reads), kept, partition.rules)
