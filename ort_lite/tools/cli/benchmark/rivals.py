"""Other runtimes to compare with, each imported only when it is asked for."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.record import Record
from ort_lite.tools.cli.benchmark.interleaved_runs import Run

RunFeeds = Callable[[dict[str, Any]], Sequence[Any]]
Model = str | bytes
"""A path, or the bytes of a file."""


class Rival(Record):
    """Another runtime. `name` is its module. Each call of `open` or `make` creates a session, whose runs return all outputs."""

    name: str
    module: Any
    make: Callable[[Any, Model, int, bool], RunFeeds]

    def open(self, model: Model, threads: int, feeds: Mapping[str, Any]) -> Run:
        """Load a model and return a function that runs it on the feeds."""
        return partial(self.create(model, threads), dict(feeds))

    def create(self, model: Model, threads: int, spin: bool = True) -> RunFeeds:
        """Load a model and return a function that runs it on feeds. Without `spin`, idle threads sleep at once."""
        return self.make(self.module, model, threads, spin)

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


def _onnxruntime(onnxruntime: Any, model: Model, threads: int, spin: bool) -> RunFeeds:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if not spin:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return partial(session.run, None)


def _openvino(openvino: Any, model: Model, threads: int, _: bool) -> RunFeeds:
    """Set up OpenVINO for minimum latency, as its guide recommends: one request, shared inputs.

    The precision is float32, because OpenVINO may use bfloat16 by default.
    """
    config = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", config)
    request, count = compiled.create_infer_request(), len(compiled.outputs)

    def run(feeds: dict[str, Any]) -> list[Any]:
        found = request.infer(feeds, share_inputs=True)
        return [found[index] for index in range(count)]

    return run


_MAKERS = {"onnxruntime": _onnxruntime, "openvino": _openvino}
RIVALS = tuple(_MAKERS)
