"""Which providers a session gets."""

import logging
import re
import threading
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import ort_lite
from ort_lite import log
from ort_lite.errors import InvalidArgument, ProviderError
from ort_lite.options import SessionOptions
from ort_lite.plugins import Registry, plugins, selection
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider
from tests.threads import join

NEG = '<ir_version: 8, opset_import: ["": 17]> main (float[N] x) => (float[N] y) { y = Neg(x) }'


class Installed(NumpyProvider):
    name = "InstalledExecutionProvider"


class Optional(NumpyProvider):
    name = "OptionalExecutionProvider"
    default = False


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Registry(paths=[])
    for cls in (Installed, Optional, CpuStandIn):
        made.register_provider(cls.name, cls)
    for name in ("provider", "available_providers", "installed_providers", "list_provider_names"):
        monkeypatch.setattr(plugins, name, getattr(made, name))
    monkeypatch.setattr(selection, "_PROCESS", selection._ProcessDefaults())


def names(entries: Any, options: Any = None) -> list[str]:
    return [p.name for p in selection.select(entries, options, SessionOptions()).providers]


def test_what_is_available_can_be_listed_again() -> None:
    listed = plugins.available_providers()
    assert listed == ["InstalledExecutionProvider", "CPUExecutionProvider"]
    assert names(listed) == listed


def test_a_program_may_enable_all_that_are_installed() -> None:
    ort_lite.set_default_providers("all")
    assert names(None) == selection.default_providers() == ["InstalledExecutionProvider", "CPUExecutionProvider"]
    assert names([]) == ["CPUExecutionProvider"], "a session that lists providers has those"


def test_a_program_may_choose_the_default_providers() -> None:
    ort_lite.set_default_providers([("OptionalExecutionProvider", {"device_id": 1}), Installed, "CPUExecutionProvider"])
    found = selection.select(None, None, SessionOptions()).providers
    expected = ["OptionalExecutionProvider", "InstalledExecutionProvider", "CPUExecutionProvider"]
    assert [provider.name for provider in found] == selection.default_providers() == expected
    assert found[0].get_options() == {"device_id": 1}
    ort_lite.set_default_providers([])
    assert names(None) == selection.default_providers() == ["CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("providers", "message"),
    [
        ("every", "got 'every'; expected a list of providers, or 'all'"),
        (["CUDAExecutionProvider"], "no execution provider is called 'CUDAExecutionProvider'"),
        (["InstaledExecutionProvider"], "did you mean 'InstalledExecutionProvider'"),
        ([("CPUExecutionProvider",)], r"providers\[0\] is .*; expected a name or \(name, options\)"),
        ([NumpyProvider()], "NumpyExecutionProvider came as an instance; expected its name or its class"),
    ],
)
def test_default_providers_that_make_no_sense_are_refused_and_change_nothing(providers: Any, message: str) -> None:
    ort_lite.set_default_providers(["InstalledExecutionProvider"])
    with pytest.raises(InvalidArgument, match=message):
        ort_lite.set_default_providers(providers)
    assert selection.default_providers() == ["InstalledExecutionProvider", "CPUExecutionProvider"]


def test_default_providers_may_change_while_other_threads_make_sessions() -> None:
    stop, found = threading.Event(), set[tuple[str, ...]]()

    def make_sessions() -> None:
        while not stop.is_set():
            found.add(tuple(names(None)))

    thread = threading.Thread(target=make_sessions)
    thread.start()
    for _ in range(200):
        ort_lite.set_default_providers("all")
        ort_lite.set_default_providers(["OptionalExecutionProvider", "InstalledExecutionProvider"])
    stop.set()
    join(thread)
    cpu = "CPUExecutionProvider"
    assert found <= {
        (cpu,),
        ("InstalledExecutionProvider", cpu),
        ("OptionalExecutionProvider", "InstalledExecutionProvider", cpu),
    }


