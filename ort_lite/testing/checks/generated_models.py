"""Checks with generated models, compared with the CPU provider. The smallest failure of each operator is reported."""

import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ort_lite.testing.checks.tries import call_for, problem, run_copy
from ort_lite.testing.generated import GeneratedCase
from ort_lite.testing.kit import Finding, Kit

NAMED = 2
"""Other failures of the same operators that are named."""


def attributes(kit: Kit) -> list[Finding]:
    """Check each operator with every attribute varied: results match the CPU provider's, including type and shape."""
    return _of_kind(kit, "attributes")


def numbers(kit: Kit) -> list[Finding]:
    """Check that NaN, infinities, zeros, denormals and large numbers give the CPU provider's results."""
    return _of_kind(kit, "numbers")


def graphs(kit: Kit) -> list[Finding]:
    """Check small graphs that a device may fuse or lay out differently, with extra readers, repeated operands and constants."""
    return _of_kind(kit, "graphs")


def sizes(kit: Kit) -> list[Finding]:
    """Check that one session supports other sizes of any dimension in each run, and then the earlier ones again."""
    return _of_kind(kit, "sizes")


def _of_kind(kit: Kit, kind: str) -> list[Finding]:
    failed: defaultdict[tuple[str, ...], list[tuple[GeneratedCase, str]]] = defaultdict(list)
    deviated: set[str] = set()
    for case in kit.of_kind(kind):
        if (text := _failure(kit, case, deviated)) is not None:
            failed[case.operators].append((case, text))
    return [*(_smallest(kit, kind, several) for several in failed.values()), *_find_stale_deviations(kit, kind, deviated)]


def _failure(kit: Kit, case: GeneratedCase, deviated: set[str]) -> str | None:
    """Describe the first wrong run. Operators that deviate as known are added to `deviated`."""
    expected = kit.models.reference_outputs(case)
    session: Any = call_for(partial(kit.session, case.model))
    if isinstance(session, Exception):
        text = problem(kit, session, ())
        return None if text is None else f"it claims {', '.join(kit.takes(case))}, and then: {text}"
    for k, (feed, right) in enumerate(zip(case.feeds, expected or (), strict=True)):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of overflow and empty means, which ONNX allows
            got = run_copy(session, feed)
        text = _describe(kit, case, feed, got, right, deviated)
        if text is not None:
            return text if len(case.feeds) == 1 else f"run {k + 1}: {text}"
    return None


def _describe(
    kit: Kit, case: GeneratedCase, feed: Mapping[str, Any], got: Any, right: list[Any], deviated: set[str]
) -> str | None:
    """Describe an exception, or the differences in elements at which no deviation is known."""
    text, operator = problem(kit, got, right), case.operators[0]
    known = kit.known.get(case.kind, {}).get(operator) if len(case.nodes) == 1 else None
    if text is None or known is None or isinstance(got, Exception):
        return text
    other = kit.differs(known.without(case, feed, got, right), right)
    if other != text:
        deviated.add(operator)
    return other


def _find_stale_deviations(kit: Kit, kind: str, deviated: Collection[str]) -> Iterator[Finding]:
    """Report known deviations that no model shows. A kit limited to one model or to other operators cannot tell."""
    if kit.models.case:
        return
    for operator, known in kit.known.get(kind, {}).items():
        if operator not in deviated and (kit.operators is None or operator in kit.operators):
            yield Finding(kind, operator, f"{known.reason}: known, but no generated model shows it; take it off the list")


def _smallest(kit: Kit, kind: str, failed: list[tuple[GeneratedCase, str]]) -> Finding:
    (case, text), *others = sorted(failed, key=lambda pair: pair[0].size)
    if others:
        named = "; ".join(other.name for other, _ in others[:NAMED])
        more = len(others) - NAMED
        text += f" (and so does {named}{f'; {more} more' if more > 0 else ''})"
    return Finding(kind, case.name, text, kit.to_see(kind, case), case.size)
