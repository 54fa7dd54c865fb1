"""The hook into each step of a verified run, which compares a partition's outputs with the CPU's."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ort_lite.compile.fallback import behind_linking, find_uncopied_value
from ort_lite.errors import RunTerminated, VerificationError, format_error
from ort_lite.execute.execute import Executable, Step, deep_copy
from ort_lite.execute.results import check_results
from ort_lite.options.options import SessionOptions
from ort_lite.partition.borders import transfers_of
from ort_lite.plugins.selection import DEFAULT
from ort_lite.provider.current import CURRENT
from ort_lite.provider.provider import CPU, Partition
from ort_lite.session.prepare import Prepared
from ort_lite.tools.verify.bisection import first_bad
from ort_lite.tools.verify.compare import TensorReport, Tolerance, compare_all
from ort_lite.tools.verify.reference import Reference, why_not
from ort_lite.tools.verify.settings import Verification, settings
from ort_lite.tools.verify.verification_report import PartitionReport, VerificationReport


class Verifier:
    """The state shared by all verified runs of one compiled model."""

    def __init__(self, prepared: Prepared, options: SessionOptions) -> None:
        assignment, compiled = prepared.assignment, prepared.compiled
        providers = list(assignment.providers.values())
        cpu = next(provider for provider in providers if provider.name == DEFAULT)
        self.executable = compiled.executable
        self.functions = {name: behind_linking(function) for name, function in compiled.called.items()}  # keep the ids valid
        places = [(p, level.path) for level in assignment.levels for p in level.partitions if p.provider.name != DEFAULT]
        self.partitions = {id(self.functions[p.name]): (p, path) for p, path in places}
        graphs = [level.graph for level in assignment.levels]
        self.reference = Reference(prepared.model, cpu, graphs, transfers_of(providers), options)

    def run(
        self, checks: Verification, call: Callable[[Executable], list[Any]], tell: Callable[[VerificationReport], None]
    ) -> list[Any]:
        """Run the model's Executable with verification on this thread. `tell` receives the report.

        Raises VerificationError if a partition differs, and otherwise what the run raises.
        """
        watch = _Watch(self, checks)
        outer, CURRENT.watch = CURRENT.watch, watch
        try:
            outputs = call(watch(self.executable))
        except RunTerminated:
            raise
        except Exception as error:
            report = watch.report(f"{format_error(error)}")
            tell(report)
            if not report.ok:
                raise _failure(report) from error
            raise
        finally:
            CURRENT.watch = outer
        report = watch.report()
        tell(report)
        if not report.ok:
            raise _failure(report)
        return outputs


def verify_run(
    ready: Any,
    options: SessionOptions,
    verify: object,
    call: Callable[[Executable], list[Any]],
    tell: Callable[[VerificationReport], None],
) -> list[Any]:
    """Run a compiled model with verification; the hook behind `run(verify=...)`. `ready` belongs to the session and keeps the
    Verifier.

    Raises InvalidArgument for an invalid `verify`, and what `Verifier.run` raises.
    """
    checks = settings(verify)
    verifier: Verifier | None = ready.verifier  # read once: another thread may set it to None
    if verifier is None:
        verifier = ready.verifier = Verifier(ready.prepared, options)
    return verifier.run(checks, call, tell)


class _Watch:
    """The verification of one run. Bodies that a provider calls from other threads are not compared."""

    def __init__(self, verifier: Verifier, checks: Verification) -> None:
        self._verifier, self._checks = verifier, checks
        self._found: dict[str, PartitionReport] = {}

    def __call__(self, executable: Executable) -> Executable:
        """Return the Executable with each step under verification."""
        steps = [step.replace(function=partial(self._step, step)) for step in executable.steps]
        return executable.replace(steps=tuple(steps), direct=None)

    def _step(self, step: Step, inputs: Sequence[Any]) -> Sequence[Any]:
        partition, path = self._verifier.partitions.get(id(behind_linking(step.function)), (None, ""))
        if partition is None:
            return step.function(inputs)
        own = inputs[: len(partition.inputs)]
        given, expected, why = self._compute_reference(partition, own)
        results = check_results(step.function(inputs), len(step.outputs), str(step))
        if not why and find_uncopied_value(results) is not None:
            why = "the next provider ran it"
        self._record(partition, path, given, results[: len(partition.outputs)], expected, why, own)
        return results

    def _compute_reference(self, partition: Partition, inputs: Sequence[Any]) -> tuple[list[Any], list[Any], str]:
        """Return copies of the inputs on the CPU, the CPU's results, and the reason if there are none."""
        why = why_not(partition)
        if why:
            return [], [], why
        given: list[Any] = []
        try:
            given = self._verifier.reference.to_host(partition, partition.inputs, inputs)
            given = [deep_copy(x) for x in given] if partition.provider.device == CPU else given
            return given, [deep_copy(x) for x in self._verifier.reference.results(partition, given)], ""
        except RunTerminated:
            raise
        except Exception as error:  # noqa: BLE001  there is nothing to compare with: the report says so
            return given, [], f"the CPU provider does not run it: {format_error(error)}"

    def _record(
        self,
        partition: Partition,
        path: str,
        given: list[Any],
        results: Sequence[Any],
        expected: list[Any],
        why: str,
        inputs: Sequence[Any],
    ) -> None:
        reference, checks = self._verifier.reference, self._checks
        tensors = []
        if not why:
            tensors += _find_writes(partition, given, reference.to_host(partition, partition.inputs, inputs))
            got = reference.to_host(partition, partition.outputs, results)
            tensors += compare_all((value.name for value in partition.outputs), got, expected, checks.tolerance)
        known = self._found.get(partition.name, _unseen(partition, path))
        made = known.replace(calls=known.calls + 1, skipped=known.skipped or why, tensors=_merge(known.tensors, tensors))
        if not made.ok and known.ok and checks.bisect:
            culprit, told = first_bad(partition, given, reference, checks)
            made = made.replace(culprit=culprit, bisection=told)
        self._found[partition.name] = made

    def report(self, failed: str = "") -> VerificationReport:
        rest = [
            _unseen(p, path).replace(skipped="it did not run")
            for p, path in self._verifier.partitions.values()
            if p.name not in self._found
        ]
        return VerificationReport((*self._found.values(), *rest), failed)


