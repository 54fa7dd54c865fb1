"""Checks of results: what a provider claims gives what ONNX expects."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_lite.testing import cases
from ort_lite.testing.cases import Case
from ort_lite.testing.checks.tries import call_for, format_exception, new_result, run_copy, session_with_constants
from ort_lite.testing.kit import Finding, Kit, reference


def claims(kit: Kit) -> list[Finding]:
    """Check that it can compile and run what it claims, with the results that ONNX expects. It claims something."""
    if not kit.claimed:
        return [Finding("claims", "", "it takes no node of the node tests: there is nothing to check")]
    found = []
    for case in kit.claimed:
        got = new_result(kit, case.model, case.feed)
        text = _differs(kit, got, case.expected, case)
        if text is not None:
            found.append(Finding("claims", case.name, f"it claims {', '.join(kit.operators_by_case[case])}, and then: {text}"))
    return found


def constants(kit: Kit) -> list[Finding]:
    """Inputs may be constants of the model: with all but the first as initialisers, twice, it gives what it gave before."""
    found = []
    for case in kit.some:
        given = session_with_constants(kit, case)
        if given is None:
            continue
        session, feed = given
        for label in ("", ", second run"):
            got = session if isinstance(session, Exception) else run_copy(session, feed)
            text = _differs(kit, got, case.expected, case)
            if text is not None:
                found.append(Finding("constants", f"{case.name}{label}", text))
                break
    return found


def shapes(kit: Kit) -> list[Finding]:
    """Check open dimensions with other sizes, of one and empty ones too, and numbers (0-d), against the CPU provider.

    A size that the CPU provider refuses is no size of the operator's; where it makes NaN of nothing, ONNX leaves the result open.
    """
    found = []
    for case in kit.some:
        model = cases.with_open_dimensions(case)
        session, cpu = call_for(partial(kit.session, model)), call_for(partial(reference, model))
        if isinstance(cpu, Exception):
            continue
        if isinstance(session, Exception):
            found.append(Finding("shapes", f"{case.name}, open dimensions", format_exception(session)))
            continue
        for label, feed in (("as it is", case.feed), *cases.other_sizes(case)):
            wanted = run_copy(cpu, feed)
            undefined = isinstance(wanted, Exception) or (label == "empty" and any(map(_has_nan, wanted)))
            text = None if undefined else _differs(kit, run_copy(session, feed), wanted, case)
            if text is not None:
                found.append(Finding("shapes", f"{case.name}, {label}", text))
        found += _numbers(kit, case)
    return found


def _has_nan(array: Any) -> bool:
    return array.dtype.kind in "fc" and bool(np.isnan(array).any())


def _numbers(kit: Kit, case: Case) -> list[Finding]:
    """The operator on 0-d inputs, where all of them may be."""
    feed = cases.scalars(case)
    if feed is None or len(set(case.operators)) > 1:
        return []
    model = cases.with_rank_0(case)
    wanted = call_for(lambda: reference(model).run(None, feed))
    text = None if isinstance(wanted, Exception) else _differs(kit, new_result(kit, model, feed), wanted, case)
    return [] if text is None else [Finding("shapes", f"{case.name}, 0-d", text)]


def groups(kit: Kit) -> list[Finding]:
    """Partitions of several nodes: a value in the middle is an output too, a foreign node is in between, bodies capture.

    Where a node gets what its function is not defined for, the result is not looked at.
    """
    found = []
    for label, model, feed in cases.of_several_nodes(kit.unary):
        wanted: Sequence[Any] = reference(model).run(None, feed)
        text = _differs(kit, _mask_nan(new_result(kit, model, feed), wanted), wanted, kit.unary[0])
        if text is not None:
            found.append(Finding("groups", label, text))
    return found


def _mask_nan(got: Any, wanted: Sequence[Any]) -> Any:
    """NaN where it is expected: functions of it are not the same everywhere."""
    if isinstance(got, Exception) or [y.shape for y in got] != [y.shape for y in wanted]:
        return got
    return [np.where(np.isnan(theirs), theirs, mine) for mine, theirs in zip(got, wanted, strict=True)]


def _differs(kit: Kit, got: Any, wanted: Sequence[Any], case: Case) -> str | None:
    return format_exception(got) if isinstance(got, Exception) else kit.differs(got, wanted, case)
