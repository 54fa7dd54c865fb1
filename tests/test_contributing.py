"""The code on the page for contributors: excerpts are what the files say, the rest runs."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.provider import ExecutionProvider

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS: list[str] = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EXCERPTS = dict(block[2:].split("\n", 1) for block in BLOCKS if block.startswith("# "))
(PROVIDER,) = [block for block in BLOCKS if not block.startswith("# ")]


@pytest.mark.parametrize("path", EXCERPTS)
def test_an_excerpt_is_what_the_file_says(path: str) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    missing = [part for part in EXCERPTS[path].split("\n\n\n") if part.strip("\n") not in source]
    assert missing == [], f"CONTRIBUTING.md quotes {path} as it was: update the page"


def test_every_kind_of_contribution_is_shown() -> None:
    assert {path.split("/")[0] for path in EXCERPTS} == {"providers", "tests", "transforms"}


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
