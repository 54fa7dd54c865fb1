"""Members of onnxruntime's sessions, options and values: they are there, and answer as onnxruntime's do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi import _pybind_state as native

import ort_lite
from ort_lite.compat.onnxruntime.capi import onnxruntime_pybind11_state as ours_native
from ort_lite.errors import Fail, InvalidArgument, NoSuchFile, NotImplemented
from tests.tensors.test_sparse import agree, outcome

X = np.array([[1, -2]], np.float32)


def model(*steps: Any, **options: Any) -> bytes:
    """Of an input x and an output y, both of rank 2."""
    x, y = (helper.make_tensor_value_info(name, 1, [None, None]) for name in "xy")
    graph = helper.make_graph(list(steps), "g", [x], [y], **options)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


MODEL = model(helper.make_node("Relu", ["x"], ["y"], name="relu"))
ENUMS = [
    "GraphOptimizationLevel",
    "ExecutionMode",
    "ExecutionOrder",
    "OrtAllocatorType",
    "OrtMemType",
    "OrtSparseFormat",
    "OrtDeviceMemoryType",
    "OrtMemoryInfoDeviceType",
]


def session(api: Any, **entries: str) -> Any:
    options = api.SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(f"session.{key}", value)
    return api.InferenceSession(MODEL, options)


def members(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_native_classes_have_their_members() -> None:
    face = session(ort_lite)._sess
    missing = {name for name in members(native.InferenceSession) if not hasattr(face, name)}
    assert missing <= {"input_epdevices"}
    for name in ("OrtValue", "SparseTensor", "SparseCooView", "SparseCsrView", "SparseBlockSparseView"):
        assert members(getattr(native, name)) - set(dir(getattr(ours_native, name))) == set()
    assert members(native.SessionIOBinding) <= members(ort_lite.IOBinding) | members(ort_lite.SessionIOBinding)
    assert members(native.OrtValueVector) <= members(ort_lite.OrtValueVector)


@pytest.mark.parametrize("name", ENUMS)
def test_enums(name: str) -> None:
    ours, theirs = getattr(ort_lite, name), getattr(onnxruntime, name)

    def told(enum: Any) -> Any:
        return {key: (str(one), repr(one), one.name, one.value, int(one)) for key, one in enum.__members__.items()}

    assert told(ours) == told(theirs)


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "of a run": lambda api, c: api.RunOptions().get_run_config_entry("zz"),
    "threads as text": lambda api, c: setattr(api.SessionOptions(), "intra_op_num_threads", "a"),
    "initialiser that is none": lambda api, c: api.SessionOptions().add_initializer("a", 3),
    "names without values": lambda api, c: api.SessionOptions().add_external_initializers(["a"], []),
    "files without lengths": lambda api, c: api.SessionOptions().add_external_initializers_from_files_in_memory(
        ["a"], [b"1"], []
    ),
    "updates of a list": lambda api, c: api.OrtValue.ortvalue_from_numpy(X).update_inplace([1]),
    "a growth that there is not": lambda api, c: c.OrtArenaCfg({"arena_extend_strategy": 11}).arena_extend_strategy,
    "arena figures": lambda api, c: [getattr(c.OrtArenaCfg(16, 1, 2, 3), name) for name in sorted(members(native.OrtArenaCfg))],
    "graph assignment": lambda api, c: [
        (part.ep_name, [(node.name, node.domain, node.op_type) for node in part.get_nodes()])
        for part in session(api, record_ep_graph_assignment_info="1").get_provider_graph_assignment_info()
    ],
    "memory": lambda api, c: _memory(session(api)),
    "tuning": lambda api, c: [session(api).get_tuning_results(), session(api).set_tuning_results([])],
    "captured graph": lambda api, c: session(api).release_captured_graph(3),
    "other providers": lambda api, c: _reset(session(api)),
    "underscores": lambda api, c: _told(session(api), "_model_path", "_model_bytes", "_providers", "_enable_fallback"),
    "native session": lambda api, c: _native(session(api)._sess),
    "a vector": lambda api, c: _vector(session(api), api, c),
    "bound as a vector": lambda api, c: _bound(session(api)),
    "native binding": lambda api, c: _native_binding(session(api), c),
    "zeros": lambda api, c: _zeros(session(api), c),
    "memory information": lambda api, c: [
        str(getattr(_host(c), name)) for name in sorted(members(native.OrtMemoryInfo) - {"create_v2"})
    ],
}


def _told(made: Any, *names: str) -> Any:
    return [getattr(made, name) for name in names]


def _native(face: Any) -> Any:
    return [face.run(["y"], {"x": X}, None)[0].tolist(), face.inputs_meta[0].name]


def _memory(made: Any) -> Any:  # onnxruntime's objects are no more once the session is gone
    return [
        (info.device_id, str(info.allocator_type), str(info.device_mem_type), info.device_vendor_id)
        for infos in (made.get_input_memory_infos(), made.get_output_memory_infos())
        for info in infos
    ]


def _reset(made: Any) -> Any:
    made.set_providers(["CPUExecutionProvider"])
    return [made.get_providers(), made.run(None, {"x": X})[0].tolist()]


def _vector(made: Any, api: Any, c: Any) -> Any:
    feeds, fetches = c.OrtValueVector(), c.OrtValueVector()
    feeds.push_back(api.OrtValue.ortvalue_from_numpy(X)._ortvalue)
    device = onnxruntime.OrtDevice.make("cpu", 0)._get_c_device()
    made.run_with_ortvaluevector(api.RunOptions(), ["x"], feeds, ["y"], fetches, [device])
    return [len(fetches), fetches[0].numpy().tolist(), fetches.element_type_at(0)]


def _bound(made: Any) -> Any:
    binding = made.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    made.run_with_iobinding(binding)
    return [value.numpy().tolist() for value in binding.get_outputs_as_ortvaluevector()]


def _native_binding(made: Any, c: Any) -> Any:
    device = onnxruntime.OrtDevice.make("cpu", 0)._get_c_device()
    values = []
    for arguments in ([X], [device, np.float32, [1, 2], X.ctypes.data]):
        binding, result = c.SessionIOBinding(made._sess), np.zeros((1, 2), np.float32)
        binding.bind_input("x", *arguments)
        binding.bind_output("y", device, np.float32, [1, 2], result.ctypes.data)
        made._sess.run_with_iobinding(binding, None)
        values.append([result.tolist(), len(binding.get_outputs()), binding.get_outputs()[0].numpy().tolist()])
    binding.bind_output("y", device)
    made._sess.run_with_iobinding(binding, None)
    return [values, c.OrtValue.ortvalue_from_numpy(X, device).data_type()]


def _zeros(made: Any, c: Any) -> Any:
    device = onnxruntime.OrtDevice.make("cpu", 0)._get_c_device()
    values = [
        c.OrtValue.ortvalue_from_shape_and_type([2], np.float32, device),
        c.OrtValue.ortvalue_from_shape_and_onnx_type([2], 10, device),
        made._sess.create_ortvalue_from_shape_and_onnx_type([2], 1, device),
    ]
    return [(value.data_type(), value.shape(), value.device_name().lower()) for value in values]


def _host(c: Any) -> Any:
    device, memory = c.OrtMemoryInfoDeviceType.GPU, c.OrtDeviceMemoryType.HOST_ACCESSIBLE
    return c.OrtMemoryInfo.create_v2("Test", device, 0x10DE, 1, memory, 128, c.OrtAllocatorType.ORT_DEVICE_ALLOCATOR)


def test_bytes_that_are_bool_are_as_in_onnxruntime_before_1_32() -> None:
    """Since then its capsules tell bool from uint8, and what programs asked for is gone; programs for the versions before ask."""
    value = ort_lite.OrtValue.ortvalue_from_numpy(np.array([1, 0], np.uint8))._ortvalue
    kinds = [ours_native.OrtValue.from_dlpack(value.to_dlpack(), flag).data_type() for flag in (False, True)]
    assert kinds == ["tensor(uint8)", "tensor(bool)"]
    values = [ort_lite.OrtValue.ortvalue_from_numpy(np.zeros(2, dtype))._ortvalue for dtype in (np.uint8, np.int8, np.float32)]
    assert [ours_native.is_dlpack_uint8_tensor(each.to_dlpack()) for each in values] == [True, False, False]
    vector = ours_native.OrtValueVector()
    vector.push_back(value)
    vector.push_back(ort_lite.OrtValue.ortvalue_from_numpy(np.zeros(2, np.bool_))._ortvalue)
    assert vector.bool_tensor_indices() == [1]


@pytest.mark.parametrize("name", CALLS)
def test_calls_have_onnxruntimes_outcome(name: str) -> None:
    ours, theirs = outcome(lambda: CALLS[name](ort_lite, ours_native)), outcome(lambda: CALLS[name](onnxruntime, native))
    assert agree(ours, theirs), (ours, theirs)


def test_zeros_where_a_memory_information_says() -> None:
    """onnxruntime asks for an allocator that was registered before."""
    info = ort_lite.OrtMemoryInfo("Cpu")
    for element_type in (np.int64, 7):
        made = ort_lite.OrtValue.ortvalue_from_shape_and_type_for_memory_info([2], element_type, info)
        assert (made.numpy().tolist(), made.data_type(), made.device_name()) == ([0, 0], "tensor(int64)", "cpu")


def test_a_custom_ops_library_says_what_to_do() -> None:
    with pytest.raises(NotImplemented, match="write the operators as a provider"):
        ort_lite.SessionOptions().register_custom_ops_library("/a/library.so")


def test_another_session_of_parameters_does_not_lose_them(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(X, "w")
    source = model(helper.make_node("Identity", ["w"], ["y"]), initializer=[weight])
    made = ort_lite.InferenceSession(source, params={"w": 2 * X})
    with pytest.raises(InvalidArgument, match=r"set_providers: .* or with parameters"):
        made.set_providers(["CPUExecutionProvider"])
    assert (made.run(None, {"x": X})[0] == 2 * X).all()
    path = tmp_path / "m.onnx"
    path.write_bytes(source)
    named = ort_lite.InferenceSession(path)
    assert named._model_path == str(path)
    named.close()
    with pytest.raises(InvalidArgument, match="set_providers: the session is closed"):
        named.set_providers()


def test_an_optimised_model_that_cannot_be_written(tmp_path: Path) -> None:
    options = ort_lite.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "nowhere" / "m.onnx")
    with pytest.raises(NoSuchFile, match=r"optimized_model_filepath '.*m.onnx' cannot be written: No such file"):
        ort_lite.InferenceSession(MODEL, options)


@pytest.mark.parametrize("key", ["load_model_format", "save_model_format"])
def test_onnxruntimes_own_format_is_an_error(key: str, tmp_path: Path) -> None:
    session(ort_lite, **{key: "ONNX"})
    with pytest.raises(InvalidArgument, match=f"session.{key} is 'ORT'; expected 'ONNX'"):
        session(ort_lite, **{key: "ORT"})
    options = ort_lite.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "m.ort")
    with pytest.raises(InvalidArgument, match=r"name it \.onnx"):
        ort_lite.InferenceSession(MODEL, options)


# External data in memory

W = np.arange(6, dtype=np.float32).reshape(2, 3)


def external(name: str = "w", location: str = "w.bin") -> bytes:
    """A model whose weight is in a file that does not exist."""
    weight = TensorProto(name=name, data_type=1, dims=W.shape, data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    return model(helper.make_node("Identity", [name], ["y"]), initializer=[weight])


def added(source: bytes, arrays: dict[str, Any], files: dict[str, Any]) -> Any:
    options = ort_lite.SessionOptions()
    options.add_external_initializers(list(arrays), list(arrays.values()))
    options.add_external_initializers_from_files_in_memory(
        list(files), list(files.values()), [len(bytes(f)) for f in files.values()]
    )
    return ort_lite.InferenceSession(source, options).run(None, {"x": np.zeros((2, 3), np.float32)})[0]


def test_external_data_in_memory() -> None:
    value = ort_lite.OrtValue.ortvalue_from_numpy(2 * W)
    assert (added(external(), {"w": value}, {}) == 2 * W).all()
    assert (added(external(), {"w": 3 * W}, {}) == 3 * W).all()
    for location in ("w.bin", "folder/w.bin"):
        for data in (W.tobytes(), bytearray(W.tobytes()), memoryview(W.tobytes())):
            assert (added(external(location=location), {}, {location: data}) == W).all()


@pytest.mark.parametrize(
    ("source", "arrays", "files", "message"),
    [
        (external(), {"w": W, "q": W}, {}, "no initialiser 'q' with external data; it has 'w'"),
        (external(), {"w": W.T}, {}, r"'w' is float32\[3, 2\]; the model's is float32\[2, 3\]"),
        (external(), {"w": W.astype(np.float64)}, {}, r"'w' is float64\[2, 3\]"),
        (MODEL, {"w": W}, {}, "no initialiser 'w' with external data; it has none"),
        (external(), {}, {"v.bin": W.tobytes()}, "'w.bin' is not among those in memory: 'v.bin'"),
    ],
)
def test_external_data_that_does_not_fit(source: bytes, arrays: Any, files: Any, message: str) -> None:
    with pytest.raises(Fail, match=message):
        added(source, arrays, files)


def test_files_in_memory_that_are_too_short() -> None:
    with pytest.raises(ort_lite.errors.InvalidGraph, match="which has 20: cut short"):
        added(external(), {}, {"w.bin": W.tobytes()[:20]})
    options = ort_lite.SessionOptions()
    with pytest.raises(InvalidArgument, match="has 2 bytes; got a length of 3"):
        options.add_external_initializers_from_files_in_memory(["w"], [b"12"], [3])
    options.add_external_initializers(["w"], [W])
    with pytest.raises(InvalidArgument, match="'w' was added before"):
        options.add_external_initializers(["w"], [W])
    with pytest.raises(InvalidArgument, match="a Model has its data already"):
        ort_lite.InferenceSession(ort_lite.load(MODEL), options)
