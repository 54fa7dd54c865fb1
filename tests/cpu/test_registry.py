"""Which function lowers an operator, asked by many threads before its family was imported."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from ort_lite.graph import Node
from ort_lite_cpu import operators, registry
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.index import FILE, index

FAMILY = """
import threading
from ort_lite_cpu.registry import operator

@operator("Slow", domain="test.registry")
def slow(op):
    op.append(helper())

from tests.cpu.test_registry import HALF_WAY
HALF_WAY.begun.set()
HALF_WAY.go_on.wait(10)

def helper():
    return "whole"
"""


def test_the_index_is_what_the_decorators_say() -> None:
    with open(FILE, encoding="utf-8") as file:
        assert file.read() == index(), "write it anew: python -m ort_lite_cpu.operators.index"


class HalfWay:
    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()


HALF_WAY = HalfWay()


def test_nobody_is_given_a_function_of_a_family_that_is_half_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_family.py").write_text(FAMILY)
    monkeypatch.setattr(operators, "__path__", [*operators.__path__, str(tmp_path)])
    monkeypatch.setitem(operators.FAMILIES, ("test.registry", "Slow"), "slow_family")
    node = Node("Slow", [], [], domain="test.registry", version=1)

    def lowered() -> list[str]:
        found = registry.find(node)
        assert found is not None
        said: list[str] = []
        found.lower(cast(NodeLowering, said))
        return said

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(lowered)
        assert HALF_WAY.begun.wait(10)
        second = threads.submit(lowered)
        with pytest.raises(TimeoutError):
            second.result(0.2)
        HALF_WAY.go_on.set()
        assert (first.result(10), second.result(10)) == (["whole"], ["whole"])
