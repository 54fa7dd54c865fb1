"""The conformance cases of every operator in guarded memory.

No kernel leaves its arrays, reads what nobody wrote, or depends on threads. That results are right is tests/conformance's part.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

from tests.conformance.versions.cases import Case
from tests.conformance.versions.checking import label, plan
from tests.conformance.versions.models import converted
from tests.conformance.versions.schemas import Key, has_containers, newest, schemas
from tests.cpu.check import assert_same, run_op

KEYS = [key for key, schema in newest().items() if not has_containers(schema)]


def tensor_cases(key: Key) -> Iterator[tuple[Case, list[Any]]]:
    """The cases of one version without bodies and maps, in every element type that they run in."""
    for one, dtype in plan(key):
        inputs = list(converted(one, schemas()[key], dtype))
        tensors = all(value is None or isinstance(value, np.ndarray) for value in inputs)
        if tensors and not any(isinstance(value, Message) for value in one.attributes.values()):
            yield one, inputs


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS, ids=label)
def test_kernels_stay_within_their_arrays(key: Key) -> None:
    for one, inputs in tensor_cases(key):
        how: dict[str, Any] = {"opset": key[2], "domain": one.domain}
        how["outputs"] = [k for k, named in enumerate(one.outputs) if named]
        for variant in ({}, {"fixed": True, "constants": one.constants}):
            alone, shared = (run_op(one.op_type, inputs, one.attributes, threads=n, **how, **variant) for n in (1, 3))
            for a, b in zip(alone, shared, strict=True):
                assert_same(a, b, f"{one}: three parts give other bits than one")
