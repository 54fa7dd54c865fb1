"""Other runtimes to compare with, each imported only when it is asked for."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.record import Record
from ort_lite.tools.cli.benchmark.interleaved_runs import Run

Model = str | bytes
"""A path, or the bytes of a file."""


class Rival(Record):
    """Another runtime. `name` is its module. Each call of `open` creates a session, whose runs return all outputs."""

    name: str
    module: Any
    make: Callable[[Any, Model, int, Mapping[str, Any]], Run]

    def open(self, model: Model, threads: int, feeds: Mapping[str, Any]) -> Run:
        """Load a model and return a function that runs it."""
        return self.make(self.module, model, threads, feeds)

    @property
    def version(self) -> str:
        """Return the version of the module. The distribution may have another name."""
        return str(self.module.__version__)


def rival(name: str) -> Rival:
    """Return a runtime by name. Raises InvalidArgument if it is not installed."""
    try:
        module: ModuleType = import_module(name)
    except ImportError as error:
        raise InvalidArgument(f"--against {name}: {error}; install it with: pip install {name}") from error
    return Rival(name, module, _MAKERS[name])


def _onnxruntime(onnxruntime: Any, model: Model, threads: int, feeds: Mapping[str, Any]) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return partial(session.run, None, dict(feeds))


def _openvino(openvino: Any, model: Model, threads: int, feeds: Mapping[str, Any]) -> Run:
    """Set up OpenVINO for minimum latency, as its guide recommends: one request, shared inputs.

    The precision is float32, because OpenVINO may use bfloat16 by default.
    """
    config = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", config)
    request, count, given = compiled.create_infer_request(), len(compiled.outputs), dict(feeds)

    def run() -> list[Any]:
        found = request.infer(given, share_inputs=True)
        return [found[index] for index in range(count)]

    return run


_MAKERS = {"onnxruntime": _onnxruntime, "openvino": _openvino}
RIVALS = tuple(_MAKERS)
