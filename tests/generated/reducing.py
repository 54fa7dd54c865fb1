"""Reduction of failing models: each candidate is judged in another process, which it may end."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from ort_lite.testing.generator.reduction import reduce
from ort_lite.testing.generator.reduction.evaluate import evaluate
from tests.generated.judge import judge as judge_model
from tests.generated.verdict import Verdict
from tests.generated.workers import Judge, Task, Worker

SECONDS = 60.0
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|[\[(][^\])]*[\])]|[-+]?\d[\w.+-]*")
"""Parts of a text that differ between models that fail in the same way: names, shapes, numbers."""
TEXTS = ("ort-lite", "judge", "process")
"""Oracles whose text says what failed: an error."""


def signature(verdict: Verdict) -> tuple[str, str] | None:
    """Return what a reduced model must have in common with the original: the oracle, and of an error its text."""
    for one in verdict.differences:
        if not one.explanation:
            return one.oracle, _VARYING.sub("", one.text.splitlines()[0]).strip() if one.oracle in TEXTS else ""
    return None


def reduce_failure(
    model: onnx.ModelProto, feeds: Mapping[str, Any], verdict: Verdict, judge: Judge = judge_model, seconds: float = SECONDS
) -> tuple[onnx.ModelProto, Mapping[str, Any], Verdict]:
    """Return the smallest model found that fails with the signature of the verdict, its feeds and its verdict."""
    expected = signature(verdict)
    judging, running = Worker(judge), Worker(_evaluate)
    last: list[Verdict] = [verdict]

    def ask(candidate: Any, inputs: Mapping[str, Any], deep: bool) -> bool:
        found = judging.verdict(Task(0, candidate.SerializeToString(), inputs, deep))
        same = signature(found) == expected
        if same:
            last[0] = found
        return same

    def run(single: Any, inputs: Mapping[str, Any]) -> Sequence[Any] | None:
        found = running.verdict(Task(0, single.SerializeToString(), inputs))
        return found if isinstance(found, list) else None

    try:
        deep = not ask(model, feeds, False)
        smaller, inputs = reduce(model, feeds, lambda model, feeds: ask(model, feeds, deep), run, seconds)
    finally:
        judging.stop()
        running.stop()
    return smaller, inputs, last[0]


def _evaluate(model: onnx.ModelProto, feeds: Mapping[str, Any], _thorough: bool) -> list[Any] | None:
    outputs = evaluate(model, feeds)
    return None if outputs is None else list(outputs)
