"""The tools of checks: the provider, sessions with it and without, and the cases of which it claims all nodes."""

import json
import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np

from ort_lite.compile.fusing import fusions_of
from ort_lite.errors import OrtLiteError
from ort_lite.options.options import SessionOptions
from ort_lite.provider.provider import Capability, ExecutionProvider
from ort_lite.record import Record
from ort_lite.session.session import Session
from ort_lite.testing.cases import Case, fixed_case, in_a_row, keeps_shape, node_cases
from ort_lite.testing.generated import KINDS, Cases, GeneratedCase
from ort_lite.testing.sizes import resize_case
from ort_lite.testing.steering import Steering

CPU = "CPUExecutionProvider"
USUAL = (1e-3, 1e-5)
"""What most node tests allow."""
OTHERS = frozenset({"Concat", "CumSum", "Gather", "Hardmax", "If", "NonZero", "TopK", "Unique"})
"""Whose node tests a kit with `operators` shows the provider besides: for most they are something to decline."""


class Finding(Record):
    """Something that a provider does not keep: which check found it, on which case, and what happened."""

    check: str
    case: str
    text: str
    reproduce: str = ""
    """A line for the shell that shows it again; "" where the check alone does."""

    def __str__(self) -> str:
        told = f"{self.check}: {self.case}: {self.text}" if self.case else f"{self.check}: {self.text}"
        return f"{told}\n    {self.reproduce}" if self.reproduce else told


class GeneratedModels:
    """Generated models, and what the CPU provider computes: kits of several providers may share one.

    `case` leaves the model of that name alone.
    """

    def __init__(self, case: str = "") -> None:
        self.case, self.cases = case, Cases()
        self._expected: dict[GeneratedCase, list[list[Any]] | None] = {}
        self._resized: dict[GeneratedCase, GeneratedCase | None] = {}

    def reference_outputs(self, case: GeneratedCase) -> list[list[Any]] | None:
        """The outputs of each run; None where the CPU provider does not run it."""
        if case not in self._expected:
            try:
                session = reference(case.model)
                with np.errstate(all="ignore"):
                    self._expected[case] = [session.run(None, copy_feed(feed)) for feed in case.feeds]
            except OrtLiteError:
                self._expected[case] = None
        return self._expected[case]

    def resize(self, case: GeneratedCase) -> GeneratedCase | None:
        """The case with runs of other sizes; None where it has no others."""
        if case not in self._resized:
            self._resized[case] = resize_case(case, reference)
        return self._resized[case]


class Deviation(Record, eq=False):
    """A known deviation of a device from ONNX: elements of a result that no check looks at.

    `where` takes the operands of a node and gives a mask that broadcasts to its outputs.
    """

    reason: str
    where: Callable[..., Any]

    def without(self, case: GeneratedCase, feed: Mapping[str, Any], got: Sequence[Any], wanted: Sequence[Any]) -> list[Any]:
        """The results, with the expected ones at the elements where it may deviate. The case has one node."""
        (node,) = case.nodes
        operands = {**case.constants, **feed}
        mask = self.where(*(operands[name] for name in node.input if name))
        return [np.where(mask, b, a) if a.shape == b.shape else a for a, b in zip(got, wanted, strict=True)]


