"""The tools of checks: the provider, sessions with and without it, and the cases that it claims."""

import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np

from ort_lite.compile.fusing import fusions_of
from ort_lite.errors import InvalidArgument, OrtLiteError
from ort_lite.provider.provider import Capability, ExecutionProvider
from ort_lite.record import Record
from ort_lite.session.preparation import open_session_memory
from ort_lite.session.session import Session
from ort_lite.testing.cases import Case, fixed_case, in_a_row, keeps_shape, node_cases
from ort_lite.testing.differences import compare
from ort_lite.testing.generated import KINDS, Cases, GeneratedCase
from ort_lite.testing.hosts import Host, Remark, options, quiet
from ort_lite.testing.sizes import resize_case
from ort_lite.testing.steering import MOST, Steering

CPU = "CPUExecutionProvider"
USUAL = (1e-3, 1e-5)
"""What most node tests allow."""
OTHERS = frozenset({"Concat", "CumSum", "Gather", "Hardmax", "If", "NonZero", "TopK", "Unique"})
"""Whose node tests a kit with `operators` shows the provider besides: for most they are something to decline."""


SHAPES, FEWEST_SHAPES = 576, 64
"""How many shapes the check `caches` runs: a cache of 512 programs is full before the last ones."""


class Finding(Record):
    """A violation: the check that found it, the case, and what happened."""

    check: str
    case: str
    text: str
    reproduce: str = ""
    """The command that shows it again; "" if the check itself does."""
    size: tuple[int, int, int] = (0, 0, 0)
    """The nodes, attributes and elements of a generated model, by which the smallest one is found."""

    def __str__(self) -> str:
        told = f"{self.check}: {self.case}: {self.text}" if self.case else f"{self.check}: {self.text}"
        return f"{told}\n    {self.reproduce}" if self.reproduce else told


class GeneratedModels:
    """Generated models and the CPU provider's results, which kits of several providers may share.

    `case` limits them to the model of that name. About `most` models are generated for a provider, or a few for each operator if
    it claims many.
    """

    def __init__(self, case: str = "", most: int = MOST) -> None:
        self.case, self.most, self.cases = case, most, Cases()
        self._expected: dict[GeneratedCase, list[list[Any]] | None] = {}
        self._resized: dict[GeneratedCase, GeneratedCase | None] = {}

    def reference_outputs(self, case: GeneratedCase) -> list[list[Any]] | None:
        """Return the CPU provider's outputs of each run, or None if it cannot run the model."""
        if case not in self._expected:
            try:
                session = reference(case.model)
                with np.errstate(all="ignore"):
                    self._expected[case] = [session.run(None, copy_feed(feed)) for feed in case.feeds]
            except OrtLiteError:
                self._expected[case] = None
        return self._expected[case]

    def resize(self, case: GeneratedCase) -> GeneratedCase | None:
        """Return the case with runs of other sizes, or None if it has no others."""
        if case not in self._resized:
            self._resized[case] = resize_case(case, reference)
        return self._resized[case]


class Deviation(Record, eq=False):
    """A known deviation of a device from ONNX, whose elements no check compares.

    `where` takes the operands of a node and returns a mask that broadcasts to its outputs.
    """

    reason: str
    where: Callable[..., Any]

    def without(self, case: GeneratedCase, feed: Mapping[str, Any], got: Sequence[Any], wanted: Sequence[Any]) -> list[Any]:
        """Return the results with the expected ones at elements that may deviate. The case has one node."""
        (node,) = case.nodes
        operands = {**case.constants, **feed}
        mask = self.where(*(operands[name] for name in node.input if name))
        return [np.where(mask, b, a) if a.shape == b.shape else a for a, b in zip(got, wanted, strict=True)]


