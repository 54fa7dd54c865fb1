"""Devices, and the providers that options choose by them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import Fail, InvalidArgument, ProviderError
from ort_lite.plugins import plugins
from ort_lite.provider.hardware import Hardware
from ort_lite.provider.provider import Device, ExecutionProvider
from ort_lite.tensors.device_tensor import parse_device
from tests.provider.numpy_provider import NumpyProvider

MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 21]> g (float[N] x) => (float[N] y) { y = Abs(x) }'
).SerializeToString()

LIBRARY = """
from tests.provider.numpy_provider import NumpyProvider

class PathExecutionProvider(NumpyProvider):
    name = "PathExecutionProvider"
    def __init__(self, level="1"):
        super().__init__(operators=("Abs",))
        self.level = level
    def get_options(self):
        return {"level": self.level}
    def compatibility(self):
        return "path 1"
"""


@pytest.fixture
def library(tmp_path: Path) -> Iterator[str]:
    """A provider that came by the path of its file."""
    file = tmp_path / "library.py"
    file.write_text(LIBRARY)
    ort_lite.register_execution_provider_library("path", file)
    yield str(file)
    ort_lite.unregister_execution_provider_library("path")


def device_of(name: str) -> Any:
    return next(each for each in ort_lite.get_ep_devices() if each.ep_name == name)


def test_the_cpu_is_there_and_last() -> None:
    last = ort_lite.get_ep_devices()[-1]
    assert (last.ep_name, last.device.type) == ("CPUExecutionProvider", ort_lite.OrtHardwareDeviceType.CPU)
    assert last.memory_info(ort_lite.OrtDeviceMemoryType.DEFAULT) is None
    assert last.device in ort_lite.get_hardware_devices()
    with pytest.raises(ProviderError, match="stream"):
        last.create_sync_stream()


def test_a_library_is_listed_and_chosen(library: str) -> None:
    options = ort_lite.SessionOptions()
    assert not options.has_providers()
    options.add_provider_for_devices([device_of("PathExecutionProvider")], {"level": "3"})
    assert options.has_providers()
    session = ort_lite.InferenceSession(MODEL, options)
    assert session.get_providers() == ["PathExecutionProvider", "CPUExecutionProvider"]
    assert session.get_provider_options()["PathExecutionProvider"] == {"level": "3"}
    assert [each.ep_name for each in session.get_input_epdevices() if each] == ["PathExecutionProvider"]
    np.testing.assert_array_equal(session.run(None, {"x": np.array([-1, 2], np.float32)})[0], [1, 2])


def test_providers_of_the_session_hold(library: str) -> None:
    options = ort_lite.SessionOptions()
    options.add_provider("PathExecutionProvider", {})
    with pytest.warns(UserWarning, match="those of InferenceSession hold"):
        session = ort_lite.InferenceSession(MODEL, options, ["CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert ort_lite.InferenceSession(MODEL, options).get_providers()[0] == "PathExecutionProvider"


def test_libraries_that_are_none(library: str, tmp_path: Path) -> None:
    with pytest.raises(Fail, match="already registered"):
        ort_lite.register_execution_provider_library("path", library)
    with pytest.raises(Fail, match="installed or registered already"):
        ort_lite.register_execution_provider_library("again", library)
    with pytest.raises(
        Fail, match=r"cuda\.so is a library of native code for onnxruntime: to run it, install the plugin ort-lite-onnxruntime"
    ):
        ort_lite.register_execution_provider_library("native", "/opt/libonnxruntime_providers_cuda.so")
    with pytest.raises(Fail, match="does not exist"):
        ort_lite.register_execution_provider_library("none", str(tmp_path / "no such file.py"))
    with pytest.raises(Fail, match="defines no execution provider"):
        ort_lite.register_execution_provider_library("module", "json")
    with pytest.raises(Fail, match="was not registered"):
        ort_lite.unregister_execution_provider_library("module")


class Host(NumpyProvider):
    """Takes the place of the plugin that runs libraries of native code."""

    name = "OnnxRuntimeExecutionProvider"

    @staticmethod
    def load_library(path: str) -> list[type[ExecutionProvider]]:
        if path == "/opt/libnone.so":
            raise ProviderError(f"{path} cannot be loaded: no such file")
        return [Hosted]


class Hosted(NumpyProvider):
    name = "HostedExecutionProvider@onnxruntime"

    @classmethod
    def hardware(cls) -> list[Hardware]:
        chip = Hardware(Device("gpu", 1), {"device": "gpu:1"}, "Acme", 0xACE, {"version": "7"})
        return [chip, Hardware(Device("cpu"), {"device": "cpu:0"})]


@pytest.fixture
def host() -> Iterator[None]:
    ort_lite.register_provider(Host.name, Host)
    yield
    plugins.unregister_provider(Host.name)


def test_a_library_of_native_code_is_hosted_by_a_plugin(host: None) -> None:
    ort_lite.register_execution_provider_library("chip", "/opt/libchip.so")
    try:
        chip, cpu = (each for each in ort_lite.get_ep_devices() if each.ep_name == Hosted.name)
        assert chip.device == ort_lite.OrtHardwareDevice(ort_lite.OrtHardwareDeviceType.GPU, 0xACE, "Acme", 1, {"kind": "gpu"})
        assert (chip.ep_metadata["version"], dict(chip.ep_options)) == ("7", {"device": "gpu:1"})
        assert chip.memory_info(ort_lite.OrtDeviceMemoryType.DEFAULT) is None
        assert cpu.device == ort_lite.get_ep_devices()[-1].device
        with pytest.raises(Fail, match="HostedExecutionProvider@onnxruntime is installed or registered already"):
            ort_lite.register_execution_provider_library("again", "/opt/libchip.so")
        with pytest.raises(Fail, match=r"load_library failed: .*libnone\.so cannot be loaded: no such file"):
            ort_lite.register_execution_provider_library("none", "/opt/libnone.so")
    finally:
        ort_lite.unregister_execution_provider_library("chip")
    assert all(each.ep_name != Hosted.name for each in ort_lite.get_ep_devices())


def test_hardware_that_is_none_costs_a_warning(
    host: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Host, "hardware", staticmethod(lambda: ["gpu"]), raising=False)
    assert all(each.ep_name != Host.name for each in ort_lite.get_ep_devices())
    assert any("hardware returned ['gpu']; expected Hardware objects" in message for message in caplog.messages)


@pytest.mark.parametrize("policy", list(ort_lite.OrtExecutionProviderDevicePolicy))
def test_policies_choose_by_kind(policy: ort_lite.OrtExecutionProviderDevicePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """With devices of all three kinds; those of a provider that is not for everybody are left alone."""
    from ort_lite.compat import ep_devices

    places = {"gpu": Device("cuda"), "npu": Device("tpu")}
    listed = [
        ep_devices.OrtEpDevice(name, "", {}, {}, ep_devices._hardware(place), place)
        for name, place in {"other": Device("npu"), **places}.items()
    ]
    monkeypatch.setattr(ep_devices, "get_ep_devices", lambda: [*listed, device_of_cpu])
    monkeypatch.setattr(plugins, "available_providers", lambda: ["gpu", "npu", "CPUExecutionProvider"])
    options = ort_lite.SessionOptions()
    options.set_provider_selection_policy(policy)
    ((chosen, _),) = options.choose_providers({})
    wanted = {"PREFER_GPU": "gpu", "MAX_PERFORMANCE": "gpu", "PREFER_CPU": "CPUExecutionProvider"}
    expected = wanted.get(policy.name, "CPUExecutionProvider" if policy.name == "DEFAULT" else "npu")
    assert chosen == expected


def test_onnxs_backend_prepares_a_session_for_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the CPU that of a session without a list; for another kind of device one with a provider that is installed for it."""
    from ort_lite.compat import backend, ep_devices

    file = tmp_path / "library.py"
    file.write_text(LIBRARY)
    ort_lite.register_execution_provider_library("npu", file)
    try:
        place = ep_devices._hardware(Device("npu"))
        device = ep_devices.OrtEpDevice("PathExecutionProvider", "", {}, {}, place, Device("npu"))
        monkeypatch.setattr(ep_devices, "get_ep_devices", lambda: [device, device_of_cpu])
        assert "PathExecutionProvider" in plugins.available_providers()
        for name, expected in (
            ("NPU", "PathExecutionProvider"),
            ("CPU", "CPUExecutionProvider"),
            (None, "CPUExecutionProvider"),
        ):
            assert backend.prepare(MODEL, name)._session.get_providers()[0] == expected
    finally:
        ort_lite.unregister_execution_provider_library("npu")