class Kit:
    """`make()` gives a new instance of the provider, `make(name=value)` one with another option besides.

    `operators` limits ONNX's node tests to those of these operators. Results may differ by `rtol` and `atol` where that is more
    than a node test allows (1e-3 and 1e-5): for devices that compute in fewer bits. Sessions are made with
    `use_deterministic_compute`, so that a device with a faster, not repeatable way does not take it. `models` are those of
    another kit, for whoever makes many. `known` has deviations by check (of generated models) and operator; one that does not
    occur is a finding too, so that the list shrinks with what is mended.
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
    ) -> None:
        self.make = make
        self.known = known or {}
        self.operators = None if operators is None else frozenset(operators)
        self._models = models
        self._rtol, self._atol = rtol, atol
        self._remembered: dict[Any, Any] = {}

    @cached_property
    def claimed(self) -> tuple[Case, ...]:
        """Cases of which the provider takes at least one node. It is asked about each, seconds in all."""
        return tuple(self.operators_by_case)

    @cached_property
    def some(self) -> tuple[Case, ...]:
        """One claimed case for each operator that it takes, that with the fewest nodes."""
        found: dict[str, Case] = {}
        for case in sorted(self.claimed, key=lambda case: len(case.model.graph.node)):
            for operator in self.operators_by_case[case]:
                found.setdefault(operator, case)
        return tuple(dict.fromkeys(found.values()))

    @cached_property
    def negative_cases(self) -> tuple[Case, ...]:
        """A few cases of which it takes nothing."""
        others = node_cases() if self.operators is None else node_cases(OTHERS)
        return tuple(islice((case for case in others if case not in self.operators_by_case), 0, 400, 40))

    @cached_property
    def unary(self) -> tuple[Case, ...]:
        """One case for each operator with one input that keeps a float32 tensor's shape, if it takes it alone or in a chain."""
        alone = {operator for operators in self.operators_by_case.values() for operator in operators}
        return tuple(case for name, (case, row) in self._rows.items() if name in alone or row in self.operators_by_case)

    @cached_property
    def operators_by_case(self) -> dict[Case, tuple[str, ...]]:
        """The claimed cases with the operators of which it takes nodes.

        An operator that it takes where all inputs but the first are constants comes so, one that it takes in groups alone,
        because of a minimum, as a chain of three.
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
        """Return, by operator, a case with one input that keeps its shape, and three of its nodes in a row, as the CPU
        provider runs them.
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
        """Generated models of which it takes a node, and which the CPU provider runs."""
        return [case for kind in KINDS for case in self.of_kind(kind)]

    def of_kind(self, kind: str) -> list[GeneratedCase]:
        """The generated models of a check."""
        found = self._steering.draw(kind)
        return [
            case for case in (*found, *(self._fusion_cases if kind == "graphs" else ())) if self.models.case in ("", case.name)
        ]

    @cached_property
    def _steering(self) -> Steering:
        return Steering(self.models.cases, self._candidates, self._operators_of, self.models.resize)

    @cached_property
    def _fusion_cases(self) -> list[GeneratedCase]:
        """Return the patterns of its own fusions."""
        return self._steering.of_patterns(fusions_of(self._probe))

    @property
    def _candidates(self) -> list[tuple[str, str]]:
        """Operators of which it may take nodes: those of `operators`, or of the node tests that it takes, or that it claims alone."""
        every = self.models.cases.operators
        if self.operators is not None:
            return [(domain, name) for domain, name in every if name in self.operators]
        taken = {operator for operators in self.operators_by_case.values() for operator in operators}
        return [one for one in every if (not one[0] and one[1] in taken) or self._claims(one)]

    def _claims(self, operator: tuple[str, str]) -> bool:
        """Return True if it claims a node of the newest version with the usual types, of which nothing else is known."""
        return any(isinstance(answer, Capability) for answer in self._probe.get_capability(self.models.cases.view(*operator)))

    def _operators_of(self, case: GeneratedCase) -> tuple[str, ...]:
        """The operators that it takes of a case that the CPU provider runs."""
        taken = self.takes(case)
        return taken if taken and self.models.reference_outputs(case) is not None else ()

    def takes(self, case: Case | GeneratedCase) -> tuple[str, ...]:
        """The operators of the nodes that the provider is given."""
        from ort_lite.session.planning import plan

        try:
            with quiet():
                assignment = plan(_bytes(case.model), [self._probe], options()).assignment
        except OrtLiteError:
            return ()  # what fails is found where sessions are made
        name = next(iter(assignment.providers))
        return tuple(dict.fromkeys(p.node.op_type for p in assignment.placements.values() if p.provider == name))

    @cached_property
    def _probe(self) -> ExecutionProvider:
        """Asked about all cases: making an instance may take its time."""
        return self.make()

    def new_provider(self) -> ExecutionProvider:
        """A new instance, as a session has it when it first asks."""
        provider = self.make()
        provider.configure(options())
        return provider

    def differs(self, got: Sequence[Any], wanted: Sequence[Any], case: Case | None = None) -> str | None:
        """Describe what differs by more than the case, the usual tolerance of node tests and the kit allow, or return None."""
        rtol, atol = USUAL if case is None else (case.rtol, case.atol)
        return compare(got, wanted, max(rtol, self._rtol), max(atol, self._atol))

    def to_see(self, check: str, case: GeneratedCase) -> str:
        """The line that shows the result of a generated model again."""
        cls = type(self._probe)
        words = ["ort-lite", "check-provider", f"{cls.__module__}:{cls.__qualname__}"]
        given = self.make.keywords if isinstance(self.make, partial) else {}
        words += ["--options", json.dumps(given, default=str)] if given else []
        words += ["--operators", ",".join(sorted(self.operators))] if self.operators is not None else []
        return shlex.join([*words, "--only", check, "--case", case.name])

    def memoize(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the first result of `make()`, for all checks."""
        if key not in self._remembered:
            self._remembered[key] = make()
        return self._remembered[key]

    def session(self, model: Any, provider: ExecutionProvider | None = None, **how: Any) -> Session:
        """Create a session with the provider first. A partition that it cannot compile is an error here."""
        given = provider if provider is not None else self.make()
        with quiet():
            return Session(_bytes(model), options(), providers=[(given, {"on_compile_error": "raise"})], **how)

    def partitions(self, session: Session) -> list[Any]:
        """The provider's compiled partitions of a session that `session` made."""
        provider, prepared = self.provider_of(session), session._prepared
        mine = {p.name for p in prepared.assignment.partitions if p.provider is provider}
        return [compiled for key, compiled in prepared.compiled.partitions.items() if key in mine]

    def provider_of(self, session: Session) -> ExecutionProvider:
        """Its instance in a session that `session` made."""
        return next(iter(session._prepared.assignment.providers.values()))


def reference(model: Any) -> Session:
    """A session of the CPU provider alone."""
    with quiet():
        return Session(_bytes(model), options(), providers=[CPU])


@contextmanager
def quiet() -> Iterator[None]:
    """Models of ONNX's tests are odd, and kits print their own findings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def options() -> SessionOptions:
    """Return the options of all sessions: one thread, deterministic compute, and only fatal messages logged."""
    made = SessionOptions()
    made.log_severity_level = 4
    made.intra_op_num_threads = 1
    made.use_deterministic_compute = True
    return made


def _bytes(model: Any) -> Any:
    return model.SerializeToString() if hasattr(model, "SerializeToString") else model


TWO_ULPS = {"float16": 2**-9, "bfloat16": 2**-6}
"""What is allowed beyond a test's tolerance: expected values are rounded at every operator of a function (onnx's runner does so for
bfloat16)."""


def compare(got: Sequence[Any], wanted: Sequence[Any], rtol: float, atol: float) -> str | None:
    """Describe what differs, or return None: floats by more than the tolerance, anything else at all."""
    if len(got) != len(wanted):
        return f"{len(got)} outputs, expected {len(wanted)}"
    for k, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        a, b = np.asarray(mine), np.asarray(theirs)
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"output {k} is {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}"
        if not _close(a, b, rtol, atol):
            return f"output {k} differs: {_first_difference(a, b)}"
    return None


def _close(a: Any, b: Any, rtol: float, atol: float) -> bool:
    if b.dtype.kind in "biuSUO":
        return bool(np.array_equal(a, b))
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    rtol = max(rtol, TWO_ULPS.get(b.dtype.name, 0.0))
    return bool(np.allclose(a.astype(wide), b.astype(wide), rtol, atol, equal_nan=True))


def _first_difference(a: Any, b: Any) -> str:
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    mine, theirs = a.astype(wide), b.astype(wide)
    with np.errstate(invalid="ignore"):  # inf - inf
        gap = np.where((mine == theirs) | (np.isnan(mine) & np.isnan(theirs)), 0, np.abs(mine - theirs))
    gap = np.where(np.isnan(gap), np.inf, gap)
    at = np.unravel_index(int(np.argmax(gap)), a.shape) if a.size else ()
    return f"at {tuple(int(k) for k in at)}: got {a[at]!s}, expected {b[at]!s}"


def copy_feed(feed: Mapping[str, Any]) -> dict[str, Any]:
    """Return a feed with a copy of each array."""
    return {name: np.array(array) for name, array in feed.items()}
