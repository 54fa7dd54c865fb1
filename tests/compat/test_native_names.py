"""What programs see that use the classes behind onnxruntime's Python interface, and texts that they look for."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_lite
from ort_lite import OrtDevice


def model(text: str) -> bytes:
    made: bytes = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> main {text}').SerializeToString()
    return made


CHAIN = model("(float[N] x) => (float[N] y) { a = Neg(x)  b = Exp(a)  y = Add(b, x) }")


def test_devices_are_made_of_numbers() -> None:
    assert (OrtDevice.cpu(), OrtDevice.gpu(), OrtDevice.cuda(), OrtDevice.webgpu()) == (0, 1, 1, 1)
    assert (OrtDevice.fpga(), OrtDevice.npu(), OrtDevice.cann(), OrtDevice.dml(), OrtDevice.default_memory()) == (2, 3, 3, 4, 0)
    device = OrtDevice(OrtDevice.cuda(), OrtDevice.default_memory(), 2)
    assert (device.device_type(), device.device_id(), device.device_vendor_id()) == (1, 2, 0)
    device = OrtDevice(OrtDevice.npu(), OrtDevice.default_memory(), 0x5143, 1)
    assert (device.device_type(), device.device_id(), device.device_vendor_id()) == (3, 1, 0x5143)
    with pytest.raises(RuntimeError, match="unsupported device type '9'"):
        OrtDevice(9, 0, 0)


def test_each_node_of_the_cpu_provider_is_listed_by_itself() -> None:
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    with pytest.raises(ort_lite.errors.Fail, match="must be set to"):
        ort_lite.InferenceSession(CHAIN, options).get_provider_graph_assignment_info()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    found = ort_lite.InferenceSession(CHAIN, options).get_provider_graph_assignment_info()
    assert [(one.ep_name, [node.op_type for node in one.get_nodes()]) for one in found] == [
        ("CPUExecutionProvider", [name]) for name in ("Neg", "Exp", "Add")
    ]


def test_unknown_providers_of_a_session_that_exists() -> None:
    session = ort_lite.InferenceSession(CHAIN)
    for entry in ("InvalidProvider", ("InvalidProvider", {"a": "1"})):
        with pytest.raises(RuntimeError, match="Unknown Provider Type: InvalidProvider"):
            session.set_providers([entry])
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_each_line_of_a_profile_is_an_event(tmp_path: Path) -> None:
    options = ort_lite.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = ort_lite.InferenceSession(CHAIN, options)
    session.run(None, {"x": np.array([1], np.float32)})
    first, *lines, last = Path(session.end_profiling()).read_text().splitlines()
    assert first.startswith("[") and last == "]"
    assert lines and all(json.loads(line.rstrip(","))["ph"] == "X" for line in lines)


def test_unnamed_dimensions_of_outputs_are_as_written() -> None:
    proto = onnx.load_from_string(model("(float[N] x) => (float[M] y) { y = Neg(x) }"))
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "None"
    session = ort_lite.InferenceSession(proto.SerializeToString())
    assert [arg.shape for arg in (*session.get_inputs(), *session.get_outputs())] == [["None"], ["None"]]


def test_what_has_no_address() -> None:
    binding = ort_lite.InferenceSession(CHAIN).io_binding()
    for dtype in (int(onnx.TensorProto.STRING), np.dtype("U1"), np.dtype(object)):
        with pytest.raises(RuntimeError, match="Only binding non-string Tensors"):
            binding.bind_input("x", "cpu", 0, dtype, [1], np.zeros(4, np.uint8).ctypes.data)


def test_memory_that_nobody_has() -> None:
    memory = ort_lite.OrtMemoryInfo.create_v2(
        "Nowhere",
        ort_lite.OrtMemoryInfoDeviceType.GPU,
        0xDEAD,
        0,
        ort_lite.OrtDeviceMemoryType.HOST_ACCESSIBLE,
        0,
        ort_lite.OrtAllocatorType.ORT_DEVICE_ALLOCATOR,
    )
    with pytest.raises(RuntimeError, match="No shared allocator found"):
        ort_lite.OrtValue.ortvalue_from_shape_and_type([2], np.float32, memory_info=memory)


def test_information_about_a_compiled_model_is_a_text() -> None:
    information: Any = None
    with pytest.raises(TypeError, match="expected a str"):
        ort_lite.get_model_compatibility_for_ep_devices(ort_lite.get_ep_devices(), information)


def test_without_contexts_a_compiled_model_is_an_optimized_one(tmp_path: Path) -> None:
    source = model(
        "(float[N] x) => (float[N] y) { a = Cast<to = 11>(x)  b = Cast<to = 1>(a)  c = Cast<to = 1>(b)  y = Neg(c) }"
    )
    levels = ort_lite.GraphOptimizationLevel
    for level, casts in ((levels.ORT_DISABLE_ALL, 3), (levels.ORT_ENABLE_BASIC, 2)):
        compiler = ort_lite.ModelCompiler(ort_lite.SessionOptions(), source, graph_optimization_level=level)
        made = compiler.compile_to_bytes()
        assert [node.op_type for node in onnx.load_from_string(made).graph.node].count("Cast") == casts