device_of_cpu = ort_lite.get_ep_devices()[-1]


def test_a_delegate_chooses(library: str) -> None:
    seen: dict[str, Any] = {}

    def choose(devices: Any, model: Any, runtime: Any, most: int) -> Any:
        seen.update(model)
        assert most == 8
        return [next(each for each in devices if each.ep_name == "PathExecutionProvider")]

    options = ort_lite.SessionOptions()
    options.set_provider_selection_policy_delegate(choose)
    assert ort_lite.InferenceSession(MODEL, options).get_providers()[0] == "PathExecutionProvider"
    assert "graph_name" in seen
    options.set_provider_selection_policy_delegate(lambda *given: [])
    with pytest.raises(Fail, match="expected 1 to 8"):
        ort_lite.InferenceSession(MODEL, options)
    options.set_provider_selection_policy_delegate(lambda *given: [given[9]])
    with pytest.raises(Fail, match="out of range"):
        ort_lite.InferenceSession(MODEL, options)


def test_devices_that_make_no_sense() -> None:
    options = ort_lite.SessionOptions()
    given: list[Any] = [[], ["CPUExecutionProvider"]]
    for devices in given:
        with pytest.raises(InvalidArgument, match="add_provider_for_devices"):
            options.add_provider_for_devices(devices, {})
    options.add_provider("NoSuchThingExecutionProvider", {})
    options.add_session_config_entry("ort_lite.strict", "1")
    with pytest.raises(ProviderError, match="NoSuchThing"):
        ort_lite.InferenceSession(MODEL, options)


