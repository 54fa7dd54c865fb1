"""Which operators have a rule, and what having them costs a process."""

import subprocess
import sys

import onnx.defs
import pytest

from ort_lite_transforms.shapes import FAMILIES
from ort_lite_transforms.shapes.index import FILE, index
from tests.transforms.shapes.checking import ALL

RULES = [rule for family in FAMILIES.values() for rule in family.load()]


@pytest.mark.parametrize("domain", ["", "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview"])
def test_every_operator_has_a_rule_in_every_version(domain: str) -> None:
    from ort_lite.graph import Node

    schemas = [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == domain]
    assert schemas
    without = [
        f"{schema.name}-{schema.since_version}"
        for schema in schemas
        if ALL.find(Node(schema.name, [], [], domain=domain, version=schema.since_version)) is None
    ]
    assert not without


def test_the_index_is_what_the_rules_say() -> None:
    with open(FILE, encoding="utf-8") as file:
        assert file.read() == index(), "write it anew: python -m ort_lite_transforms.shapes.index"


def test_no_operator_has_two_rules_for_one_version() -> None:
    keys = [(rule.domain, rule.op_type, rule.since) for rule in RULES]
    assert len(set(keys)) == len(keys)


def test_the_rules_name_operators_that_exist() -> None:
    known = {(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas_with_history()}
    strange = {(rule.domain, rule.op_type) for rule in RULES if rule.domain != "com.microsoft"} - known
    assert strange == {("", "SimplifiedLayerNormalization")}  # onnxruntime's own, in ONNX's domain


def test_the_rules_load_nothing_heavy() -> None:
    code = (
        "import sys; from ort_lite_transforms.shapes import FAMILIES; [family.load() for family in FAMILIES.values()];"
        "print([name for name in ('numba', 'onnx', 'ml_dtypes', 'rich', 'google.protobuf') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_environment(), timeout=240
    )
    assert result.stdout.strip() == "[]"


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
