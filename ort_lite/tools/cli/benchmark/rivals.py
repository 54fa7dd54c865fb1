"""Other runtimes that a model is timed against; imported where one is asked for."""

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
    """A runtime: `name` is its module. Each `open` makes a session of its own; its runs return all outputs."""

    name: str
    module: Any
    make: Callable[[Any, Model, int, Mapping[str, Any]], Run]

    def open(self, model: Model, threads: int, feeds: Mapping[str, Any]) -> Run:
        """Load a model, and return a function that runs it."""
        return self.make(self.module, model, threads, feeds)

    @property
    def version(self) -> str:
        """Return the version of the module: distributions of it have several names."""
        return str(self.module.__version__)


def rival(name: str) -> Rival:
    """Raises InvalidArgument where it is not installed."""
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
    """Set OpenVINO up by its guide for the least latency: one request, shared inputs.

    In float32: by default it may use bfloat16.
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
