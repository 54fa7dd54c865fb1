"""The conformance cases of every operator, and ONNX's own node tests, in guarded memory.

No kernel leaves its arrays, reads what nobody wrote, or depends on threads. That results are right is tests/conformance's part.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

from ort_lite.dtypes import Array
from ort_lite.load.load import load
from ort_lite.testing.cases import node_cases
from tests.conformance.versions.cases import Case
from tests.conformance.versions.checking import label, plan
from tests.conformance.versions.models import converted
from tests.conformance.versions.schemas import Key, has_containers, newest, schemas
from tests.cpu.check import assert_same, run_op

pytestmark = pytest.mark.slow

KEYS = [key for key, schema in newest().items() if not has_containers(schema)]
BATCHES = 8


def check(op_type: str, inputs: Sequence[Array | None], attributes: Mapping[str, Any], what: str, **how: Any) -> None:
    alone, shared = (run_op(op_type, inputs, attributes, threads=threads, **how) for threads in (1, 3))
    for a, b in zip(alone, shared, strict=True):
        assert_same(a, b, f"{what}: three parts give other bits than one")


def tensor_cases(key: Key) -> Iterator[tuple[Case, list[Any]]]:
    """The cases of one version without bodies and maps, in every element type that they run in."""
    for one, dtype in plan(key):
        inputs = list(converted(one, schemas()[key], dtype))
        tensors = all(value is None or isinstance(value, np.ndarray) for value in inputs)
        if tensors and not any(isinstance(value, Message) for value in one.attributes.values()):
            yield one, inputs


@pytest.mark.parametrize("key", KEYS, ids=label)
def test_versions(key: Key) -> None:
    for one, inputs in tensor_cases(key):
        outputs = [k for k, named in enumerate(one.outputs) if named]
        for variant in ({}, {"fixed": True, "constants": one.constants}):
            check(one.op_type, inputs, one.attributes, str(one), opset=key[2], domain=one.domain, outputs=outputs, **variant)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_node_tests(batch: int) -> None:
    cases = [case for case in node_cases() if len(case.model.graph.node) == 1]
    for case in cases[batch::BATCHES]:
        [node] = load(case.model).graph
        if not node.subgraphs():
            inputs = [None if value is None else case.feed[value.name] for value in node.inputs]
            attributes = {name: attribute.value for name, attribute in node.attributes.items()}
            outputs = [k for k, value in enumerate(node.outputs) if value is not None]
            check(node.op_type, inputs, attributes, case.name, opset=node.version, domain=node.domain, outputs=outputs)
