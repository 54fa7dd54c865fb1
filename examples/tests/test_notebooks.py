"""Notebooks, run from top to bottom as a reader would: what they print is what their words say."""

import re

import nbformat
import pytest

from examples.tests.notebooks import EXAMPLES, outlines, run
from examples.tests.notebooks import outputs as outputs_of

NAMES = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))


def outputs(name: str) -> list[str]:
    return outputs_of(run(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_outputs_of_a_notebook_are_current(name: str) -> None:
    committed = nbformat.read(EXAMPLES / name, as_version=4)
    assert outlines(committed) == outlines(run(name)), "run python examples/tests/notebooks.py"


def test_two_providers() -> None:
    _, verdicts, placements, copies, fewer, read = outputs("two_providers.ipynb")
    assert "relu1          declined alone" in verdicts
    assert {line.split()[2] for line in placements.splitlines()} >= {"CPUExecutionProvider_0", "SampleExecutionProvider_0"}
    assert len(fewer.splitlines()) == len(copies.splitlines()) - 2
    (both, right), (alone, as_right) = (line.split(": ") for line in read.splitlines())
    assert (both, alone) == ("SampleExecutionProvider and CPUExecutionProvider", "CPUExecutionProvider")
    assert right == as_right == "358 of 360 right"


def test_memory_plan() -> None:
    _, plan, drawn, greedy, checked, growth = outputs("memory_plan.ipynb")
    assert "gap 0 (0.0%), packed by adaptive" in plan
    assert len({len(line) for line in drawn.split()}) == 1
    assert "packed by greedy" in greedy
    assert "gap 0 " not in greedy
    assert checked.count("nothing overlaps") == 2
    peaks = [int(line.split()[5].replace(",", "")) for line in growth.splitlines()]
    assert peaks == sorted(set(peaks))
    assert len(peaks) == 4


def test_session_view() -> None:
    _, explanation, trace, memory, view = outputs("session_view.ipynb")
    assert "python_steps 0" in explanation
    assert "compile_partitions" in trace
    assert "packed_weights" in memory
    assert view.startswith("<iframe srcdoc=")


def test_generate() -> None:
    _, tokens, likely, cache, sentences = outputs("generate.ipynb")
    assert tokens.startswith("10 tokens: 'And'")
    shares = [float(line.split()[-1]) for line in likely.splitlines()]
    assert shares == sorted(shares, reverse=True)
    assert re.findall(r"(\d+) of 64 rows", cache) == ["11", "12", "13", "14"]
    assert len(set(re.findall(r"unto the king(.*)", sentences))) == 4


def test_scale_simulation() -> None:
    _, _, compared, replicas, batches, deaths, needed = outputs("scale_simulation.ipynb")
    errors = [line.split() for line in compared.splitlines()[1:-1]]
    off = {(int(connections), figure): float(error.rstrip("%")) for connections, figure, _, _, _, error in errors}
    assert all(abs(off[1, figure]) < 4 for figure in ("throughput,", "p50,", "p95,", "p99,"))
    assert all(16 < off[connections, "throughput,"] < 28 for connections in (2, 4, 8))
    assert all(-16.5 < off[connections, "p50,"] < -12.5 for connections in (2, 4, 8))
    assert all(-57 < off[connections, "p99,"] < -32 for connections in (2, 4, 8))
    assert compared.endswith("1.73 of 2\n")
    assert len(replicas.splitlines()) == 16
    heavy = [int(line.split()[4]) for line in batches.splitlines() if line.strip().startswith("heavy")]
    assert heavy[1] > 1.9 * heavy[0]
    lost = [line.split()[3:5] for line in deaths.splitlines()[1:]]
    assert [int(one) > 0 for one, _ in lost] == [False, True, False, False]
    assert [int(again) > 0 for _, again in lost] == [False, False, False, True]
    assert needed.endswith("{'as calibrated': 2, 'careful': 2}\n")


def test_each_notebook_has_its_test() -> None:
    assert {f"test_{name.removesuffix('.ipynb')}" for name in NAMES} <= set(globals())
