"""Search for the first bad node of a partition whose results differ from the CPU provider's.

The provider compiles and runs prefixes of the partition's nodes, halving each time: about log2(nodes) compiles. The nodes are in
topological order, so every prefix is convex, as the partition is. If that fails, because the provider cannot compile a prefix or
its results depend on a node's company, each node runs alone on the CPU's values.
"""

from collections.abc import Sequence
from typing import Any

from ort_lite.errors import RunTerminated, format_error
from ort_lite.execute.guard import close, guard_partition
from ort_lite.graph.graph import Node, Value
from ort_lite.provider.provider import CPU, Partition
from ort_lite.tools.verify.compare import TensorReport, compare_all
from ort_lite.tools.verify.reference import Reference, part_of, suspend_watch
from ort_lite.tools.verify.settings import Verification
from ort_lite.tools.verify.verification_report import Culprit


def first_bad(
    partition: Partition, inputs: Sequence[Any], reference: Reference, checks: Verification
) -> tuple[Culprit | None, str]:
    """Return the first bad node, or None and an explanation. `inputs` are on the CPU. Raises only RunTerminated."""
    try:
        return _Bisection(partition, inputs, reference, checks).find()
    except RunTerminated:
        raise
    except Exception as error:  # noqa: BLE001  the finding stands, whatever its search runs into
        return None, f"the first bad node could not be looked for: {format_error(error)}"


class _Bisection:
    def __init__(self, partition: Partition, inputs: Sequence[Any], reference: Reference, checks: Verification) -> None:
        self.partition, self.reference, self.checks = partition, reference, checks
        self.nodes = partition.nodes
        self.bodies = reference.bodies(self.nodes)
        self.values = reference.values(partition, inputs)

    def find(self) -> tuple[Culprit | None, str]:
        found, why = self._by_prefixes()
        if found is None:
            found = self._one_by_one()
        if found is not None:
            return found, ""
        return None, f"no node is bad by itself; {why}"

    def _by_prefixes(self) -> tuple[Culprit | None, str]:
        """Search between a prefix that matches and one that differs."""
        low, high = 0, len(self.nodes)
        try:
            worst = self._off(self._prefix(high))
            if worst is None:
                return None, "compiled once more, the partition is right: it depends on more than its inputs"
            while high - low > 1:
                middle = (low + high) // 2
                off = self._off(self._prefix(middle))
                if off is None:
                    low = middle
                else:
                    high, worst = middle, off
        except RunTerminated:
            raise
        except Exception as error:  # noqa: BLE001  a part that its provider does not take
            return None, f"the provider does not run a part of it: {format_error(error)}"
        return _culprit(self.nodes[high - 1], "prefix", worst), ""

    def _one_by_one(self) -> Culprit | None:
        for node in self.nodes:
            try:
                off = self._off(self._part([node], [v for v in node.outputs if v is not None], str(node)))
            except RunTerminated:
                raise
            except Exception:  # noqa: BLE001  a node that its provider does not run alone
                continue
            if off is not None:
                return _culprit(node, "alone", off)
        return None

    def _prefix(self, count: int) -> Partition:
        """Return the first nodes as a partition. Its outputs are the values that the other nodes or the partition's readers need."""
        nodes, rest = self.nodes[:count], self.nodes[count:]
        read = {value for node in rest for value in node.reads()} | set(self.partition.outputs)
        outputs = [v for v in self.partition.outputs if v.producer in set(nodes)]
        made = [v for node in nodes for v in node.outputs if v in read and v not in outputs and v is not None]
        return self._part(nodes, [*outputs, *made], f"{self.partition.name}[:{count}]")

    def _part(self, nodes: Sequence[Node], outputs: Sequence[Value], name: str) -> Partition:
        inside = {graph: body for graph, body in self.bodies.items() if any(graph in node.subgraphs() for node in nodes)}
        return part_of(self.partition, nodes, outputs, inside, name)

    def _off(self, part: Partition) -> TensorReport | None:
        """Return the first tensor that differs when the provider runs the part on the CPU's values."""
        provider, moved = part.provider, self.reference.move
        with suspend_watch():
            (compiled,) = provider.compile([part])
            if isinstance(compiled, BaseException):
                raise compiled
            function = guard_partition(part, compiled)
            try:
                results = function([moved(v, self.values[v], CPU, part.device_of(v)) for v in part.inputs])
            finally:
                close(function)
            got = self.reference.to_host(part, part.outputs, results)
        names, expected = (v.name for v in part.outputs), (self.values[v] for v in part.outputs)
        reports = compare_all(names, got, expected, self.checks.tolerance)
        return next((one for one in reports if not one.ok), None)


def _culprit(node: Node, how: str, tensor: TensorReport) -> Culprit:
    return Culprit(node.name, node.operator, how, tensor)
