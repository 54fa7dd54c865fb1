"""Reports on the nodes of sessions: which of them a provider runs, and why not the others. onnxruntime itself keeps no reasons."""

import threading

from ort_lite.record import Record

_MOST = 64


class NodeReport(Record):
    """One node: the fused node that has it ("" for none) and, where the provider does not run it, the reason."""

    graph: str
    node: str
    operator: str
    partition: str
    reason: str

    def __str__(self) -> str:
        return f"{self.operator} {self.node!r}: {self.partition or self.reason}"


class GraphReport(Record):
    """The nodes of all graphs of one session that a provider was asked about, in the order in which it was asked.

    Printing it shows one line per node.
    """

    provider: str
    nodes: tuple[NodeReport, ...]

    @property
    def declined(self) -> tuple[NodeReport, ...]:
        """The nodes that the provider does not run."""
        return tuple(node for node in self.nodes if not node.partition)

    def __str__(self) -> str:
        taken = len(self.nodes) - len(self.declined)
        head = f"{self.provider} runs {taken} of {len(self.nodes)} nodes"
        return "\n".join([head, *(f"  {node}" for node in self.nodes)])


class Reports:
    """The last reports of this process, one per session, the newest last."""

    def __init__(self) -> None:
        self._lock, self._kept = threading.Lock(), dict[int, GraphReport]()

    def put(self, session: int, report: GraphReport) -> None:
        """Keep the report of a session, in place of an earlier one. Of more than 64 sessions the oldest is forgotten."""
        with self._lock:
            self._kept[session] = report
            while len(self._kept) > _MOST:
                del self._kept[next(iter(self._kept))]

    def find(self, provider: str | None) -> list[GraphReport]:
        """Return the reports of a provider, or of all providers, the newest last."""
        with self._lock:
            return [report for report in self._kept.values() if provider in (None, report.provider)]
