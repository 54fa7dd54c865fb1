"""`strict`: providers that are listed and not used, by keyword, config entry and command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest

import ort_lite
from ort_lite.__main__ import main
from ort_lite.errors import InvalidArgument, NoDevice, ProviderError
from ort_lite.plugins import Registry, plugins, selection
from ort_lite.tools.cli.exit_status import ExitStatus
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider
from tests.provider.texts import plain, proto

CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  y = Relu(c) }"
X = np.array([1, -2, 3], np.float32)
CPU = "CPUExecutionProvider"


class Absent(NumpyProvider):
    name = "AbsentExecutionProvider"

    def __init__(self, **options: Any) -> None:
        raise NoDevice("no such card")


class Idle(NumpyProvider):
    name = "IdleExecutionProvider"

    def __init__(self, **options: Any) -> None:
        super().__init__(lambda node: False, **options)


class Whole(NumpyProvider):
    name = "WholeExecutionProvider"


CAUSES = {
    "NoSuchExecutionProvider": ("not installed", "it is left out"),
    "CUDAExecutionProvider": ("not installed", "it is left out"),
    "AbsentExecutionProvider": ("has no device: no such card", "it is left out"),
    "IdleExecutionProvider": ("is assigned no node: 4 nodes declined choice: not wanted", ""),
}
"""By the provider that is listed: what a message says of it, and how it ends where nothing is strict."""
ADVICE = "run without it: remove it from the providers, or do not require it (strict, required)"


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Registry(paths=[])
    for cls in (Absent, Idle, Whole, CpuStandIn):
        made.register_provider(cls.name, cls)
    for name in ("provider", "available_providers", "installed_providers"):
        monkeypatch.setattr(plugins, name, getattr(made, name))
    monkeypatch.setattr(selection, "_PROCESS", selection._ProcessDefaults())


@pytest.fixture
def path(tmp_path: Path) -> str:
    onnx.save(proto(CHAIN), tmp_path / "model.onnx")
    return str(tmp_path / "model.onnx")


def options(strict: str | None = None) -> ort_lite.SessionOptions:
    return plain() if strict is None else plain(strict=strict)


Make = Callable[[str, list[Any], bool], Any]


def by_keyword(path: str, providers: list[Any], strict: bool) -> Any:
    return ort_lite.InferenceSession(path, options(), providers, strict=strict).explain()


def by_config_entry(path: str, providers: list[Any], strict: bool) -> Any:
    return ort_lite.InferenceSession(path, options("1" if strict else "0"), providers).explain()


def by_plan(path: str, providers: list[Any], strict: bool) -> Any:
    return ort_lite.plan(path, providers, options(), strict=strict)


WAYS = [by_keyword, by_config_entry, by_plan]


@pytest.mark.parametrize("make", WAYS)
@pytest.mark.parametrize("name", CAUSES)
def test_a_strict_session_is_not_made(make: Make, name: str, path: str) -> None:
    with pytest.raises(ProviderError) as caught:
        make(path, [name, CPU], True)
    message = str(caught.value)
    assert message.startswith(f"{name} is required and ") and CAUSES[name][0] in message and message.endswith(ADVICE)


@pytest.mark.parametrize("make", WAYS)
@pytest.mark.parametrize("name", CAUSES)
def test_without_strict_one_warning_says_the_same(make: Make, name: str, path: str, caplog: pytest.LogCaptureFixture) -> None:
    explanation = make(path, [name, CPU], False)
    assert {place.provider for place in explanation.assignment.placements.values()} == {CPU}
    (message,) = caplog.messages
    cause, end = CAUSES[name]
    assert message.startswith(name) and cause in message and message.endswith(end)
    assert explanation.notes == (message,)


@pytest.mark.parametrize("name", CAUSES)
@pytest.mark.parametrize("command", ["run", "explain", "check", "plan", "profile", "dump"])
def test_a_command_that_is_strict_fails(command: str, name: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main([command, path, "--providers", f"{name},{CPU}", "--level", "disable", "--strict"])
    idle = (command, name) == ("check", "IdleExecutionProvider")  # a problem of the model among others
    assert status == (ExitStatus.FINDINGS if idle else ExitStatus.PROVIDER)
    shown = "".join(capsys.readouterr())
    assert f"{name} is required and " in shown and CAUSES[name][0] in shown


@pytest.mark.parametrize("name", CAUSES)
@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_command_that_is_not_strict_warns(
    command: str, name: str, path: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main([command, path, "--providers", f"{name},{CPU}", "--level", "disable", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown.get("outputs") if command == "run" else shown["notes"]) != []
    assert CAUSES[name][0] in caplog.messages[0] and len(caplog.messages) == 1


@pytest.mark.parametrize("providers", [["WholeExecutionProvider"], [Whole, CPU], [CPU], [], None, [CPU, CPU]], ids=str)
def test_the_cpu_provider_may_be_left_without_a_node(providers: Any, path: str) -> None:
    session = ort_lite.InferenceSession(path, options(), providers, strict=True)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(np.tanh(-np.abs(X)), 0))


def test_the_second_of_two_that_want_the_same_nodes_is_assigned_none(path: str) -> None:
    with pytest.raises(
        ProviderError, match="WholeExecutionProvider#2 is required and is assigned no node: 4 nodes lost: earlier"
    ):
        ort_lite.InferenceSession(path, options(), [(Whole, {"device_id": 0}), (Whole, {"device_id": 1})], strict=True)


def test_a_provider_may_be_required_alone_or_exempt(path: str) -> None:
    with pytest.raises(ProviderError, match="IdleExecutionProvider is required and is assigned no node"):
        ort_lite.InferenceSession(path, options(), [("IdleExecutionProvider", {"required": True})])
    exempt: list[Any] = [("IdleExecutionProvider", {"required": False}), "WholeExecutionProvider"]
    assert ort_lite.InferenceSession(path, options(), exempt, strict=True).get_providers()[0] == "IdleExecutionProvider"


def test_one_whose_partitions_cannot_be_compiled_runs_no_node(path: str) -> None:
    class Weak(NumpyProvider):
        def compile(self, partitions: Any) -> Any:
            return [ZeroDivisionError("out of order") for _ in partitions]

    with pytest.raises(ProviderError, match=r"NumpyExecutionProvider is required .* 4 nodes lost: .*out of order"):
        ort_lite.InferenceSession(path, options(), [Weak()], strict=True)


def test_reasons_are_grouped_and_counted(path: str, caplog: pytest.LogCaptureFixture) -> None:
    from ort_lite.provider import Rejection

    class Picky(NumpyProvider):
        def get_capability(self, graph: Any) -> Any:
            for number, node in enumerate(graph):
                yield Rejection(node, "type" if number else "rank", f"{node.op_type} is {'long ' * 60}" if number else "rank 1")

    ort_lite.plan(path, [Picky()], options())
    (message,) = caplog.messages
    prefix = "NumpyExecutionProvider is assigned no node: 3 nodes declined type: Neg is long "
    assert message.startswith(prefix) and message.endswith("..., and similar; 1 node declined rank: rank 1")
    assert len(message) < 300


def test_a_model_without_nodes_assigns_none(caplog: pytest.LogCaptureFixture) -> None:
    model = proto("(float[3] x) => (float[3] x) { }")
    ort_lite.plan(model, [Whole], options())
    assert caplog.messages == ["WholeExecutionProvider is assigned no node: no node is left of the model once it is optimized"]


def test_a_strict_session_stays_strict_and_as_it_was(path: str) -> None:
    session = ort_lite.InferenceSession(path, options(), ["WholeExecutionProvider"], strict=True)
    for name in CAUSES:
        with pytest.raises(ProviderError, match=f"{name} is required"):
            session.set_providers([name])
    assert session.get_providers() == ["WholeExecutionProvider", CPU]
    session.set_providers([CPU])
    assert session.get_providers() == [CPU]


def test_providers_that_nobody_listed_are_not_required(path: str, caplog: pytest.LogCaptureFixture) -> None:
    ort_lite.set_default_providers("all")
    session = ort_lite.InferenceSession(path, options(), strict=True)
    assert session.get_providers() == ["IdleExecutionProvider", "WholeExecutionProvider", CPU]
    assert caplog.messages == ["AbsentExecutionProvider has no device: no such card; it is left out"]


def test_default_providers_that_a_program_lists_are_required(path: str) -> None:
    ort_lite.set_default_providers(["IdleExecutionProvider"])
    with pytest.raises(ProviderError, match="IdleExecutionProvider is required and is assigned no node"):
        ort_lite.InferenceSession(path, options(), strict=True)


def test_options_that_list_providers_are_strict_too(path: str) -> None:
    chosen = options("1")
    chosen.add_provider("CUDAExecutionProvider", {})
    with pytest.raises(ProviderError, match="CUDAExecutionProvider is required and not installed"):
        ort_lite.InferenceSession(path, chosen)


def test_a_run_that_falls_back_requires_nothing(path: str) -> None:
    """What runs in the place of a partition that failed is a session of its own, of other nodes."""

    class Faulty(NumpyProvider):
        name = "FaultyExecutionProvider"

        def compile(self, partitions: Any) -> Any:
            def fail(inputs: Any) -> Any:
                raise ZeroDivisionError("device lost")

            return [fail for _ in partitions]

    first = Faulty(lambda node: node.op_type == "Abs")
    second = NumpyProvider(lambda node: node.op_type == "Neg")
    session = ort_lite.InferenceSession(path, options(), [first, second], [{"on_run_error": "next"}, {}], strict=True)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(np.tanh(-np.abs(X)), 0))


@pytest.mark.parametrize("value", ["", "yes", "true", "2"])
def test_a_config_entry_that_makes_no_sense_is_refused(value: str, path: str) -> None:
    with pytest.raises(InvalidArgument, match=f"ort_lite.strict is '{value}'; expected '1' or '0'"):
        ort_lite.InferenceSession(path, options(value), [CPU])


def test_the_keyword_is_a_truth_value_and_goes_before_the_config_entry(path: str) -> None:
    with pytest.raises(InvalidArgument, match="strict is 'yes'; expected True or False"):
        ort_lite.InferenceSession(path, options(), [CPU], strict=cast(Any, "yes"))
    session = ort_lite.InferenceSession(path, options("1"), ["IdleExecutionProvider"], strict=False)
    assert session.get_session_options().get_session_config_entry("ort_lite.strict") == "0"
