"""200 node tests of ONNX, drawn by a seed from those that onnxruntime passes alone, with providers of ort-lite inside."""

import random
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
from onnx.backend.test.loader import load_model_tests

from tests.inside_onnxruntime import ERRORS, OWN, PlainExecutionProvider, register, registered, session, taken
from tests.operator_traits import traits_of
from tests.other_node_cases import array, flat

FAILURES: tuple[type[Exception], ...] = (AssertionError, TypeError, ValueError, *ERRORS)
SEED, COUNT, PARTS = 20, 200, 8
ACCELERATOR = "AcceleratorExecutionProvider"
WIDE = {"test_resize_downsample_scales_cubic_align_corners", "test_resize_downsample_scales_linear_align_corners"}
"""They align corners with a length before it is rounded, which neither PyTorch nor onnxruntime does."""


@cache
def drawn() -> Sequence[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of the overflows that some tests are about
        found = sorted(load_model_tests(kind="node"), key=lambda case: str(case.name))
    fit = [case for case in found if case.name not in WIDE and _is_plain(case) and not _is_random(case)]
    random.Random(SEED).shuffle(fit)
    return list(islice(filter(works_alone, fit), COUNT))


def _is_plain(case: Any) -> bool:
    """Return True if onnxruntime's Python interface takes and returns the element types: those that NumPy has by itself."""
    values = [array(value) for inputs, outputs in case.data_sets for value in (*inputs, *outputs)]
    return all(value.dtype.isbuiltin == 1 for value in flat(values))


def _is_random(case: Any) -> bool:
    return any(traits_of(node.op_type).random is not None for node in case.model.graph.node)


def check(case: Any, *providers: str) -> None:
    made = session(case.model.SerializeToString(), *providers)
    inputs, outputs = ([array(value) for value in values] for values in case.data_sets[0])
    named = zip(case.model.graph.input, inputs, strict=False)
    feeds = {value.name: np.asarray(x) if isinstance(x, np.generic) else x for value, x in named if x is not None}
    got = made.run(None, feeds)
    for result, expected in zip(flat(got), flat(outputs), strict=True):
        assert result.shape == expected.shape
        if expected.dtype.kind == "f":
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(
                result.astype(np.float64), expected.astype(np.float64), rtol=case.rtol, atol=max(case.atol, 1e-5)
            )
        else:
            np.testing.assert_array_equal(result, expected)


def works_alone(case: Any) -> bool:
    """Return True if onnxruntime by itself passes the test: it lacks some operators and types, and differs in some numbers."""
    try:
        check(case)
    except FAILURES:
        return False
    return True


@pytest.fixture(scope="module", autouse=True)
def plain() -> Iterator[None]:
    with registered(PlainExecutionProvider):
        yield


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", [OWN, ACCELERATOR, PlainExecutionProvider.name])
def test_results_are_those_of_the_case(name: str, part: int) -> None:
    register(name)
    failures = {}
    for case in drawn()[part::PARTS]:
        try:
            check(case, name)
        except FAILURES as error:
            failures[case.name] = str(error)
    assert failures == {}
    assert len(drawn()) == COUNT


def test_ort_lite_takes_most_nodes() -> None:
    register(OWN)
    some = 0
    for case in drawn()[:40]:
        session(case.model.SerializeToString(), OWN)
        some += bool(taken(OWN))
    assert some >= 25
