"""What happens when a provider fails after it has claimed nodes: the next one takes over, with a warning and a line in `explain()`."""

from collections.abc import Callable, Mapping

from ort_lite import log
from ort_lite.compile.compile import Compilations, Compiled, Guard, PartitionsFailed, compile_assignment
from ort_lite.compile.fusing import Fuser
from ort_lite.errors import CompileError, said
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.log.events import Span, no_span
from ort_lite.options.policies import NEXT, Policy
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.constraints import Constraints

Report = Callable[[str], None]
"""Warns, and keeps the text for `explain()`."""


def reporter(incidents: list[str], whose: log.Whose) -> Report:
    def report(text: str) -> None:
        incidents.append(text)
        log.warn(whose, text)

    return report


def compile_or_next(
    assignment: Assignment,
    again: Callable[[], Assignment],
    policies: Mapping[str, Policy],
    constraints: Constraints,
    guard: Guard,
    report: Report,
    fuser: Fuser,
    span: Span = no_span,
) -> tuple[Assignment, Compiled]:
    """Compiles; the nodes of a partition that its provider could not compile are dealt out once more, to those after it.

    Everything else stays as it is: providers are not asked about a graph that looks the same to them, and what is compiled is
    kept. `again` partitions under the constraints. Raises CompileError where the policy of the provider is "raise", or nobody
    else takes the nodes.
    """
    known = Compilations(span)
    while True:
        try:
            return assignment, compile_assignment(assignment, policies, known, guard, fuser)
        except PartitionsFailed as error:
            failure = error
            index = list(assignment.providers).index(error.label)
            if policies[error.label].on_compile_error != NEXT or index == len(assignment.providers) - 1:
                raise
            for partition, why in error.failed:
                constraints.bar(index, partition.nodes, why)
                nodes = ", ".join(map(str, partition.nodes[:3])) + (", ..." if len(partition.nodes) > 3 else "")
                report(f"{why}; {nodes} {'goes' if len(partition.nodes) == 1 else 'go'} to the next provider")
        try:
            assignment = again()
        except NotSupported as nobody:
            raise CompileError(f"{said(failure)}; and {said(nobody)}").like(nobody) from failure