def test_compatibility(library: str) -> None:
    device = device_of("PathExecutionProvider")
    states = ort_lite.OrtCompiledModelCompatibility
    check = ort_lite.get_model_compatibility_for_ep_devices
    assert check([device], "path 1") == states.EP_SUPPORTED_OPTIMAL
    assert check([device], "path 0") == states.EP_UNSUPPORTED
    assert check([ort_lite.get_ep_devices()[-1]], "") == states.EP_NOT_APPLICABLE
    details = ort_lite.get_hardware_device_ep_incompatibility_details
    assert details("PathExecutionProvider", device.device)["reasons_bitmask"] == 0
    other = ort_lite.OrtHardwareDevice(ort_lite.OrtHardwareDeviceType.GPU, 0, "", 7)
    assert details("PathExecutionProvider", other)["reasons_bitmask"] == 2


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("cpu", (0, 0)),
        ("cuda", (1, 4318)),
        ("gpu", (1, 0)),
        ("npu", (3, 0)),
        ("dml", (4, 5140)),
        ("webgpu", (1, 0)),
        ("cann", (3, 6629)),
    ],
)
def test_numbers_of_devices_are_onnxruntimes(kind: str, numbers: tuple[int, int]) -> None:
    device = ort_lite.OrtDevice.make(kind, 1)
    assert (device.device_type(), device.device_vendor_id()) == numbers
    assert (device.device_id(), device.device_mem_type()) == (1, 0)
    assert parse_device(device) == Device(kind, 1)
    with pytest.raises(InvalidArgument, match="unsupported device type 'xpu'"):
        ort_lite.OrtDevice.make("xpu", 0)


def test_module_functions(capsys: pytest.CaptureFixture[str]) -> None:
    assert ort_lite.has_collective_ops() is False
    assert ort_lite.version == ort_lite.__version__ in ort_lite.get_build_info()
    ort_lite.preload_dlls(directory="")
    ort_lite.print_debug_info()
    assert "CPUExecutionProvider" in capsys.readouterr().out


def test_sessions_without_threads_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from ort_lite.compat import global_threads

    monkeypatch.setattr(global_threads, "_SIZES", global_threads._ThreadCounts())
    ort_lite.set_global_thread_pool_sizes(1, 2)
    ort_lite.set_global_thread_pool_sizes(2, 1)
    options = ort_lite.SessionOptions()
    with pytest.raises(RuntimeError, match=r"set SessionOptions\.use_per_session_threads to False"):
        ort_lite.InferenceSession(MODEL, options)
    options.use_per_session_threads = False
    session = ort_lite.InferenceSession(MODEL, options, ["CPUExecutionProvider"])
    assert session.get_session_options().intra_op_num_threads == 2
    with pytest.raises(Fail, match="before the first session"):
        ort_lite.set_global_thread_pool_sizes(3, 1)
    with pytest.raises(InvalidArgument, match="from 0 on"):
        ort_lite.set_global_thread_pool_sizes(-1, 1)
