"""The page for contributors: excerpts are what the files say, other code runs, tables name what is there."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.provider import ExecutionProvider
from tests.test_layering import CONTRACT, within

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS: list[str] = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EXCERPTS = dict(block[2:].split("\n", 1) for block in BLOCKS if block.startswith("# "))
(PROVIDER,) = [block for block in BLOCKS if not block.startswith("# ")]


def table(head: str) -> list[list[str]]:
    """The cells of the rows under a heading."""
    found = re.search(rf"^{re.escape(head)}\n\| ---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert found is not None, f"CONTRIBUTING.md has no table {head}"
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found[1].splitlines()]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_kind_of_contribution_is_shown() -> None:
    assert {path.split("/")[0] for path in EXCERPTS} == {"ort_lite", "providers", "tests", "transforms"}


@pytest.fixture
def provider() -> type[ExecutionProvider]:
    names: dict[str, Any] = {}
    exec(compile(PROVIDER, "CONTRIBUTING.md", "exec"), names)
    found: type[ExecutionProvider] = names["NumPyExecutionProvider"]
    return found


def test_the_provider_runs_beside_the_cpu_provider(provider: type[ExecutionProvider]) -> None:
    graph = "g (float[N] x) => (float[N] y) { a = Abs(x) b = Sqrt(a) c = Exp(b) y = Neg(c) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {graph}')
    session = ort_lite.InferenceSession(model, providers=[provider, "CPUExecutionProvider"])
    x = np.array([0, -1, 4], np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], -np.exp(np.sqrt(np.abs(x))), rtol=1e-6)
    rows = session.explain().assignment.rows()
    places = {place.node.op_type: (place.provider, str(place.reasons[0])) for _, place in rows}
    assert places["Sqrt"][0] == "NumPyExecutionProvider"
    assert places["Exp"] == ("CPUExecutionProvider", "declined operator: Exp is none of Abs, Neg, Sqrt")
    assert [p.name for p in session.explain().assignment.partitions if len(p.nodes) == 2] == ["NumPyExecutionProvider_0"]


def test_a_provider_needs_few_lines() -> None:
    lines = [line for line in PROVIDER.splitlines() if line.strip() and not line.startswith(("import ", "from "))]
    assert len(lines) <= 25


MODULES = {quoted(row[0])[0]: row for row in table("| module | for | such as |")}


@pytest.mark.parametrize("module", MODULES)
def test_a_name_is_imported_from_where_the_page_says(module: str) -> None:
    names = quoted(MODULES[module][2])
    assert names
    assert [name for name in names if not hasattr(import_module(module), name)] == []


def test_the_page_and_the_layering_test_have_one_contract() -> None:
    allowed = [f"ort_lite.{name}" for name in CONTRACT]
    assert [module for module in MODULES if not any(within(module, one) for one in allowed)] == [], "not allowed"
    assert [one for one in allowed if not any(within(module, one) for module in MODULES)] == [], "not on the page"


def test_no_name_has_two_places() -> None:
    names = [name for row in MODULES.values() for name in quoted(row[2])]
    assert sorted(set(names)) == sorted(names)


def test_the_page_lists_every_folder() -> None:
    listed = [
        quoted(row[0])[0] for kind in ("folder", "folder or file", "room") for row in table(f"| {kind} | what is in it |")
    ]
    there = [file for file in (ROOT / "ort_lite").iterdir() if not file.name.startswith("__") and file.name != "py.typed"]
    assert sorted(listed) == sorted(f"{file.name}/" if file.is_dir() else file.name for file in there)


@pytest.mark.parametrize("row", table("| table | when | a test that fails otherwise |"), ids=lambda row: quoted(row[0])[0])
def test_a_table_that_an_operator_enters_is_there(row: list[str]) -> None:
    """`NAME` in `file`, or a file, or files of a folder."""
    paths = [name for name in quoted("".join(row)) if "/" in name]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    place = ROOT / paths[0]
    for name in quoted(row[0]):
        assert "/" in name or ((place / name).is_file() if place.is_dir() else name in place.read_text(encoding="utf-8"))
