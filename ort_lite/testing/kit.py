"""What checks have at hand: the provider, sessions with it and without, and the cases of which it takes all nodes."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from ort_lite.errors import OrtLiteError
from ort_lite.options import SessionOptions
from ort_lite.provider import ExecutionProvider
from ort_lite.record import Record
from ort_lite.session import InferenceSession
from ort_lite.testing.cases import Case, keeps_shape, node_cases

CPU = "CPUExecutionProvider"


class Finding(Record):
    """Something that a provider does not keep: which check found it, on which case, and what happened."""

    check: str
    case: str
    text: str

    def __str__(self) -> str:
        return f"{self.check}: {self.case}: {self.text}" if self.case else f"{self.check}: {self.text}"


class Kit:
    """`make()` gives a new instance of the provider, `make(name=value)` one with another option besides.

    `operators` limits the cases to those with one of them.
    """

    def __init__(self, make: Callable[..., ExecutionProvider], operators: Sequence[str] | None = None) -> None:
        self.make = make
        self.operators = None if operators is None else frozenset(operators)

    @cached_property
    def claimed(self) -> tuple[Case, ...]:
        """Node cases of which the provider takes at least one node. It is asked about each, seconds in all."""
        return tuple(self._taken)

    @cached_property
    def some(self) -> tuple[Case, ...]:
        """One claimed case for each operator that it takes, that with the fewest nodes."""
        found: dict[str, Case] = {}
        for case in sorted(self.claimed, key=lambda case: len(case.model.graph.node)):
            for operator in self._taken[case]:
                found.setdefault(operator, case)
        return tuple(dict.fromkeys(found.values()))

    @cached_property
    def declined(self) -> tuple[Case, ...]:
        """A few node cases of which it takes nothing."""
        return tuple(islice((case for case in node_cases() if case not in self._taken), 0, 400, 40))

    @cached_property
    def unary(self) -> tuple[Case, ...]:
        """Cases of one node that keep a float32 tensor's shape, of operators that it takes; claimed or not."""
        taken = {operator for operators in self._taken.values() for operator in operators}
        found = {case.operators[0]: case for case in node_cases() if case.operators[0] in taken and keeps_shape(case)}
        return tuple(found.values())

    @cached_property
    def _taken(self) -> dict[Case, tuple[str, ...]]:
        return {case: operators for case in self._candidates() if (operators := self.takes(case))}

    def _candidates(self) -> Iterator[Case]:
        for case in node_cases():
            if self.operators is None or not self.operators.isdisjoint(case.operators):
                yield case

    def takes(self, case: Case) -> tuple[str, ...]:
        """The operators of the nodes that the provider is given."""
        from ort_lite import plan

        try:
            with quiet():
                assignment = plan(_bytes(case.model), [self.make()], _options()).assignment
        except OrtLiteError:
            return ()  # what fails is found where sessions are made
        name = next(iter(assignment.providers))
        return tuple(dict.fromkeys(p.node.op_type for p in assignment.placements.values() if p.provider == name))

    def session(self, model: Any, provider: ExecutionProvider | None = None, **how: Any) -> InferenceSession:
        """With the provider first. A partition that it cannot compile is an error here."""
        given = provider if provider is not None else self.make()
        with quiet():
            return InferenceSession(_bytes(model), _options(), providers=[(given, {"on_compile_error": "raise"})], **how)

    def reference(self, model: Any) -> InferenceSession:
        """The CPU provider alone."""
        with quiet():
            return InferenceSession(_bytes(model), _options(), providers=[CPU])

    def partitions(self, session: InferenceSession) -> list[Any]:
        """The provider's compiled partitions of a session that `session` made."""
        prepared = session._prepared
        name = next(iter(prepared.assignment.providers))
        mine = {p.name for p in prepared.assignment.partitions if p.provider is prepared.assignment.providers[name]}
        return [compiled for key, compiled in prepared.compiled.partitions.items() if key in mine]


@contextmanager
def quiet() -> Iterator[None]:
    """Models of ONNX's tests are odd, and kits print their own findings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _options() -> SessionOptions:
    options = SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options


def _bytes(model: Any) -> Any:
    return model.SerializeToString() if hasattr(model, "SerializeToString") else model


def compare(got: Sequence[Any], wanted: Sequence[Any], rtol: float, atol: float) -> str | None:
    """What differs, or None. Floats within the tolerance, of the largest magnitude too; all else is equal."""
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
    return bool(np.allclose(a.astype(wide), b.astype(wide), rtol, atol, equal_nan=True))


def _first_difference(a: Any, b: Any) -> str:
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    gap = np.abs(a.astype(wide) - b.astype(wide))
    gap = np.where(np.isnan(gap), np.inf, gap)
    at = np.unravel_index(int(np.argmax(gap)), a.shape) if a.size else ()
    return f"at {tuple(int(k) for k in at)}: got {a[at]}, expected {b[at]}"


def copied(feed: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.array(array) for name, array in feed.items()}
