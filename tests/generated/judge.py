"""`judge`: run a model in ort-lite, ask the oracles, and explain what differs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from ort_lite import GraphOptimizationLevel, InferenceSession
from ort_lite.dtypes import from_numpy, ort_name
from tests.generated.comparison import Mismatch, identical, mismatches
from tests.generated.conditioning import Conditioning
from tests.generated.known import defect
from tests.generated.oracles import Answer, of_onnxruntime, of_reference, session
from tests.generated.verdict import Difference, Verdict

SUBJECT = "ort-lite"
CONDITIONING = "conditioning"
_UNOPTIMIZED = "unoptimized"


def judge(model: onnx.ModelProto, feeds: Mapping[str, Any], thorough: bool = False) -> Verdict:
    """Compare ort-lite with all transforms with the other oracles. `thorough` asks for more configurations of ort-lite itself."""
    return _Trial(model, feeds).verdict(thorough)


class _Trial:
    """One model with its feeds, and what was found about it so far."""

    def __init__(self, model: onnx.ModelProto, feeds: Mapping[str, Any]) -> None:
        self.model, self.feeds = model, feeds
        self.contents = model.SerializeToString()
        self.differences: list[Difference] = []
        self.oracles: list[str] = []
        self.refusals: dict[str, str] = {}
        self.conditioning = Conditioning(model, feeds)

    def verdict(self, thorough: bool) -> Verdict:
        try:
            made = session(self.contents)
            got = made.run(None, self.feeds)
        except Exception as error:  # noqa: BLE001  any error of the subject is a failure
            return self._refused(error)
        self._check_session(made, got)
        answers = self._independent()
        answers[_UNOPTIMIZED] = self._own(level=GraphOptimizationLevel.ORT_DISABLE_ALL)
        for oracle, expected in answers.items():
            self._compare(oracle, got, expected)
        return Verdict(tuple(self.differences), tuple(self.oracles), self.refusals)

    def _refused(self, error: Exception) -> Verdict:
        """A model that every oracle refuses is not valid; one that some oracle runs is a failure of ort-lite."""
        text = f"{type(error).__name__}: {error}"
        answers = self._independent()
        self.refusals.update({oracle: found for oracle, found in answers.items() if isinstance(found, str)})
        answered = tuple(oracle for oracle, found in answers.items() if not isinstance(found, str))
        if not answered:
            return Verdict((), (), self.refusals, text)
        return Verdict((Difference(SUBJECT, text),), answered, self.refusals)

    def _independent(self) -> dict[str, Answer]:
        return {"onnxruntime": of_onnxruntime(self.model, self.feeds), "float64": of_reference(self.model, self.feeds)}

    def _own(self, **options: Any) -> Answer:
        try:
            return session(self.contents, **options).run(None, self.feeds)
        except Exception as error:  # noqa: BLE001  reported as a difference
            return f"{type(error).__name__}: {error}"

    def _check_session(self, made: InferenceSession, got: Sequence[Any]) -> None:
        """A second run gives the same bits, feeds are not written to, and outputs are as the session foretells them."""
        again = made.run(None, self.feeds)
        if not identical(got, again):
            self._report("second run", "two runs give different bits")
        for declared, value in zip(made.get_outputs(), got, strict=True):
            if isinstance(value, np.ndarray) and not _fits(declared.type, declared.shape, value):
                found = f"{from_numpy(value.dtype)}{list(value.shape)}"
                self._report("foretold type", f"{declared.name}: {declared.type}{declared.shape} foretold, {found} came")

    def _compare(self, oracle: str, got: Sequence[Any], expected: Answer) -> None:
        if isinstance(expected, str):
            self.refusals[oracle] = expected
            if oracle == _UNOPTIMIZED:
                self._report(oracle, expected)
            return
        self.oracles.append(oracle)
        for mismatch in mismatches(list(got), expected):
            self._report(oracle, str(mismatch), self._explanation(oracle, mismatch))

    def _explanation(self, oracle: str, mismatch: Mismatch) -> str:
        if name := defect(self.model, oracle, mismatch):
            return name
        try:
            return CONDITIONING if self.conditioning.explains(mismatch) else ""
        except Exception as error:  # noqa: BLE001  no explanation, and a reason to look at
            self.refusals[CONDITIONING] = f"{type(error).__name__}: {error}"
            return ""

    def _report(self, oracle: str, text: str, explanation: str = "") -> None:
        self.differences.append(Difference(oracle, text, explanation))


def _fits(type_: str, shape: Sequence[int | str | None], value: Any) -> bool:
    """Return True if an array is what `get_outputs` foretold. An optional that has an element comes as the element."""
    if type_.removeprefix("optional(").rstrip(")") != ort_name(from_numpy(value.dtype)).rstrip(")"):
        return False
    if shape and len(shape) != value.ndim:
        return False
    return all(n == size for n, size in zip(shape, value.shape, strict=False) if isinstance(n, int))
