"""Sessions of onnxruntime with a provider of 25 lines: nodes, options, run hooks, reports, threads, registration.

`test_onnxruntime_versions.py` runs these tests with earlier releases of onnxruntime, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnxruntime
import ort_lite_ep
import pytest

from ort_lite.provider import Partition, SessionOptions
from tests.inside_onnxruntime import ERRORS, OWN, PlainExecutionProvider, model, register, registered, report, session
from tests.threads import run_together


class HeardExecutionProvider(PlainExecutionProvider):
    """The same with an option, a dynamic option, a config key and run hooks."""

    name: ClassVar[str] = "HeardExecutionProvider"
    config_keys = ("heard.level",)
    heard: ClassVar[list[Any]] = []

    def __init__(self, factor: str = "1", **unknown: Any) -> None:
        super().__init__(**unknown)
        self.heard.append(("factor", factor))

    def configure(self, options: SessionOptions) -> None:
        self.heard.append(("level", options.config_entries.get("heard.level")))

    def set_dynamic_options(self, options: Mapping[str, str]) -> None:
        self.heard.append(dict(options))

    def on_run_start(self, options: Any) -> None:
        self.heard.append(("start", options.logid, options.config_entries.get("heard.level")))

    def on_run_end(self, options: Any) -> None:
        self.heard.append(("end", options.logid))


PLAIN, HEARD = PlainExecutionProvider.name, HeardExecutionProvider.name
CHAIN = "(float[N] x) => (float[N] y) <float[1] w = {2}> { a = Abs(x)  b = Add(a, w)  c = Exp(b)  y = Neg(c) }"
TWO = "(float[N] x, float[N] z) => (float[N] y) { a = Abs(x)  y = Mul(a, z) }"


X = np.array([-2, -1, 0, 3], np.float32)


def chain(x: Any) -> Any:
    return -np.exp(np.abs(x) + 2)


@pytest.fixture(scope="module", autouse=True)
def both() -> Iterator[None]:
    with registered(PlainExecutionProvider, HeardExecutionProvider):
        yield


@pytest.fixture(autouse=True)
def nothing_heard() -> None:
    HeardExecutionProvider.heard.clear()


def partitions(name: str) -> list[list[str]]:
    """Return the operators of each fused node of the session that was created last."""
    found: dict[str, list[str]] = {}
    for node in report(name).nodes:
        if node.partition:
            found.setdefault(node.partition, []).append(node.operator)
    return list(found.values())


# Nodes


def test_the_provider_runs_what_it_claims_and_onnxruntime_the_rest() -> None:
    made = session(model(CHAIN), PLAIN)
    assert made.get_providers() == [PLAIN, "CPUExecutionProvider"]
    for size in (4, 1, 0, 1000):
        x = np.random.default_rng(size).standard_normal(size, dtype=np.float32)
        np.testing.assert_allclose(made.run(None, {"x": x})[0], chain(x), rtol=1e-6)
    assert partitions(PLAIN) == [["Abs", "Add"], ["Neg"]]
    assert [str(node.reason) for node in report(PLAIN).declined] == ["declined operator: Exp is not plain"]


def test_a_report_says_what_became_of_each_node(tmp_path: Path) -> None:
    session(model(CHAIN), (PLAIN, {"report_path": str(tmp_path / "report.txt")}))
    lines = str(report(PLAIN)).splitlines()
    assert lines[0] == f"{PLAIN} runs 3 of 4 nodes"
    assert [line.split()[0] for line in lines[1:]] == ["Abs", "Add", "Exp", "Neg"]
    assert (tmp_path / "report.txt").read_text() == f"{report(PLAIN)}\n"
    assert ort_lite_ep.reports("AnotherExecutionProvider") == []
    with pytest.raises(ERRORS, match=r"report_path '.*nowhere.report.txt': No such file"):
        session(model(CHAIN), (PLAIN, {"report_path": str(tmp_path / "nowhere" / "report.txt")}))


def test_two_providers_share_a_session() -> None:
    register(OWN)
    made = session(model(CHAIN), PLAIN, OWN)
    np.testing.assert_allclose(made.run(None, {"x": X})[0], chain(X), rtol=1e-6)
    assert partitions(PLAIN) == [["Abs", "Add"], ["Neg"]]
    assert partitions(OWN) == [["Exp"]]
    made = session(model(CHAIN), OWN, PLAIN)
    np.testing.assert_allclose(made.run(None, {"x": X})[0], chain(X), rtol=1e-6)
    assert partitions(OWN) == [["Abs", "Add", "Exp", "Neg"]]


def test_onnxruntimes_own_rewrites_change_no_result() -> None:
    made = session(model(CHAIN), PLAIN, optimise=True)
    np.testing.assert_allclose(made.run(None, {"x": X})[0], chain(X), rtol=1e-6)


def test_outputs_are_the_callers_own() -> None:
    made = session(model("(float[N] x) => (float[N] y, float[N] z) { y = Identity(x)  z = Neg(x) }"), PLAIN)
    x = X.copy()
    y, z = made.run(None, {"x": x})
    made.run(None, {"x": x * 2})
    np.testing.assert_array_equal(y, X)
    y[:] = z[:] = 7
    np.testing.assert_array_equal(x, X)


def test_an_input_that_two_nodes_read_and_an_output_that_is_read_inside() -> None:
    made = session(model("(float[N] x) => (float[N] y, float[N] a) { a = Abs(x)  y = Sum(a, x, a) }"), PLAIN)
    y, a = made.run(None, {"x": X})
    np.testing.assert_array_equal(a, np.abs(X))
    np.testing.assert_array_equal(y, 2 * np.abs(X) + X)
    np.testing.assert_array_equal(made.run(["a"], {"x": X})[0], np.abs(X))


def test_eight_threads_run_one_session() -> None:
    made = session(model(CHAIN), PLAIN)

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        for _ in range(200):
            x = rng.standard_normal(rng.integers(0, 500), dtype=np.float32)
            np.testing.assert_allclose(made.run(None, {"x": x})[0], chain(x), rtol=1e-5)

    run_together(work, 8)


def test_run_async_and_io_binding() -> None:
    made = session(model(TWO), PLAIN)
    binding = made.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("z", X)
    binding.bind_output("y")
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.abs(X) * X)


# Options


def test_options_reach_the_provider_by_name_and_by_device() -> None:
    session(model(TWO), (HEARD, {"factor": "3"}))
    assert ("factor", "3") in HeardExecutionProvider.heard
    HeardExecutionProvider.heard.clear()
    options = onnxruntime.SessionOptions()
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == HEARD]
    options.add_provider_for_devices(devices, {"factor": "4", "max_partitions": "1"})
    made = onnxruntime.InferenceSession(model(TWO), options)
    assert ("factor", "4") in HeardExecutionProvider.heard
    np.testing.assert_array_equal(made.run(None, {"x": X, "z": X})[0], np.abs(X) * X)


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(ERRORS, match=f"{PLAIN} knows no option factor"):
        session(model(TWO), (PLAIN, {"factor": "3"}))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"limit_nodes": "1"}, [["Abs"]]),
        ({"max_subgraph_size": "1"}, [["Abs"], ["Add"], ["Neg"]]),
        ({"min_subgraph_size": "2"}, [["Abs", "Add"]]),
        ({"partitioning_stop_ops": "Add"}, [["Abs"]]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_policies_limit_what_the_provider_gets(options: dict[str, str], expected: list[list[str]]) -> None:
    made = session(model(CHAIN), (PLAIN, options))
    np.testing.assert_allclose(made.run(None, {"x": X})[0], chain(X), rtol=1e-6)
    assert partitions(PLAIN) == expected


def test_a_policy_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ERRORS, match="option limit_nodes is 'many'; expected a number"):
        session(model(TWO), (PLAIN, {"limit_nodes": "many"}))


def test_config_entries_dynamic_options_and_run_hooks_arrive() -> None:
    made, heard = session(model(TWO), HEARD, entries={"heard.level": "high"}), HeardExecutionProvider.heard
    assert ("level", "high") in heard
    heard.clear()
    made.set_ep_dynamic_options({"speed": "fast"})
    options = onnxruntime.RunOptions()
    options.logid = "first"
    options.add_run_config_entry("heard.level", "low")
    made.run(None, {"x": X, "z": X}, options)
    made.run(None, {"x": X, "z": X})
    assert heard == [{"speed": "fast"}, ("start", "first", "low"), ("end", "first"), ("start", "", None), ("end", "")]


def test_dynamic_options_that_a_provider_does_not_have_are_an_error() -> None:
    made = session(model(TWO), PLAIN)
    with pytest.raises(ERRORS, match=f"{PLAIN} has no dynamic option speed"):
        made.set_ep_dynamic_options({"speed": "fast"})
    np.testing.assert_array_equal(made.run(None, {"x": X, "z": X})[0], np.abs(X) * X)


# Registration


def test_a_wrong_name_lists_the_choices() -> None:
    with pytest.raises(ERRORS, match=f"no execution provider of ort-lite is registered as 'PlanExecutionProvider'.*{PLAIN}"):
        onnxruntime.register_execution_provider_library("PlanExecutionProvider", ort_lite_ep.get_library_path())
    assert {PLAIN, HEARD, OWN} <= set(ort_lite_ep.get_ep_names())


def test_a_name_is_registered_again_after_it_was_unregistered() -> None:
    class FirstExecutionProvider(PlainExecutionProvider):
        name: ClassVar[str] = "AgainExecutionProvider"

    class SecondExecutionProvider(FirstExecutionProvider):
        def run(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
            return [-result for result in super().run(partition, inputs)]

    for cls, sign in ((FirstExecutionProvider, 1), (SecondExecutionProvider, -1), (FirstExecutionProvider, 1)):
        with registered(cls):
            with pytest.raises(ERRORS, match="already registered"):
                onnxruntime.register_execution_provider_library(cls.name, ort_lite_ep.get_library_path())
            made = session(model(TWO), cls.name)
            np.testing.assert_array_equal(made.run(None, {"x": X, "z": X})[0], sign * np.abs(X) * X)
            del made
        assert cls.name not in {device.ep_name for device in onnxruntime.get_ep_devices()}


def test_a_session_outlives_its_registration() -> None:
    class LateExecutionProvider(PlainExecutionProvider):
        name: ClassVar[str] = "LateExecutionProvider"

    with registered(LateExecutionProvider):
        made = session(model(TWO), LateExecutionProvider.name)
    np.testing.assert_array_equal(made.run(None, {"x": X, "z": X})[0], np.abs(X) * X)
    del made
