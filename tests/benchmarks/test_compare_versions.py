"""`make compare`: what its statistics report and what not, and its processes on stand-ins for two versions."""

import json
import math
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from tests.benchmarks.compare import measure
from tests.benchmarks.compare.cases import Case
from tests.benchmarks.compare.lines import count
from tests.benchmarks.compare.measure import LIMITS, Figure, Trio, measure_run, measure_starts, measure_wheels
from tests.benchmarks.compare.processes import Failed, Worker, start, timer_of, workers
from tests.benchmarks.compare.report import Report
from tests.benchmarks.compare.samples import Comparison, Group, Limits, compare, confirmed, interval, suspicious, undecided
from tests.benchmarks.compare.sides import Side

MODELS = LIMITS["model"]


def group(rng: random.Random, change: float, process: float = 0.01, run: float = 0.01, rounds: int = 30) -> Group:
    """Samples of three processes: each is off by a share of its own, and each of its samples again."""

    def samples(ratio: float) -> tuple[float, ...]:
        own = ratio * math.exp(rng.gauss(0, process))
        return tuple(own * math.exp(rng.gauss(0, run)) for _ in range(rounds))

    return Group(samples(1 + change), samples(1), samples(1))


def reported(rng: random.Random, change: float, limits: Limits = MODELS) -> bool:
    """Do what `measure_run` does with groups: the first one decides whether five more are taken, and they decide the rest."""
    first = compare([group(rng, change, rounds=15)])
    return suspicious(first, limits) and confirmed(compare([group(rng, change) for _ in range(5)]), limits)


def test_versions_that_are_equal_are_not_reported() -> None:
    rng = random.Random(1)
    assert not any(reported(rng, 0.0) for _ in range(1000))


@pytest.mark.parametrize("change", [0.05, 0.08, -0.05])
def test_a_change_beyond_noise_and_limit_is_reported(change: float) -> None:
    rng = random.Random(2)
    assert sum(reported(rng, change) for _ in range(100)) >= 85


def test_a_change_below_the_limit_is_not_reported() -> None:
    steady = [Group((1.015,) * 9, (1.0,) * 9, (1.0,) * 9)] * 5
    assert not confirmed(compare(steady), MODELS)
    assert confirmed(compare(steady), Limits(0.01))


def test_a_change_below_the_noise_of_the_control_is_not_reported() -> None:
    noisy = [Group((1.02,) * 9, (1.0,) * 9, (0.95,) * 9)] * 5
    assert compare(noisy).noise == pytest.approx(1 / 0.95 - 1)
    assert not confirmed(compare(noisy), MODELS)


def test_groups_that_disagree_are_not_reported() -> None:
    """Three processes of six were slow: luck of those, not a change."""
    slow, equal = Group((1.06,) * 9, (1.0,) * 9, (1.0,) * 9), Group((1.0,) * 9, (1.0,) * 9, (1.0,) * 9)
    assert not confirmed(compare([slow, equal, slow, equal, slow]), MODELS)
    assert undecided(compare([slow, equal, slow]), MODELS, 5)
    assert not undecided(compare([equal, slow, equal]), MODELS, 5)
    assert undecided(compare([slow]), MODELS, 2)
    assert not undecided(compare([equal]), MODELS, 2)


def test_small_amounts_are_not_reported() -> None:
    slower = compare([Group((0.066,) * 9, (0.06,) * 9, (0.06,) * 9)] * 5)
    assert not confirmed(slower, LIMITS["start"])  # 10 %, but 6 ms
    assert confirmed(slower, Limits(0.05, 0.005))


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    rng = random.Random(3)
    bounds = [interval([rng.gauss(0, 1) for _ in range(15)]) for _ in range(2000)]
    assert 0.94 < np.mean([low <= 0 <= high for low, high in bounds]) < 0.99
    assert interval([2.0]) == (2.0, 2.0)
    assert interval([3.0, 1.0]) == (1.0, 3.0)


# Processes

PACKAGE = """
import time
class SessionOptions: pass
class InferenceSession:
    def __init__(self, model, options, providers):
        if model.endswith("broken.onnx"): raise ValueError("no such operator")
        if model.endswith("fatal.onnx"): import os; os._exit(3)
    def run(self, names, feeds):
        end = time.perf_counter() + {seconds}
        while time.perf_counter() < end: pass
"""
"""Stands in for ort_lite: a run spins for a time that the test knows."""


def version(folder: Path, seconds: float = 0.001, wheel: int = 1000, code: str = PACKAGE) -> Side:
    folder.mkdir()
    (folder / "ort_lite.py").write_text(code.format(seconds=seconds))
    (folder / "wheel").write_bytes(bytes(wheel))
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return Side(folder.name, folder, folder / "wheel", python, folder / "kernels")


def case(folder: Path, name: str = "model") -> Case:
    np.savez(folder / f"{name}.npz", x=np.zeros(3))
    return Case("model", name, folder / f"{name}.onnx", folder / f"{name}.npz")


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "worse"), [(0.001, False), (0.0015, True)])
def test_a_version_that_spins_for_longer_is_named(
    seconds: float, worse: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "CONFIRMATIONS", 2)
    trio = Trio(version(tmp_path / "changed", seconds), version(tmp_path / "base"))
    with workers(trio.programs(), 1) as pool:
        figure = measure_run(trio, pool, case(tmp_path), 1)
    assert figure.worse == worse
    assert figure.comparison is not None
    assert figure.comparison.base == pytest.approx(0.001, rel=0.3)


