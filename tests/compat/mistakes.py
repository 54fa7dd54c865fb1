"""Mistakes that programs make, each as a function of the API: onnxruntime or ort_lite."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx.external_data_helper
import onnx.parser
from onnx import numpy_helper

Mistake = Callable[[Any], Any]
X = np.ones(3, np.float32)
NEG = "(float[3] x) => (float[3] y) { y = Neg(x) }"


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def proto(text: str, opset: int = 17, ir: int = 8) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}]> main {text}')


def session(api: Any, text: str = NEG, **options: Any) -> Any:
    return api.InferenceSession(proto(text).SerializeToString(), providers=["CPUExecutionProvider"], **options)


def load(source: Any) -> Mistake:
    return lambda api: api.InferenceSession(source, providers=["CPUExecutionProvider"])


def model(text: str, opset: int = 17, ir: int = 8) -> Mistake:
    return load(proto(text, opset, ir).SerializeToString())


def run(text: str, **feeds: Any) -> Mistake:
    return lambda api: session(api, text).run(None, feeds)


def bind(text: str, *outputs: str, **feeds: Any) -> Mistake:
    """Runs with an IOBinding."""

    def act(api: Any) -> None:
        bound = session(api, text)
        binding = bound.io_binding()
        for name, value in feeds.items():
            binding.bind_cpu_input(name, value)
        for name in outputs:
            binding.bind_output(name)
        bound.run_with_iobinding(binding)

    return act


def _garbage(api: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(b"garbage garbage")
        load(str(path))(api)


def _folder(api: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        load(folder)(api)


def _no_external_data(api: Any) -> None:
    source = proto("(float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Add(x, w) }")
    tensor = source.graph.initializer[0]
    tensor.CopyFrom(numpy_helper.from_array(X, "w"))
    onnx.external_data_helper.set_external_data(tensor, "w.bin")
    tensor.ClearField("raw_data")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(source.SerializeToString())
        load(str(path))(api)


def _cancelled_load(api: Any) -> None:
    options = api.SessionOptions()
    options.set_load_cancellation_flag(True)
    session(api, sess_options=options)


def _terminated(api: Any) -> Any:
    options = api.RunOptions()
    options.terminate = True
    return options


def _terminated_binding(api: Any) -> None:
    bound = session(api)
    binding = bound.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    bound.run_with_iobinding(binding, _terminated(api))


def _bound_to(target: Any) -> Mistake:
    def act(api: Any) -> None:
        bound = session(api)
        binding = bound.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_ortvalue_output("y", api.OrtValue.ortvalue_from_numpy(target))
        bound.run_with_iobinding(binding)

    return act


def value(api: Any, array: Any = X, *device: Any) -> Any:
    return api.OrtValue.ortvalue_from_numpy(array, *device)


LOADING: dict[str, Mistake] = {
    "a path that does not exist": load("/nonexistent/model.onnx"),
    "a folder": _folder,
    "bytes of something else": load(b"this is not a model"),
    "a file of something else": _garbage,
    "no bytes": load(b""),
    "None": load(None),
    "a number": load(3),
    "an unknown operator": model("(float[3] x) => (float[3] y) { y = Nosuch(x) }"),
    "a domain that is not imported": model("(float[3] x) => (float[3] y) { y = my.Nosuch(x) }"),
    "an undefined input": model("(float[3] x) => (float[3] y) { y = Add(x, w) }"),
    "an undefined output": model("(float[3] x) => (float[3] z) { y = Neg(x) }"),
    "a cycle": model("(float[3] x) => (float[3] y) { y = Add(x, z) z = Neg(y) }"),
    "two producers": model("(float[3] x) => (float[3] y) { y = Neg(x) y = Abs(x) }"),
    "two types": model("(float[3] x, int64[3] w) => (float[3] y) { y = Add(x, w) }"),
    "a type that the operator lacks": model("(string[3] x) => (string[3] y) { y = Neg(x) }"),
    "shapes that do not broadcast": model("(float[3] x, float[4] w) => (float[3] y) { y = Add(x, w) }"),
    "a wrong declared type": model("(float[3] x) => (int64[3] y) { y = Neg(x) }"),
    "too many inputs": model("(float[3] x) => (float[3] y) { y = Neg(x, x) }"),
    "a missing attribute": model("(float[3] x) => (float[3] y) { y = Cast(x) }"),
    "an unknown attribute": model("(float[3] x) => (float[3] y) { y = Neg<foo=1>(x) }"),
    "an opset of the future": model(NEG, opset=99),
    "an IR version of the future": model(NEG, ir=99),
    "no external data": _no_external_data,
    "a cancelled load": _cancelled_load,
}
RUNNING: dict[str, Mistake] = {
    "a missing feed": run(NEG),
    "an unknown feed": run(NEG, x=X, z=X),
    "a feed of another type": run(NEG, x=np.ones(3)),
    "a feed of another rank": run(NEG, x=ones(3, 1)),
    "a feed of another size": run(NEG, x=ones(4)),
    "a feed of texts": run(NEG, x=["a", "b", "c"]),
    "a ragged feed": run(NEG, x=[[1.0], [1.0, 2.0]]),
    "an object as a feed": run(NEG, x=object()),
    "an unknown output": lambda api: session(api).run(["q"], {"x": X}),
    "a terminated run": lambda api: session(api).run(None, {"x": X}, _terminated(api)),
    "OrtValues of another size": lambda api: session(api).run_with_ort_values(None, {"x": value(api, ones(4))}),
    "run_async without a feed": lambda api: session(api).run_async(None, {}, print, None),
}
BINDING: dict[str, Mistake] = {
    "an unknown bound input": bind(NEG, q=X),
    "an unknown bound output": bind(NEG, "q", x=X),
    "an unbound input": bind(NEG, "y"),
    "a bound input of another size": bind(NEG, "y", x=ones(4)),
    "a bound input of another type": bind(NEG, "y", x=np.ones(3)),
    "a bound input of another rank": bind(NEG, "y", x=ones(3, 1)),
    "memory of another size": _bound_to(ones(4)),
    "memory of another type": _bound_to(np.ones(3)),
    "a terminated run with a binding": _terminated_binding,
    "a bound index out of range": bind("(float[N] x, int64[M] i) => (float[K] y) { y = Gather(x, i) }", "y", x=X, i=ints(7)),
    "bound shapes": bind("(float[N] x, float[M] w) => (float[K] y) { y = Add(x, w) }", "y", x=X, w=ones(4)),
}
CALLING: dict[str, Mistake] = {
    "an OrtValue on cuda": lambda api: value(api, X, "cuda", 0),
    "an OrtValue on no device": lambda api: value(api, X, "nonsense", 0),
    "zeros on cuda": lambda api: api.OrtValue.ortvalue_from_shape_and_type([3], np.float32, "cuda", 0),
    "zeros of a negative size": lambda api: api.OrtValue.ortvalue_from_shape_and_type([-3], np.float32),
    "zeros of no type": lambda api: api.OrtValue.ortvalue_from_shape_and_type([3], 999),
    "an update of another size": lambda api: value(api, X.copy()).update_inplace(ones(4)),
    "a dense tensor as a sparse one": lambda api: value(api).as_sparse_tensor(),
    "sparse indices of another length": lambda api: api.SparseTensor.sparse_coo_from_numpy(
        np.array([3, 3]), ones(2), ints(1, 2, 3), api.OrtDevice.make("cpu", 0)
    ),
    "copies of two lengths": lambda api: api.copy_tensors([value(api)], []),
    "the severity -1": lambda api: api.set_default_logger_severity(-1),
    "a severity as text": lambda api: api.set_default_logger_severity("warn"),
    "a seed as text": lambda api: api.set_seed("x"),
    "a config entry without a name": lambda api: api.SessionOptions().add_session_config_entry("", "1"),
    "a config entry that is not set": lambda api: api.SessionOptions().get_session_config_entry("nosuch"),
    "a level as text": lambda api: setattr(api.SessionOptions(), "graph_optimization_level", "all"),
    "an unknown option": lambda api: setattr(api.SessionOptions(), "nosuch", 1),
    "an unknown arena option": lambda api: api.OrtArenaCfg({"nosuch": 1}),
    "an allocator of another device": lambda api: api.create_and_register_allocator(
        api.OrtMemoryInfo("Cuda", api.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, api.OrtMemType.DEFAULT), None
    ),
    "assignment that is not recorded": lambda api: session(api).get_provider_graph_assignment_info(),
    "an adapter that does not exist": lambda api: api.LoraAdapter().Load("/nonexistent"),
    "a provider library that does not exist": lambda api: api.register_execution_provider_library("q", "/nonexistent.so"),
    "an empty model to compile": lambda api: api.ModelCompiler(api.SessionOptions(), b""),
}
