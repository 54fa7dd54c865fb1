"""The keywords of the callables that programs use most are written out, and their types hold under `mypy --strict`."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.load.parse_options import ParseOptions, SerializeOptions
from ort_lite.provider.kernels import KernelProvider, KernelRegistry
from ort_lite.session.preparation import _KEYWORDS
from ort_lite.session.session import Session
from ort_lite.testing import Report, check_provider

MODEL = '<ir_version: 8, opset_import: ["": 17]> m (float[N] x) => (float[N] y) { y = Abs(x) }'

OPEN: dict[Callable[..., Any], set[str]] = {
    ort_lite.InferenceSession: {"unknown"},  # onnxruntime ignores keywords that it does not know; here they are a warning
    check_provider: {"options"},  # of the provider
}
"""Callables with open keywords, and why."""

CALLABLES = (
    ort_lite.InferenceSession,
    ort_lite.InferenceSession.run,
    ort_lite.InferenceSession.run_async,
    ort_lite.InferenceSession.run_with_iobinding,
    ort_lite.InferenceSession.run_with_ort_values,
    ort_lite.InferenceSession.view,
    ort_lite.SessionOptions,
    ort_lite.RunOptions,
    ort_lite.OrtValue.ortvalue_from_numpy,
    ort_lite.load,
    ort_lite.save,
    ort_lite.plan,
    KernelRegistry.add,
    KernelRegistry.kernel,
    ParseOptions,
    SerializeOptions,
    check_provider,
)


WITHOUT_EFFECT = {"enable_fallback", "read_config_from_model"}
"""Keywords of a session that onnxruntime has and that do nothing here."""


def test_a_session_has_all_its_keywords_in_its_signature() -> None:
    names = set(inspect.signature(ort_lite.InferenceSession).parameters)
    assert names == (_KEYWORDS - WITHOUT_EFFECT) | {"unknown"}
    assert list(inspect.signature(Session).parameters) == list(inspect.signature(ort_lite.InferenceSession).parameters)


@pytest.mark.parametrize("function", CALLABLES, ids=lambda function: str(function.__qualname__))
def test_keywords_are_written_out(function: Callable[..., Any]) -> None:
    found = inspect.signature(function).parameters
    assert {name for name, one in found.items() if one.kind is one.VAR_KEYWORD} == OPEN.get(function, set())
    assert [name for name, one in found.items() if one.annotation is one.empty and name != "self"] == []


def test_a_typed_program() -> None:
    """Run a program that uses them. The type checker reads it with the rest of the tests."""
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 1
    model = onnx.parser.parse_model(MODEL)
    session = ort_lite.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"], mmap=False)
    feed: dict[str, Any] = {"x": np.array([-1.0], np.float32)}
    results: list[Any] = session.run(None, feed, ort_lite.RunOptions(), timeout=60.0)
    value: ort_lite.OrtValue = ort_lite.OrtValue.ortvalue_from_numpy(results[0])
    assert value.numpy().tolist() == [1.0]
    plan = ort_lite.plan(ort_lite.load(model, ParseOptions(no_copy=False)), providers=["CPUExecutionProvider"])
    assert [place.provider for place in plan.assignment.placements.values()] == ["CPUExecutionProvider"]
    registry = KernelRegistry()
    registry.add("Abs", np.abs, types={"float32"}, since=13)
    report: Report = check_provider(type("P", (KernelProvider,), {"name": "P", "kernels": registry}), only=["contract"])
    assert report.passed