@pytest.mark.slow
def test_a_model_that_fails_in_the_changed_version_alone_is_worse(tmp_path: Path) -> None:
    able = version(tmp_path / "base", code=PACKAGE.replace('raise ValueError("no such operator")', "pass"))
    trio = Trio(version(tmp_path / "changed"), able)
    with workers(trio.programs(), 1) as pool:
        figure = measure_run(trio, pool, case(tmp_path, "broken"), 1)
        assert figure.failure == "changed: ValueError: no such operator"
        assert figure.worse
        assert not measure_run(Trio(trio.changed, trio.changed), pool, case(tmp_path, "broken"), 1).worse


@pytest.mark.slow
def test_a_process_that_ends_costs_one_model(tmp_path: Path) -> None:
    with Worker(timer_of(version(tmp_path / "base"))) as worker:
        fatal, good = case(tmp_path, "fatal"), case(tmp_path)
        with pytest.raises(Failed, match="status 3: it said nothing"):
            worker.open(fatal.model, fatal.feeds, 1)
        assert worker.open(good.model, good.feeds, 1) > 0


@pytest.mark.slow
def test_a_slower_import_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "STARTS", 3)
    slow = version(tmp_path / "changed", code="import time; time.sleep(0.1)\n" + PACKAGE)
    (figure,) = measure_starts(Trio(slow, version(tmp_path / "base")), None, False, ["start"])
    assert (figure.name, figure.worse) == ("import", True)


@pytest.mark.slow
def test_a_start_of_this_version_has_times_and_memory(tmp_path: Path) -> None:
    model = parser.parse_model('<ir_version: 9, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { y = Relu(x) }')
    (tmp_path / "relu.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "relu.npz", x=np.zeros(3, np.float32))
    this = Side("this", tmp_path, tmp_path, Path(sys.executable), tmp_path / "kernels")
    figures = start(this, tmp_path / "relu.onnx", tmp_path / "relu.npz")
    assert figures.keys() == {"import", "creation", "peak memory of load", "first result", "peak memory of run"}
    assert 0 < figures["import"] < figures["first result"]
    assert 1e7 < figures["peak memory of load"] <= figures["peak memory of run"]
    assert any((tmp_path / "kernels").rglob("*"))


def test_wheels_are_compared_exactly(tmp_path: Path) -> None:
    sizes = {"small": 1_000_000, "grown": 1_099_999, "large": 1_100_001}
    sides = {name: version(tmp_path / name, wheel=size) for name, size in sizes.items()}
    assert not measure_wheels(Trio(sides["grown"], sides["small"])).changed
    assert measure_wheels(Trio(sides["large"], sides["small"])).worse
    smaller = measure_wheels(Trio(sides["small"], sides["large"]))
    assert smaller.changed
    assert not smaller.worse


# The page


def report(*figures: Figure) -> Report:
    return Report("new", "old", "A CPU", ("avx2",), figures, {"ort_lite/run": (90, 100), "tests": (5, 5)}, 60.0, 120.0)


def figure(kind: str, name: str, ratio: float, changed: bool = True) -> Figure:
    return Figure(kind, name, Comparison(ratio, (ratio, ratio), 0.004, 0.02, (ratio,)), changed)


def test_the_page_names_what_changed_and_counts_the_rest() -> None:
    figures = (
        figure("model", "a", 1.07),
        figure("operator", "b", 0.5),
        figure("memory", "c", 1.2),
        figure("model", "d", 1.01, False),
    )
    page = report(*figures).markdown()
    headings = [line for line in page.splitlines() if line.startswith("#")]
    assert headings == ["# new compared with old", "## Slower", "## Larger", "## Faster", "## Lines of code"]
    assert "| a | 20 ms | 1.070 | 1.070 to 1.070 | 0.4% |" in page
    assert "Unchanged: 1 of 4." in page
    assert "A CPU: avx2." in page
    assert "| all folders | 105 | 95 |" in page


def test_the_page_is_data_as_well() -> None:
    data = json.loads(json.dumps(report(figure("model", "a", 1.07)).as_dict()))
    assert data["figures"][0]["ratio"] == 1.07
    assert data["lines"]["tests"] == [5, 5]
    assert data["noise"] == {"model": 0.004}


def test_only_what_got_worse_fails() -> None:
    assert not report(figure("model", "a", 0.9), figure("model", "b", 1.1, changed=False)).worse
    assert report(figure("memory", "a", 1.1)).worse
    assert report(Figure("model", "a", None, True, "changed: it failed")).worse


def test_lines_of_code_leave_out_comments_and_docstrings() -> None:
    text = '"""A module."""\n\nX = 1  # counted\n"""An attribute."""\n# not\n'
    text += 'def f() -> str:\n    """Text\n    of two lines."""\n    return """a\n    b"""\n'
    assert count(text) == 4
