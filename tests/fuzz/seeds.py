"""What mutants begin with: the conformance cases of every operator version that has a kernel, and cases of com.microsoft."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ort_lite.graph import Node
from ort_lite_cpu.operators import STRING_FAMILIES
from ort_lite_cpu.registry import find
from tests.conformance.versions import models
from tests.conformance.versions.cases import Case, Input
from tests.conformance.versions.checking import plan
from tests.conformance.versions.schemas import Key, schemas
from tests.fuzz import generated


class Seed(NamedTuple):
    """A case of an operator's version, with the inputs of the main type variable in another element type where `dtype` is one."""

    key: Key
    case: Case
    dtype: str | None

    def inputs(self) -> tuple[Input, ...]:
        if self.dtype is None:
            return self.case.inputs
        return models.converted(self.case, schemas()[self.key], self.dtype)


@cache
def seeds() -> dict[Key, list[Seed]]:
    """By operator version, those in the types of the cases first."""
    found: dict[Key, list[Seed]] = {}
    for key in schemas():
        if has_kernel(key):
            found[key] = sorted((Seed(key, one, dtype) for one, dtype in plan(key)), key=lambda seed: seed.dtype is not None)
    for one in generated.cases():
        found.setdefault((one.domain, one.op_type, 1), []).append(Seed((one.domain, one.op_type, 1), one, None))
    return {key: own for key, own in found.items() if own}


def has_kernel(key: Key) -> bool:
    domain, op_type, version = key
    return key[:2] in STRING_FAMILIES or find(Node(op_type, [], [], domain=domain, version=version)) is not None
