"""`examples/demo.py` as `make demo` runs it: the plugin is found by its entry point."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "plugins" / "ort-lite-sample"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints, with the plugin's entry point as an installation would write it."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entries = project["entry-points"]["ort_lite.providers"]
    lines = ["[ort_lite.providers]", *(f"{name} = {value}" for name, value in entries.items())]
    information = folder / "ort_lite_sample-0.1.0.dist-info"
    information.mkdir()
    (information / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    paths = (folder, ROOT, ROOT / "providers", ROOT / "transforms", PLUGIN)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / "demo.py"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_reads_the_digits(printed: str) -> None:
    rows = re.findall(r"^ +(\d+)  +(0\.\d{4}|1\.0000)  ", printed, re.MULTILINE)
    assert [int(size) for size, _ in rows] == [1, 8, 64]
    assert all(float(accuracy) >= 0.97 for _, accuracy in rows)


def test_its_table_says_who_runs_each_node_and_why_the_other_does_not(printed: str) -> None:
    rows = re.findall(
        r"^\S+ +\S+ +(\w+ExecutionProvider)  +\w+  +(\w+ExecutionProvider) (declined|lost)\b", printed, re.MULTILINE
    )
    assert set(rows) == {
        ("SampleExecutionProvider", "CPUExecutionProvider", "lost"),
        ("CPUExecutionProvider", "SampleExecutionProvider", "declined"),
        ("CPUExecutionProvider", "SampleExecutionProvider", "lost"),
    }
    assert len(rows) >= 8


def test_values_cross_between_the_two_memories(printed: str) -> None:
    assert re.search(r"^copy '\w+' cpu:0 -> sample:0 ", printed, re.MULTILINE)
    assert re.search(r"^copy '\w+' sample:0 -> cpu:0 ", printed, re.MULTILINE)


def test_nothing_of_the_cpu_providers_runs_in_python(printed: str) -> None:
    facts = re.findall(r"^CPUExecutionProvider_\d+: .*python_steps (\d+)", printed, re.MULTILINE)
    assert facts
    assert set(facts) == {"0"}