class Kit:
    """The provider under test and the cases for it. `make()` creates an instance, and `make(name=value)` one with another option.

    `operators` limits ONNX's node tests to those of these operators. `rtol` and `atol` allow larger differences than a node test
    does (1e-3 and 1e-5), for devices that compute with fewer bits. Sessions use `use_deterministic_compute`, so that a device
    avoids faster, non-repeatable kernels. `models` are those of another kit, to be shared. `known` holds deviations by check (of
    generated models) and operator; one that does not occur is a finding too, so that fixed ones are removed. `host` creates the
    sessions of the provider. `shapes` is the number of shapes that `caches` runs for an operator, at least 64: a cache of more entries
    passes for an unbounded one, and each may take a compilation. Raises InvalidArgument for fewer.
    """

    def __init__(
        self,
        make: Callable[..., ExecutionProvider],
        operators: Iterable[str] | None = None,
        *,
        rtol: float = 0.0,
        atol: float = 0.0,
        models: GeneratedModels | None = None,
        known: Mapping[str, Mapping[str, Deviation]] | None = None,
        host: Host | None = None,
        shapes: int = SHAPES,
    ) -> None:
        if shapes < FEWEST_SHAPES:
            raise InvalidArgument(f"shapes is {shapes}: expected {FEWEST_SHAPES} or more, {SHAPES} by default")
        self.make = make
        self.known = known or {}
        self.host = Host() if host is None else host
        self.shapes = shapes
        self.operators = None if operators is None else frozenset(operators)
        self._models = models
        self._rtol, self._atol = rtol, atol
        self._remembered: dict[Any, Any] = {}
        self._excused: defaultdict[str, Counter[str]] = defaultdict(Counter)

    @cached_property
    def positive_cases(self) -> tuple[Case, ...]:
        """Return the cases of which the provider claims at least one node. Asking about each of them takes seconds in total."""
        return tuple(self.operators_by_case)

    @cached_property
    def some(self) -> tuple[Case, ...]:
        """Return one claimed case for each operator that the provider claims, the one with the fewest nodes."""
        found: dict[str, Case] = {}
        for case in sorted(self.positive_cases, key=lambda case: len(case.model.graph.node)):
            for operator in self.operators_by_case[case]:
                found.setdefault(operator, case)
        return tuple(dict.fromkeys(found.values()))

    @cached_property
    def negative_cases(self) -> tuple[Case, ...]:
        """Return a few cases of which the provider claims nothing."""
        others = node_cases() if self.operators is None else node_cases(OTHERS)
        return tuple(islice((case for case in others if case not in self.operators_by_case), 0, 400, 40))

    @cached_property
    def unary(self) -> tuple[Case, ...]:
        """Return one case for each operator from one float32 tensor to another of the same shape, if claimed alone or in a chain."""
        alone = {operator for operators in self.operators_by_case.values() for operator in operators}
        return tuple(case for name, (case, row) in self._rows.items() if name in alone or row in self.operators_by_case)

    @cached_property
    def operators_by_case(self) -> dict[Case, tuple[str, ...]]:
        """Return the claimed cases with the operators of their claimed nodes.

        An operator that is only claimed with constants has a case with all inputs but the first as constants. One that is only
        claimed in groups, because of a minimum size, has a chain of three.
        """
        found = {case: taken for case in node_cases(self.operators) if (taken := self.takes(case))}
        alone = {operator for operators in found.values() for operator in operators}
        others = [case for case in node_cases(self.operators) if case not in found and not alone.issuperset(case.operators)]
        fixed = [case for one in others if len(one.operators) == 1 and (case := fixed_case(one)) is not None]
        found.update((case, taken) for case in fixed if (taken := self.takes(case)))
        rows = [row for name, (_, row) in self._rows.items() if name not in alone]
        return {**found, **{row: taken for row in rows if (taken := self.takes(row))}}

    @cached_property
    def _rows(self) -> dict[str, tuple[Case, Case]]:
        """Return, by operator, a case with one input that keeps its shape, and three of its nodes in a row with the CPU provider's
        results.
        """
        found: dict[str, tuple[Case, Case]] = {}
        for case in node_cases(self.operators):
            if keeps_shape(case) and case.operators[0] not in found:
                row = in_a_row(case)
                with suppress(OrtLiteError):  # it wants another rank
                    expected = tuple(reference(row.model).run(None, copy_feed(row.feed)))
                    if expected[-1].shape == row.feed["v0"].shape:
                        found[case.operators[0]] = (case, row.replace(expected=expected))
        return found

    @cached_property
    def models(self) -> GeneratedModels:
        """Return the generated models, which several kits may share."""
        return GeneratedModels() if self._models is None else self._models

    @property
    def generator_cases(self) -> list[GeneratedCase]:
        """Return the generated models of which the provider claims a node and that the CPU provider can run."""
        return [case for kind in KINDS for case in self.of_kind(kind)]

    def of_kind(self, kind: str) -> list[GeneratedCase]:
        """Return the generated models of a check."""
        found = self._steering.draw(kind)
        return [
            case for case in (*found, *(self._fusion_cases if kind == "graphs" else ())) if self.models.case in ("", case.name)
        ]

    @cached_property
    def _steering(self) -> Steering:
        return Steering(self.models.cases, self._candidates, self._operators_of, self.models.resize, self.models.most)

    @cached_property
    def _fusion_cases(self) -> list[GeneratedCase]:
        """Return models of the patterns of the provider's own fusions."""
        return self._steering.of_patterns(fusions_of(self._probe))

    @property
    def _candidates(self) -> list[tuple[str, str]]:
        """Return operators the provider may claim: those of `operators`, those of claimed node tests, or those it claims alone."""
        every = self.models.cases.operators
        if self.operators is not None:
            return [(domain, name) for domain, name in every if name in self.operators]
        taken = {operator for operators in self.operators_by_case.values() for operator in operators}
        return [one for one in every if (not one[0] and one[1] in taken) or self._claims(one)]

    def _claims(self, operator: tuple[str, str]) -> bool:
        """Return True if the provider claims a node of the newest version with the usual types and no known shapes."""
        return any(isinstance(answer, Capability) for answer in self._probe.get_capability(self.models.cases.view(*operator)))

    def _operators_of(self, case: GeneratedCase) -> tuple[str, ...]:
        """Return the claimed operators of a case that the CPU provider can run."""
        taken = self.takes(case)
        return taken if taken and self.models.reference_outputs(case) is not None else ()

    def takes(self, case: Case | GeneratedCase) -> tuple[str, ...]:
        """Return the operators of the nodes that are assigned to the provider."""
        from ort_lite.session.planning import plan

        try:
            with quiet():
                assignment = plan(_bytes(case.model), [self._probe, *self.host.others], options()).assignment
        except OrtLiteError:
            return ()  # what fails is found where sessions are made
        name = next(iter(assignment.providers))
        return tuple(dict.fromkeys(p.node.op_type for p in assignment.placements.values() if p.provider == name))

    @cached_property
    def _probe(self) -> ExecutionProvider:
        """Return the instance that is asked about all cases, because creating one may be slow."""
        return self.make()

    def new_provider(self) -> ExecutionProvider:
        """Return a new instance, configured as it is when a session first asks it."""
        provider, given = self.make(), options()
        open_session_memory(given)
        provider.configure(given)
        return provider

    def differs(self, got: Sequence[Any], wanted: Sequence[Any], case: Case | None = None) -> str | None:
        """Describe what differs by more than the case, the usual tolerance of node tests and the kit allow, or return None."""
        rtol, atol = USUAL if case is None else (case.rtol, case.atol)
        return compare(got, wanted, max(rtol, self._rtol), max(atol, self._atol))

    def to_see(self, check: str, case: GeneratedCase) -> str:
        """Return the command line that reproduces the result of a generated model."""
        cls = type(self._probe)
        words = ["ort-lite", "check-provider", f"{cls.__module__}:{cls.__qualname__}"]
        given = self.make.keywords if isinstance(self.make, partial) else {}
        words += ["--options", json.dumps(given, default=str)] if given else []
        words += ["--operators", ",".join(sorted(self.operators))] if self.operators is not None else []
        words += ["--in", self.host.name] if self.host.name else []
        return shlex.join([*words, "--only", check, "--case", case.name])

    def memoize(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the result of the first `make()` for a key, shared by all checks."""
        if key not in self._remembered:
            self._remembered[key] = make()
        return self._remembered[key]

    def session(self, model: Any, provider: ExecutionProvider | None = None) -> Any:
        """Create a session of the host with the provider first. A partition that fails to compile is an error here."""
        return self.host.session(_bytes(model), provider if provider is not None else self.make())

    def excuse(self, what: str, reason: str) -> None:
        """Count a result that is no finding, because of what the host does with the model."""
        self._excused[f"models that {self.host.label} {what}"][reason] += 1

    def remarks(self) -> tuple[Remark, ...]:
        """Return what was excused, and the host's own observations."""
        return (*(Remark(text, dict(reasons.most_common())) for text, reasons in self._excused.items()), *self.host.remarks())


def reference(model: Any) -> Session:
    """Return a session of the CPU provider alone."""
    with quiet():
        return Session(_bytes(model), options(), providers=[CPU])


def _bytes(model: Any) -> Any:
    return model.SerializeToString() if hasattr(model, "SerializeToString") else model


def copy_feed(feed: Mapping[str, Any]) -> dict[str, Any]:
    """Return a feed with a copy of each array."""
    return {name: np.array(array) for name, array in feed.items()}
