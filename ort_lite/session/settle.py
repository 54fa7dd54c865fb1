"""The main loop of session creation: assign nodes and compile partitions until both succeed."""

from typing import Any

from ort_lite.compile.compile import Compiled, Compiler, PartitionsFailed
from ort_lite.errors import CompileError, OrtLiteError, describe
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph.model import Model
from ort_lite.log.events import Span, no_span
from ort_lite.native.checkpoint import begin_stage
from ort_lite.options.config_keys import DISABLE_CPU_FALLBACK, ROUNDING, types_to_round
from ort_lite.options.options import SessionOptions
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.claims import Claims
from ort_lite.partition.constraints import Constraints, constraints_of
from ort_lite.partition.partition import Partitioner
from ort_lite.plugins.selection import DEFAULT, Selection, rules_of
from ort_lite.record import Record
from ort_lite.session.assignment_checks import check_compilation, check_fallback, check_usage
from ort_lite.session.rewrites import convert_layouts, find_layouts, rewrite_nodes


class Settled(Record):
    """An assignment and its compiled partitions, which are None if nothing was to be compiled.

    `warnings` are messages about listed providers that run no node.
    """

    assignment: Assignment
    compiled: Compiled | None
    warnings: tuple[str, ...]


def settle(
    model: Model,
    selection: Selection,
    options: SessionOptions,
    constraints: Constraints | None = None,
    strategy: Any = None,
    compiler: Compiler | None = None,
    span: Span = no_span,
) -> Settled:
    """Assign every node to a provider and compile the partitions, until both succeed. Without a compiler, only assign.

    A node that no provider claims is rewritten: a channels-last node gets its original layout back, a function call is inlined,
    a node of 16-bit floats gets Casts. A provider that cannot compile a partition is excluded from its nodes. Each round uses
    up one possibility, so the loop ends. Changes the model's graph.

    Raises:
        NotImplemented: no provider can run a node and no rewrite applies; lists each provider's reason.
        PlacementError: a hard placement rule cannot be kept.
        CompileError: a partition does not compile, and its policy or the lack of another provider forbids a fallback.
        Fail, ModelRequiresCompilation, ProviderError: the session's config or a policy rejects the assignment.
    """
    providers, failure = selection.providers, None
    constraints = constraints if constraints is not None else constraints_of(providers, selection.policies)
    partitioner = Partitioner(model.graph, providers, rules_of(providers), constraints)
    improve, forbidden = _strategy(strategy, options)
    types_to_round(options.config(ROUNDING, ""))  # an invalid value is an error even if no node is rewritten
    while True:
        begin_stage("partition")
        with span("partition") as facts:
            claims = partitioner.claim()
            if unclaimed := claims.find_unclaimed_nodes():
                if not constraints.release(unclaimed):
                    if not rewrite_nodes(model, unclaimed, providers, options, constraints.changes):
                        raise _no_provider_error(partitioner, claims, failure)
                    constraints.handle_graph_change()
                continue
            assignment = partitioner.assignment(claims, improve, forbidden)
            if layouts := find_layouts(assignment, constraints.changes):
                convert_layouts(model, layouts, constraints.changes)
                constraints.handle_graph_change()
                continue
            check_fallback(assignment, options)
            warnings = tuple(check_usage(selection, assignment))
            facts.update(partitions=len(assignment.partitions), copies=sum(len(level.copies) for level in assignment.levels))
        if compiler is None:
            return Settled(assignment, None, warnings)
        check_compilation(assignment, options)
        begin_stage("compile")
        with span("compile"):
            try:
                return Settled(assignment, compiler.compile(assignment), warnings)
            except PartitionsFailed as error:
                _exclude(error, assignment, constraints, compiler)
                failure = error


def _exclude(error: PartitionsFailed, assignment: Assignment, constraints: Constraints, compiler: Compiler) -> None:
    """Exclude the provider from the nodes of partitions that it cannot compile.

    Raises the error if the provider's policy demands it, or if no provider is left.
    """
    if not compiler.goes_on(error.label) or error.label == list(assignment.providers)[-1]:
        raise error
    for partition, why in error.failed:
        constraints.exclusions.exclude(error.label, partition.nodes, why)
        nodes = ", ".join(map(str, partition.nodes[:3])) + (", ..." if len(partition.nodes) > 3 else "")
        compiler.incidents.report(f"{why}; {nodes} {'goes' if len(partition.nodes) == 1 else 'go'} to the next provider")


def _no_provider_error(partitioner: Partitioner, claims: Claims, failure: PartitionsFailed | None) -> OrtLiteError:
    """Return the error for unclaimed nodes, together with a preceding compile error."""
    error = partitioner.error(claims)
    if failure is None or not isinstance(error, NotSupported):
        return error
    both = CompileError(f"{describe(failure)}; and {describe(error)}").like(error)
    both.__cause__ = failure
    return both


def _strategy(given: Any, options: SessionOptions) -> "tuple[Any, frozenset[str]]":
    """Return the strategy that improves an assignment (None: greedy), and the providers to which it moves no node."""
    if given is None and not options.config("ort_lite.partitioning", ""):
        return None, frozenset()
    from ort_lite.partition.cost.strategy import strategy_of

    stays_off = options.config(DISABLE_CPU_FALLBACK, "0") == "1"
    return strategy_of(given, options), frozenset({DEFAULT} if stays_off else ())