def test_the_log_names_providers_that_are_left_out_once(caplog: pytest.LogCaptureFixture) -> None:
    text = "installed providers that are left out: {} (providers=[...] or ort_lite.set_default_providers enables them)"
    caplog.set_level(logging.INFO, "ort_lite")
    for _ in range(2):
        names(None)
    assert caplog.messages == [text.format("InstalledExecutionProvider, OptionalExecutionProvider")]
    names(["OptionalExecutionProvider"])
    ort_lite.set_default_providers(["InstalledExecutionProvider"])
    for _ in range(2):
        names(None)
    assert caplog.messages[1:] == [text.format("OptionalExecutionProvider")]


def test_of_those_that_nobody_named_one_that_cannot_be_created_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ort_lite.set_default_providers("all")

    def broken(self: Any, **options: Any) -> None:
        raise OSError("out of order")

    monkeypatch.setattr(Installed, "__init__", broken)
    assert names(None) == ["CPUExecutionProvider"]
    (message,) = caplog.messages
    assert "InstalledExecutionProvider could not be created" in message
    with pytest.raises(ProviderError, match="out of order"):
        names(["InstalledExecutionProvider"])


ONE, OTHER, CPU = "InstalledExecutionProvider", "OptionalExecutionProvider", "CPUExecutionProvider"


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([], [CPU]),
        ([OTHER], [OTHER, CPU]),
        ([CPU, ONE], [CPU, ONE]),
        ([(ONE, {"device_id": 0}), (ONE, {"device_id": 1})], [ONE, ONE, CPU]),
    ],
    ids=["none", "the default one is last", "the order is the caller's", "other options, another instance"],
)
def test_a_session_has_what_is_listed(listed: list[Any], expected: list[str]) -> None:
    assert names(listed) == expected


def test_classes_and_instances_are_taken_too() -> None:
    instance = NumpyProvider()
    assert selection.select([instance, Optional], None, SessionOptions()).providers[0] is instance
    assert names([instance, Optional]) == ["NumpyExecutionProvider", "OptionalExecutionProvider", "CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("entries", "options"),
    [
        ([("InstalledExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"], None),
        (["InstalledExecutionProvider", "CPUExecutionProvider"], [{"device_id": 1}, {}]),
        ([("InstalledExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"], [{}, {}]),
    ],
)
def test_options_come_with_the_name_or_beside_it(entries: Any, options: Any) -> None:
    first = selection.select(entries, options, SessionOptions()).providers[0]
    assert first.get_options() == {"device_id": 1}


def test_the_same_entry_twice_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    chosen = selection.select(["InstalledExecutionProvider"] * 2, None, SessionOptions())
    assert [p.name for p in chosen.providers] == ["InstalledExecutionProvider", "CPUExecutionProvider"]
    assert list(chosen.notes) == caplog.messages
    assert caplog.messages == ["InstalledExecutionProvider is listed twice with the same options; once is enough"]


@pytest.mark.parametrize(("severity", "count"), [(-1, 1), (0, 1), (2, 1), (3, 0), (4, 0)])
def test_a_session_above_warning_logs_none(severity: int, count: int, caplog: pytest.LogCaptureFixture) -> None:
    options = SessionOptions()
    options.log_severity_level = severity
    assert selection.select(["CUDAExecutionProvider"], None, options).notes
    assert len(caplog.records) == count


def test_the_modules_severity_holds_for_all_sessions(caplog: pytest.LogCaptureFixture) -> None:
    before = log.logger().level
    try:
        log.set_default_logger_severity(3)
        selection.select(["CUDAExecutionProvider"], None, SessionOptions())
        assert caplog.records == []
        with pytest.raises(InvalidArgument, match="logger severity 7: expected 0"):
            log.set_default_logger_severity(7)
    finally:
        log.logger().setLevel(before)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("CudaExecutionProvider", "CUDAExecutionProvider"), ("InstaledExecutionProvider", "InstalledExecutionProvider")],
)
def test_an_unknown_name_is_a_warning_with_a_suggestion(name: str, suggestion: str, caplog: pytest.LogCaptureFixture) -> None:
    assert names([name]) == ["CPUExecutionProvider"]
    (message,) = caplog.messages
    assert message.startswith(f"{name} is not installed; did you mean '{suggestion}'? (installed: CPUExec")
    assert message.endswith("; it is left out")


