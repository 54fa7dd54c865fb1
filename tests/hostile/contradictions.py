"""Inputs and attributes of one node that contradict each other, or point outside of one another: the session or the run refuses them.

onnxruntime refuses most of these; the others it computes as nonsense, or reads beyond its tensors for them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import OrtLiteError
from tests.hostile.building import operator_model


def run(op_type: str, *inputs: Array | None, fixed: bool = False, **form: Any) -> list[Any]:
    """The outputs of one node. form: see `operator_model`."""
    model = operator_model(op_type, inputs, fixed=fixed, **form)
    feeds: Mapping[str, Any] = {f"in{k}": array for k, array in enumerate(inputs) if array is not None}
    return list(ort_lite.InferenceSession(model.SerializeToString()).run(None, feeds))


def refused(words: str, op_type: str, *inputs: Array | None, **form: Any) -> Callable[[], None]:
    """The case: refused with a message that names the node and has these words, with open dimensions and with fixed ones."""

    def case() -> None:
        for fixed in (False, True):
            try:
                results = run(op_type, *inputs, fixed=fixed, **form)
            except OrtLiteError as error:
                message = str(error)
                assert "'n'" in message, message
                assert [word for word in words.split(", ") if word not in message] == [], message
            else:
                raise AssertionError(f"computed with {'fixed' if fixed else 'open'} dimensions: {results!r:.200}")

    return case


def legal(op_type: str, *inputs: Array | None, **form: Any) -> Callable[[], None]:
    """The case that is only strange: it runs, as in onnxruntime."""

    def case() -> None:
        for fixed in (False, True):
            run(op_type, *inputs, fixed=fixed, **form)

    return case


def zeros(*shape: int, dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


def int32(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def int64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)
