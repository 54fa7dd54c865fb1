"""Signatures that an editor shows: the keywords of public callables are written out."""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import pytest

import ort_lite
from ort_lite.session.preparation import _KEYWORDS
from ort_lite.session.session import Session
from ort_lite_cpu import CPUExecutionProvider

CALLABLES = [
    ort_lite.InferenceSession,
    ort_lite.InferenceSession.run,
    ort_lite.InferenceSession.run_async,
    ort_lite.InferenceSession.run_with_iobinding,
    ort_lite.InferenceSession.run_with_ort_values,
    Session,
    ort_lite.plan,
    ort_lite.load,
    ort_lite.save,
    ort_lite.ModelCompiler,
    ort_lite.CompositeProvider,
    CPUExecutionProvider,
]
WITHOUT_EFFECT = {"enable_fallback", "read_config_from_model"}


@pytest.mark.parametrize("function", CALLABLES)
def test_only_unknown_keywords_are_collected(function: Callable[..., Any]) -> None:
    collected = [name for name, parameter in signature(function).parameters.items() if parameter.kind is Parameter.VAR_KEYWORD]
    assert collected in ([], ["unknown"])


def test_a_session_has_all_its_keywords_in_its_signature() -> None:
    names = set(signature(ort_lite.InferenceSession).parameters)
    assert names == (_KEYWORDS - WITHOUT_EFFECT) | {"unknown"}
    assert list(signature(Session).parameters) == list(signature(ort_lite.InferenceSession).parameters)
