"""Checks of results: nodes that a provider claims give what ONNX expects."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_lite.testing import cases
from ort_lite.testing.cases import Case
from ort_lite.testing.checks.tries import call_for, new_result, problem, run_copy, session_with_constants
from ort_lite.testing.kit import Finding, Kit, reference


def claims(kit: Kit) -> list[Finding]:
    """Check that the provider compiles and runs what it claims, with the results that ONNX expects. It must claim something."""
    if not kit.positive_cases:
        return [Finding("claims", "", "it takes no node of the node tests: there is nothing to check")]
    found = []
    for case in kit.positive_cases:
        got = new_result(kit, case.model, case.feed)
        text = problem(kit, got, case.expected, case)
        if text is not None:
            found.append(Finding("claims", case.name, f"it claims {', '.join(kit.operators_by_case[case])}, and then: {text}"))
    return found


def constants(kit: Kit) -> list[Finding]:
    """Check that inputs may be constants: with all but the first as initializers, two runs give the same results as before."""
    found = []
    for case in kit.some:
        given = session_with_constants(kit, case)
        if given is None:
            continue
        session, feed = given
        for label in ("", ", second run"):
            got = session if isinstance(session, Exception) else run_copy(session, feed)
            text = problem(kit, got, case.expected, case)
            if text is not None:
                found.append(Finding("constants", f"{case.name}{label}", text))
                break
    return found


def shapes(kit: Kit) -> list[Finding]:
    """Check open dimensions with other sizes, including 1 and 0, and scalars (0-d), against the CPU provider.

    Sizes that the CPU provider rejects are not valid for the operator. If it returns NaN for no elements, ONNX leaves the result
    open.
    """
    found = []
    for case in kit.some:
        model = cases.with_open_dimensions(case)
        session, cpu = call_for(partial(kit.session, model)), call_for(partial(reference, model))
        if isinstance(cpu, Exception):
            continue
        if isinstance(session, Exception):
            text = problem(kit, session, ())
            found += [Finding("shapes", f"{case.name}, open dimensions", text)] if text is not None else []
            continue
        for label, feed in (("as it is", case.feed), *cases.other_sizes(case)):
            wanted = run_copy(cpu, feed)
            undefined = isinstance(wanted, Exception) or (label == "empty" and any(map(_has_nan, wanted)))
            text = None if undefined else problem(kit, run_copy(session, feed), wanted, case)
            if text is not None:
                found.append(Finding("shapes", f"{case.name}, {label}", text))
        found += _numbers(kit, case)
    return found


def _has_nan(array: Any) -> bool:
    return array.dtype.kind in "fc" and bool(np.isnan(array).any())


def _numbers(kit: Kit, case: Case) -> list[Finding]:
    """Return the operator on 0-d inputs, if all of them may be 0-d."""
    feed = cases.scalars(case)
    if feed is None or len(set(case.operators)) > 1:
        return []
    model = cases.with_rank_0(case)
    wanted = call_for(lambda: reference(model).run(None, feed))
    text = None if isinstance(wanted, Exception) else problem(kit, new_result(kit, model, feed), wanted, case)
    return [] if text is None else [Finding("shapes", f"{case.name}, 0-d", text)]


def groups(kit: Kit) -> list[Finding]:
    """Check partitions of several nodes: an inner value that is also an output, a foreign node in between, and bodies with
    captures.

    Results outside the domain of a function are ignored.
    """
    found = []
    for label, model, feed in cases.of_several_nodes(kit.unary):
        wanted: Sequence[Any] = reference(model).run(None, feed)
        text = problem(kit, _mask_nan(new_result(kit, model, feed), wanted), wanted, kit.unary[0])
        if text is not None:
            found.append(Finding("groups", label, text))
    return found


def _mask_nan(got: Any, wanted: Sequence[Any]) -> Any:
    """Replace elements by NaN where NaN is expected, because functions of NaN differ between devices."""
    if isinstance(got, Exception) or [y.shape for y in got] != [y.shape for y in wanted]:
        return got
    return [np.where(np.isnan(theirs), theirs, mine) for mine, theirs in zip(got, wanted, strict=True)]
