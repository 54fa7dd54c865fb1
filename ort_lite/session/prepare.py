"""The stages after loading: turn a Model into compiled code."""

from collections.abc import Collection, Iterable
from typing import Any

from ort_lite.compile.compile import Compiled, Compiler
from ort_lite.compile.incidents import Incidents
from ort_lite.execute.execute import Executable
from ort_lite.graph.model import Model
from ort_lite.log.events import Span, no_span
from ort_lite.native.checkpoint import begin_stage
from ort_lite.options.options import SessionOptions
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.constraints import constraints_of
from ort_lite.partition.placement import PlacementRule
from ort_lite.plugins.selection import Selection
from ort_lite.provider.provider import Partition
from ort_lite.provider.subgraph import subgraph
from ort_lite.record import Record
from ort_lite.session.settle import settle
from ort_lite.session.share import share_constants
from ort_lite.session.simplify import fuser_of, simplify
from ort_lite.transform.transform import TransformReport


class Prepared(Record):
    """A model after all stages, with the result of each. `incidents` are failures from which the session recovered."""

    LATER = frozenset({"model", "report"})
    model: Model
    report: TransformReport
    assignment: Assignment
    compiled: Compiled
    incidents: Incidents


def prepare(
    model: Model,
    selection: Selection,
    options: SessionOptions,
    rules: Iterable[PlacementRule] = (),
    strategy: Any = None,
    span: Span = no_span,
    writeable: Collection[int] = (),
) -> Prepared:
    """Transform, partition and compile a loaded model. Changes the model's graph.

    `strategy` is the partitioner's strategy (None: the config's). `writeable` are ids of constants that somebody outside may
    write to. Raises the errors of `simplify` and `settle`.
    """
    providers, policies = selection.providers, selection.policies
    begin_stage("transform")
    with span("transform"):
        report = simplify(model, providers, options, span)
        with span("share_constants"):
            share_constants(model, writeable)
    constraints = constraints_of(providers, policies, rules, options)
    constraints.answers.span = span
    incidents, by_label = Incidents(options), dict(zip(constraints.labels, constraints.policies, strict=True))
    compiler = Compiler(by_label, fuser_of(options), LaterProviders(model, selection, options), incidents, span)
    settled = settle(model, selection, options, constraints, strategy, compiler, span)
    assert settled.compiled is not None, "there is a compiler"
    for warning in settled.warnings:
        incidents.report(warning)
    begin_stage("finish")
    return Prepared(model, report, settled.assignment, settled.compiled, incidents)


class LaterProviders(Record):
    """The fallback for partitions that fail in a run: the providers after the partition's own."""

    model: Model
    selection: Selection
    options: SessionOptions

    def __call__(self, partition: Partition) -> Executable:
        """Prepare the partition's nodes for the providers after its own. Raises what creating a session raises."""
        providers, policies = self.selection.providers, self.selection.policies
        after = 1 + next(k for k, provider in enumerate(providers) if provider is partition.provider)
        rest = Selection(providers[after:], (), policies[after:], listed=False)
        return prepare(self.model.replace(graph=subgraph(partition)), rest, self.options).compiled.executable
