"""The conformance kit in onnxruntime: what it finds there, what it leaves out, and what onnxruntime refuses."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from ort_lite_accelerator import AcceleratorExecutionProvider
from ort_lite_accelerator.operators import SINCE
from ort_lite_ep.host import OnnxRuntimeHost

from ort_lite.__main__ import main
from ort_lite.dtypes import ort_name, to_numpy
from ort_lite.errors import RunTerminated
from ort_lite.options import RunOptions
from ort_lite.provider import Capability, ExecutionProvider, GraphView, Rejection
from ort_lite.testing import CHECKS, GeneratedModels, Kit, check_provider
from ort_lite.testing.hosts import HostRefusal, find_host
from ort_lite.testing.report import run

ACCELERATOR_TESTS = Path(__file__).parents[2] / "ort-lite-accelerator" / "tests"
IN_SESSIONS = [name for name in CHECKS if name not in OnnxRuntimeHost.absent]


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ACCELERATOR_TESTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


bugs = _load("test_planted_bugs")


class Doubling(ExecutionProvider):
    """Takes nodes of `operators` and computes twice their first input. `defect` is an error to raise, and where."""

    name: ClassVar[str] = "DoublingExecutionProvider"
    default: ClassVar[bool] = False
    operators: ClassVar[tuple[str, ...]] = ("Abs", "BitShift", "MyOwn")

    def __init__(self, defect: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.defect = defect

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        if self.defect == "get_capability":
            raise IndexError("the driver's error")
        for node in graph:
            yield Capability([node]) if node.op_type in self.operators else Rejection(node, "operator", "knows three")

    def compile(self, partitions: Any) -> Any:
        if self.defect == "compile":
            raise KeyError("the compiler's error")
        return [self.double for _ in partitions]

    def double(self, inputs: Any) -> Any:
        if self.defect == "run":
            raise ZeroDivisionError("the device's error")
        return [inputs[0] * 2]


class Copying(Doubling):
    """Copies instead."""

    name: ClassVar[str] = "CopyingExecutionProvider"
    operators: ClassVar[tuple[str, ...]] = ("Identity",)

    def double(self, inputs: Any) -> Any:
        return [inputs[0].copy()]


def model(text: str) -> bytes:
    made: bytes = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> m {text}').SerializeToString()
    return made


ABS = model("(float[N] x) => (float[N] y) { y = Abs(x) }")
X = np.array([-1, 2], np.float32)


@pytest.fixture(scope="module")
def host() -> OnnxRuntimeHost:
    return OnnxRuntimeHost()


# Sessions


def test_a_session_runs_the_instance_that_it_is_given(host: OnnxRuntimeHost) -> None:
    for _ in range(2):
        provider = Doubling()
        session = host.session(ABS, provider)
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], [-2, 4])
        assert host.provider(session) is provider and len(host.partitions(session)) == 1
        session.close()
        assert host.partitions(session) == []


def test_constants_of_fused_nodes_are_those_of_the_model(host: OnnxRuntimeHost) -> None:
    text = "(float[2] x) => (float[2] y) <float[2] w = {3, 4}> { y = Add(x, w) }"
    session = host.session(model(text), AcceleratorExecutionProvider())
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], [2, 6])
    assert [value.name for value in host.constants(session)] == ["w"]


@pytest.mark.parametrize(("defect", "message"), [("compile", "the compiler's error"), ("run", "the device's error")])
def test_an_error_of_the_provider_arrives_with_its_line(host: OnnxRuntimeHost, defect: str, message: str) -> None:
    (finding, *_) = CHECKS["claims"](Kit(partial(Doubling, defect=defect), ["Abs"], host=host))
    assert message in finding.text and "test_kit_inside.py:" in finding.text


def test_an_error_that_onnxruntime_hides_is_raised(host: OnnxRuntimeHost) -> None:
    with pytest.raises(Exception, match="the driver's error"):
        host.session(ABS, Doubling(defect="get_capability"))


def test_a_run_that_is_terminated_is_terminated(host: OnnxRuntimeHost) -> None:
    session, options = host.session(ABS, Doubling()), RunOptions()
    options.terminate = True
    with pytest.raises(RunTerminated):
        session.run(None, {"x": X}, options)
    assert session.run(None, {"x": X})[0].tolist() == [-2, 4]


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4", "uint4", "string", "float16", "int64"])
def test_tensors_of_every_type_cross(host: OnnxRuntimeHost, dtype: str) -> None:
    name = ort_name(dtype).removeprefix("tensor(").removesuffix(")")
    session = host.session(model(f"({name}[3] x) => ({name}[3] y) {{ y = Identity(x) }}"), Copying())
    x = np.array(["1", "", "ü"], object) if dtype == "string" else np.array([1, 2, 3]).astype(to_numpy(dtype))
    (y,) = session.run(None, {"x": x})
    assert y.dtype == x.dtype and y.tolist() == x.tolist()


# What onnxruntime refuses


def test_an_operator_that_onnxruntime_lacks_is_refused(host: OnnxRuntimeHost) -> None:
    with pytest.raises(HostRefusal, match=r"unknown operator Unheard\(21\)"):
        host.session(model("(float[N] x) => (float[N] y) { a = Abs(x)  y = Unheard(a) }"), Doubling())


def test_an_operator_that_the_provider_runs_is_not_refused(host: OnnxRuntimeHost) -> None:
    text = model("(bfloat16[N] x) => (bfloat16[N] y) { y = Abs(x) }")
    with pytest.raises(Exception, match="Abs"):
        onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"])
    assert host.session(text, Doubling()).run(None, {"x": X.astype("bfloat16")})[0].tolist() == [-2, 4]


def test_a_wrong_feed_is_not_refused_where_onnxruntime_takes_it_alone(host: OnnxRuntimeHost) -> None:
    session = host.session(ABS, Doubling(defect="run"))
    with pytest.raises(Exception, match="the device's error") as raised:
        session.run(None, {"x": X})
    assert not isinstance(raised.value, HostRefusal)


# Reports


def test_a_report_says_where_it_ran_and_what_it_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check-provider", "AcceleratorExecutionProvider", "--in", "onnxruntime", "--operators", "Relu"]
    assert main([*arguments, "--only", "contract,claims,saved"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    label = f"onnxruntime {onnxruntime.__version__}"
    assert head.startswith(f"AcceleratorExecutionProvider in {label}: 100% of 1 checks passed; ")
    assert f"not in {label}: contract: it asks the provider itself, and creates no session" in lines
    assert f"not in {label}: saved: it saves and loads models with ort-lite" in lines


def test_ort_lites_cpu_provider_has_another_name_inside(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check-provider", "OrtLiteExecutionProvider", "--in", "onnxruntime", "--operators", "Relu", "--only", "claims"]
    assert main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["provider"], told["host"]) == ("OrtLiteExecutionProvider", f"onnxruntime {onnxruntime.__version__}")


def test_a_finding_has_a_command_that_shows_it_in_onnxruntime() -> None:
    report = check_provider(Doubling, operators=["Abs"], only=["attributes"], host="onnxruntime")
    (finding,) = report.findings["attributes"]
    assert " --in onnxruntime " in finding.reproduce


def test_the_host_is_an_entry_point() -> None:
    assert isinstance(find_host("onnxruntime"), OnnxRuntimeHost)


def test_one_line_says_that_onnxruntime_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert main(["check-provider", "CPUExecutionProvider", "--in", "onnxruntime"]) == 2
    assert "the package onnxruntime is missing; install onnxruntime 1.24 or later" in capsys.readouterr().err


# Providers


@pytest.fixture(scope="module")
def accelerator(host: OnnxRuntimeHost) -> Kit:
    return Kit(AcceleratorExecutionProvider, SINCE, models=GeneratedModels(most=120), host=host)


@pytest.mark.parametrize("check", IN_SESSIONS)
def test_the_accelerator_passes(check: str, accelerator: Kit) -> None:
    assert run(CHECKS[check], accelerator) == []


CPU_SAMPLE = ("Cast", "Gather", "If", "LayerNormalization", "MatMul", "TopK")


def test_ort_lites_cpu_provider_passes_a_sample() -> None:
    from ort_lite_cpu import CPUExecutionProvider

    kit = Kit(CPUExecutionProvider, CPU_SAMPLE, models=GeneratedModels(most=24), host=OnnxRuntimeHost())
    assert [finding for check in IN_SESSIONS for finding in run(CHECKS[check], kit)] == []


# Planted bugs

UNSEEN = {"termination_raises_an_error_of_its_own": "onnxruntime ends the run before the provider hears of it"}
FOUND = {name: bug.check for name, bug in bugs.planted.BUGS.items() if bug.check in IN_SESSIONS and name not in UNSEEN}
FREQUENT = ("attributes", "numbers", "graphs")
"""The kinds of more than three bugs. A quarter of them is planted here, because all of them take minutes."""
PLANTED = [
    *(name for name, check in FOUND.items() if check not in FREQUENT),
    *[name for name, check in FOUND.items() if check in FREQUENT][::4],
]


@pytest.fixture(scope="module")
def healthy() -> Any:
    return bugs.Healthy(OnnxRuntimeHost())


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str, healthy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bugs.find_bug(name, healthy, monkeypatch)
