"""docs/examples.md lists the examples that there are, and notebooks are committed without outputs."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def test_the_page_lists_every_example() -> None:
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    listed = re.findall(r"\]\(\.\./examples/([\w.]+\.(?:py|ipynb))\)", page)
    assert sorted(listed) == sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb"))


def test_the_page_of_other_engines_lists_every_file() -> None:
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    listed = {(ROOT / "docs" / path).resolve() for path in re.findall(r"\]\((\.\./examples/scale_out/[\w./]+)\)", page)}
    assert listed == {path for path in (EXAMPLES / "scale_out").rglob("*.*") if "__pycache__" not in path.parts}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_says_how_to_run_it(path: Path) -> None:
    docstring = path.read_text(encoding="utf-8").split('"""')[1]
    assert f"\n    python examples/{path.name}" in docstring


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_has_the_outputs_of_a_run_without_errors_and_paths(path: Path) -> None:
    """`examples/tests/test_notebooks.py` compares them with a run; here nothing runs."""
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs and {output["output_type"] for output in outputs} <= {"stream", "execute_result", "display_data"}
    assert {cell["execution_count"] for cell in cells} == {None}
    assert not re.search(r"/(home|root|tmp|work|usr)/", json.dumps(outputs))
