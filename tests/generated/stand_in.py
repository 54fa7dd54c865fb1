"""A simple judge: unoptimized ort-lite and onnxruntime, with wide tolerances."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from ort_lite import GraphOptimizationLevel, InferenceSession, SessionOptions
from tests.fuzz import oracle
from tests.generated.verdict import Difference, Verdict


def judge(model: onnx.ModelProto, feeds: Mapping[str, Any], thorough: bool = False) -> Verdict:
    """Compare optimized ort-lite with unoptimized ort-lite and with onnxruntime."""
    data = model.SerializeToString()
    try:
        outputs = _run(data, feeds, optimized=True)
    except Exception as error:  # noqa: BLE001  the model is valid, so that any error is a failure
        return Verdict((Difference("ort-lite", f"{type(error).__name__}: {error}"),), (), {})
    answers = {"without transforms": _run(data, feeds, optimized=False), "onnxruntime": oracle.second_opinion(model, feeds)}
    refusals = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
    texts = {name: oracle.difference(outputs, answer) for name, answer in answers.items() if not isinstance(answer, str)}
    return Verdict(tuple(Difference(*pair) for pair in texts.items() if pair[1]), tuple(texts), refusals)


def _run(data: bytes, feeds: Mapping[str, Any], optimized: bool) -> list[Any]:
    options, level = SessionOptions(), GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with InferenceSession(data, options, providers=["CPUExecutionProvider"]) as session:
            return list(session.run(None, dict(feeds)))
