"""The oracles: onnxruntime, onnx.reference in float64, and ort-lite itself in other configurations. Each answers or says why not."""

import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ort_lite import GraphOptimizationLevel, InferenceSession, SessionOptions
from ort_lite.dtypes import from_numpy, from_ort_name, to_numpy
from tests.generated.exact import ExactEvaluator

Answer = list[Any] | str
"""The outputs, or why there are none."""
Feeds = Mapping[str, Any]

PATIENCE_S = 5.0
"""Generated models take an oracle milliseconds; loops of the reference that do not end are stopped."""
_NEWEST_IR = 12
_OTHER_FLOATS = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE)
_OF_THE_TYPE = frozenset({"BitCast", "Cast", "CastLike", "Constant", "Range"})


class TooSlow(Exception):
    """The oracle had its time."""


def answer(oracle: Callable[[], list[Any]]) -> Answer:
    """Return what an oracle computes, or the error that it raises."""
    try:
        with within(PATIENCE_S, _give_up), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return oracle()
    except Exception as error:  # noqa: BLE001  whatever it raises, it has no answer
        return f"{type(error).__name__}: {error}"


def _give_up() -> None:
    raise TooSlow(f"{PATIENCE_S:g} s are over")


@contextmanager
def within(seconds: float, late: Callable[[], None]) -> Iterator[None]:
    """Call `late` between two lines of Python of what takes longer. Only in a main thread."""
    before = signal.signal(signal.SIGALRM, lambda signum, frame: late())
    setting = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *setting)
        signal.signal(signal.SIGALRM, before)


def onnxruntime_session(model: onnx.ModelProto) -> Any:
    """A session of onnxruntime without optimizations."""
    import onnxruntime

    options = _onnxruntime_options()
    if model.ir_version > _NEWEST_IR:
        lowered = onnx.ModelProto()
        lowered.CopyFrom(model)
        lowered.ir_version = _NEWEST_IR
        model = lowered
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@cache
def _onnxruntime_options() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


def of_onnxruntime(model: onnx.ModelProto, feeds: Feeds) -> Answer:
    """Run the model in onnxruntime."""
    return answer(lambda: _run_onnxruntime(onnxruntime_session(model), feeds))


def of_onnxruntime_in_float32(model: onnx.ModelProto, feeds: Feeds) -> Answer:
    """Run a model of one node in onnxruntime with all its floats in float32, where it has no kernel for others."""
    if model.graph.node[0].op_type in _OF_THE_TYPE:
        return "NotImplemented: the result depends on the type itself"
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for declared in changed.graph.input:
        if declared.type.tensor_type.elem_type in _OTHER_FLOATS:
            declared.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for constant in changed.graph.initializer:
        if constant.data_type in _OTHER_FLOATS:
            constant.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(constant).astype(np.float32), constant.name))
    fed = {name: _in_float32(value) for name, value in feeds.items()}
    return of_onnxruntime(changed, fed)


def _in_float32(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_float32(one) for one in value]
    if isinstance(value, np.ndarray) and from_numpy(value.dtype) in ("float16", "bfloat16", "float64"):
        with np.errstate(all="ignore"):
            return value.astype(np.float32)
    return value


def _run_onnxruntime(made: Any, feeds: Feeds) -> list[Any]:
    results = made.run(None, dict(feeds))
    if any(type(value).__name__ == "SparseTensor" for value in results):
        raise NotImplementedError("a sparse tensor, which ort-lite gives as a dense one")
    return [_typed(value, declared.type) for value, declared in zip(results, made.get_outputs(), strict=True)]


def _typed(value: Any, type_: str) -> Any:
    """onnxruntime hands types that NumPy lacks out as bytes, two elements of 4 bits in each of the first ones."""
    if isinstance(value, np.ndarray) and value.dtype == np.uint8:
        name = type_.removeprefix("optional(").removeprefix("tensor(").rstrip(")")
        dtype = from_ort_name(name)
        if dtype == "float4_e2m1fn":
            packed = value.ravel()[: (value.size + 1) // 2]
            value = np.stack([packed & 15, packed >> 4], axis=1).ravel()[: value.size].reshape(value.shape)
        return value.view(to_numpy(dtype))
    return value


def of_reference(model: onnx.ModelProto, feeds: Feeds) -> Answer:
    """Run the model in onnx.reference, each node in float64."""
    return answer(lambda: _run_reference(model, feeds))


def _run_reference(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    own = onnx.ModelProto()
    own.CopyFrom(model)  # the evaluator names outputs in it
    return [_plain(value) for value in ExactEvaluator(own).run(None, dict(feeds))]


def _plain(value: Any) -> Any:
    """Arrays in place of NumPy's scalars, and texts as objects."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, Mapping):
        return value
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "UST" else array


def session(
    model: bytes,
    level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL,
    threads: int = 1,
    providers: Sequence[Any] = ("CPUExecutionProvider",),
    config: Mapping[str, str] | None = None,
    **options: Any,
) -> InferenceSession:
    """A session of ort-lite. `config` are config entries, `options` attributes of SessionOptions."""
    chosen = SessionOptions()
    chosen.graph_optimization_level = level
    chosen.intra_op_num_threads = threads
    for name, value in options.items():
        setattr(chosen, name, value)
    for name, value in (config or {}).items():
        chosen.add_session_config_entry(name, value)
    return InferenceSession(model, chosen, providers=list(providers))