def test_a_provider_that_another_runtime_hosts_is_suggested(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hosted = "OpenVINOExecutionProvider@onnxruntime"
    monkeypatch.setattr(plugins, "installed_providers", lambda: ["CPUExecutionProvider", hosted])
    assert names(["OpenVINOExecutionProvider"]) == ["CPUExecutionProvider"]
    assert caplog.messages == [f"OpenVINOExecutionProvider is not installed, but {hosted} is; it is left out"]


NO_LIST = "expected a list of names or (name, options)"
NO_NAME = "; expected a name or (name, options)"
NO_DICTS = ": expected a list of dicts, one for each provider"
COUNT = "provider_options for {} providers: expected as many, in the same order"
UNREADABLE: list[tuple[Any, Any, str]] = [
    (CPU, None, "expected a list, e.g. ['CPUExecutionProvider']"),
    ("NoExecutionProvider", None, "expected a list, e.g. ['NoExecutionProvider']"),
    ([3], None, "providers[0] is 3" + NO_NAME),
    ([(CPU,)], None, NO_NAME),
    ([(CPU, {}, 1)], None, NO_NAME),
    ([(CPU, None)], None, NO_NAME),
    ({CPU: {}}, None, NO_LIST),
    (iter([CPU]), None, NO_LIST),
    ([CPU], [], "0 " + COUNT.format(1)),
    (["CUDAExecutionProvider", CPU], [{}], "1 " + COUNT.format(2)),
    ([CPU], {"threads": 1}, NO_DICTS),
    ([CPU], [None], NO_DICTS),
]


@pytest.mark.parametrize(("entries", "options", "message"), UNREADABLE, ids=[str(k) for k in range(len(UNREADABLE))])
@pytest.mark.filterwarnings("ignore:(Specified|Duplicate) provider:UserWarning")  # onnxruntime's
def test_what_cannot_be_read_becomes_the_cpu_provider_as_in_onnxruntime(
    entries: Any, options: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = onnx.parser.parse_model(NEG).SerializeToString()
    theirs = onnxruntime.InferenceSession(data, providers=entries, provider_options=options)
    ours = ort_lite.InferenceSession(data, providers=entries, provider_options=options)
    assert ours.get_providers() == theirs.get_providers() == ["CPUExecutionProvider"]
    (warning,) = caplog.messages
    assert warning.endswith("; the session uses CPUExecutionProvider alone")
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        ort_lite.InferenceSession(data, providers=entries, provider_options=options, strict=True)
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        ours.set_providers(entries, options)


def test_options_beside_an_instance_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="came as an instance, with options besides"):
        names([NumpyProvider()], [{"a": 1}])


def test_all_providers_are_the_installed_and_the_known_ones() -> None:
    found = selection.get_all_providers()
    assert {"InstalledExecutionProvider", "OptionalExecutionProvider", "CUDAExecutionProvider"} <= set(found)
    assert found[-1] == "CPUExecutionProvider"
    assert len(found) == len(set(found))


def test_options_may_be_arrays() -> None:
    class Tuned(NumpyProvider):
        def __init__(self, table: Any = None) -> None:
            super().__init__(lambda node: True)

    table = np.arange(3)
    made = selection.select([(Tuned, {"table": table}), (Tuned, {"table": table.copy()})], None, SessionOptions())
    assert [type(provider) for provider in made.providers[:2]] == [Tuned, Tuned]


def test_options_that_do_not_fit_are_shown_in_short() -> None:
    class Picky(NumpyProvider):
        def __init__(self, table: list[float]) -> None:
            raise ValueError("too long")

    with pytest.raises(ProviderError, match=r"could not be created .* ValueError: too long") as caught:
        selection.select([(Picky, {"table": [0.5] * 10_000})], None, SessionOptions())
    assert len(str(caught.value)) < 400


def test_a_name_with_a_number_is_no_name() -> None:
    class Numbered(NumpyProvider):
        name = "NumpyExecutionProvider#2"

    with pytest.raises(ProviderError, match="NumpyExecutionProvider#2 is no name for a provider"):
        selection.select([Numbered(lambda node: True)], None, SessionOptions())
    with pytest.raises(InvalidArgument, match="did you mean 'CPUExecutionProvider'"):
        selection.create("CPUExecutionProvider#2", {})
