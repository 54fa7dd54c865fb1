"""Blocks of runs by a clock that the tests turn, and what is made of their times."""

from collections.abc import Callable

import numpy as np
import pytest

from ort_lite.tools.cli.bench_command import lines
from ort_lite.tools.cli.benchmark.comparison import Result, compare_runs, differences, geometric_mean, time_runs
from ort_lite.tools.cli.benchmark.interleaved_runs import BLOCK, FEWEST, PAUSE, time_blocks


class Clock:
    """Time passes in runs and pauses alone; `log` has who ran, and "" for a pause."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds == PAUSE
        self.now += seconds
        self.log.append("")

    def run(self, name: str, seconds: Callable[[int], float]) -> Callable[[], None]:
        """A run that takes what `seconds` says of the count of its runs so far."""

        def run() -> None:
            self.now += seconds(self.log.count(name))
            self.log.append(name)

        return run


def blocks(log: list[str]) -> list[tuple[str, int]]:
    """(who, runs) of each block: what is between two pauses."""
    found = " ".join(name or "|" for name in log).split("|")[1:]
    return [(block.split()[0], len(block.split())) for block in found]


def test_blocks_take_turns_after_pauses_and_are_long_enough() -> None:
    clock = Clock()
    runs = {"a": clock.run("a", lambda _: 0.001), "b": clock.run("b", lambda _: 0.5)}
    time_blocks(runs, 3 * (0.021 + 4 * 0.5 + 2 * PAUSE), clock, clock.sleep)
    one_to_wake = 1
    short, long = ("a", round(BLOCK / 0.001) + one_to_wake), ("b", FEWEST + one_to_wake)
    assert blocks(clock.log) == [short, long, long, short, short, long]


def test_without_time_there_is_one_block_of_each() -> None:
    clock = Clock()
    time_blocks({name: clock.run(name, lambda _: 0.01) for name in "abc"}, 0, clock, clock.sleep)
    assert [name for name, _ in blocks(clock.log)] == ["a", "b", "c"]


def test_the_median_of_the_quietest_block_counts() -> None:
    """The second of three blocks is quiet, but for one run of a few."""
    clock = Clock()
    warm, block = 1 + FEWEST, 1 + FEWEST

    def seconds(count: int) -> float:
        inside = count - warm - block
        quiet = 0 <= inside < block
        return 0.04 if not quiet else 0.01 if inside == 2 else 0.03

    found = time_blocks({"a": clock.run("a", seconds)}, 0.4, clock, clock.sleep)
    assert len(blocks(clock.log)) == 3
    assert found["a"].quietest == pytest.approx(0.03)


def test_a_run_that_takes_no_time_is_measured() -> None:
    clock = Clock()
    assert time_blocks({"a": clock.run("a", lambda _: 0.0)}, 0, clock, clock.sleep)["a"].quietest == 0.0
    assert Result("a", 0.0, 1.0, 1.0).ratio is None


def test_ratios_are_above_1_where_the_rival_takes_longer() -> None:
    result = Result("model", ours=1e-3, theirs=2e-3, control=1.9e-3)
    assert result.ratio == 2.0
    assert result.noise == pytest.approx(2 / 1.9)
    assert Result("model", ours=1e-3).ratio is None


@pytest.mark.parametrize(("control", "noisy"), [(1.0, False), (0.98, False), (0.96, True), (1.04, True)])
def test_a_rival_that_differs_from_itself_is_said(control: float, noisy: bool) -> None:
    result = Result("model", ours=1e-3, theirs=1e-3, control=1e-3 / control)
    assert result.noisy == noisy
    assert any("noise: onnxruntime" in line for line in lines(result, "onnxruntime")) == noisy


def test_a_model_is_a_line_and_what_is_wrong_with_it_another() -> None:
    good = Result("m", ours=1.5e-3, theirs=3e-3, control=3e-3)
    assert list(lines(good, "openvino")) == ["m  ort_lite 1.5 ms  openvino 3 ms  ratio 2.00  (openvino to itself 1.00)"]
    assert list(lines(Result("m", ours=1.5e-3), "")) == ["m  ort_lite 1.5 ms"]
    assert list(lines(Result("m", failed="openvino: RuntimeError: no\nstack"), "openvino")) == ["m  openvino: RuntimeError: no"]
    assert list(lines(good.replace(differences=("'y' is off",)), "openvino"))[1] == "  results differ: 'y' is off"


def test_the_mean_leaves_out_what_failed_and_what_differs() -> None:
    good = [Result("a", 1.0, 2.0, 2.0), Result("b", 1.0, 8.0, 8.0)]
    bad = [Result("c", failed="no"), Result("d", 1.0, 100.0, 100.0, differences=("y",))]
    assert geometric_mean([*good, *bad]) == pytest.approx(4.0)
    assert geometric_mean(bad) is None


def test_results_are_compared_by_their_type() -> None:
    x = np.array([1.0, 2.0], np.float32)
    assert differences(["y"], [x], [x * np.float32(1.0005)], "openvino") == []
    (line,) = differences(["y"], [x], [np.array([1.0, 3.0], np.float32)], "openvino")
    assert line == "'y' float32[2]: 1 of 2 elements differ, most at [1]: ort_lite 2.0, openvino 3.0"
    (line,) = differences(["y"], [x], [x[:1]], "openvino")
    assert line == "'y' is float32[2], openvino's float32[1]"
    assert differences(["i"], [np.array([3])], [np.array([4])], "openvino") != []
    assert differences(["s"], [np.array(["a"], object)], [np.array(["a"], object)], "openvino") == []


def test_results_are_compared_before_times_are_taken() -> None:
    order: list[str] = []

    def run(name: str, value: float) -> Callable[[], list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]]:
        def run() -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
            order.append(name)
            return [np.array([value], np.float32)]

        return run

    found = compare_runs("m", run("ours", 1), run("theirs", 2), run("control", 2), ["y"], "onnxruntime", 0)
    assert order[:2] == ["ours", "theirs"]
    assert len(found.differences) == 1
    assert {"ours", "theirs", "control"} == set(order)
    alone = time_runs("m", run("ours", 1), 0)
    assert alone.ours is not None and alone.theirs is None