def _find_writes(partition: Partition, before: Sequence[Any], now: Sequence[Any]) -> list[TensorReport]:
    """Report the inputs that the partition changed."""
    found = compare_all((value.name for value in partition.inputs), now, before, lambda dtype: Tolerance())
    return [one.replace(mismatch=f"is an input, and was written to: {one}") for one in found if not one.ok]


def _unseen(partition: Partition, path: str) -> PartitionReport:
    return PartitionReport(partition.name, partition.provider.name, path, len(partition.nodes))


def _merge(before: Sequence[Any], now: Sequence[Any]) -> tuple[Any, ...]:
    later = {one.name: one for one in now}
    merged = [one.merge(later.pop(one.name)) if one.name in later else one for one in before]
    return (*merged, *later.values())


def _failure(report: VerificationReport) -> VerificationError:
    """Return the error for the first partition that differs."""
    first = report.wrong[0]
    tensor = next(one for one in first.tensors if not one.ok)
    found = str(first.culprit) if first.culprit else first.bisection
    more = f"; {len(report.wrong) - 1} more partitions are off" if len(report.wrong) > 1 else ""
    text = f"{first.name} ({first.provider}) gives other results than {DEFAULT}: {tensor}" + (f"; {found}" if found else "")
    node = first.culprit.node if first.culprit else ""
    advice = (
        f"; if {first.provider} computes in a lower precision, set its option for the precision; or leave nodes to {DEFAULT} "
        f'(placement_rules=[ort_lite.place("{DEFAULT}", name="{node or "..."}")]); or allow larger differences '
        "(verify=ort_lite.Verification(rtol=..., atol=...))"
    )
    return VerificationError(text + more + advice, first.name, first.provider, tensor.name, tensor.index, node, report)
