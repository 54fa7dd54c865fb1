"""Models on texts for hostile cases: one node or a few, what to feed them, and what their ends should be."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import Cancelled, DeadlineExceeded, OrtLiteError, OutOfMemory

SOON, LATE = 0.05, 3.0
"""Seconds until a run is cancelled, and until it has to be over then: 0.25 on an idle machine."""
MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"


def one_node(
    op_type: str, inputs: int = 1, outputs: int = 1, domain: str = "", constant: Sequence[str] | None = None, **attributes: Any
) -> onnx.ModelProto:
    """A model of the node 'n' on texts of any shape; `constant` texts are its first input."""
    names = [f"x{k}" for k in range(inputs)]
    held = [] if constant is None else [numpy_helper.from_array(np.array(constant, object), "x0")]
    fed = [helper.make_tensor_value_info(name, TensorProto.STRING, ["N"]) for name in names[len(held) :]]
    made = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op_type, names, made, "n", domain=domain, **attributes)
    graph = helper.make_graph([node], "g", fed, [onnx.ValueInfoProto(name=name) for name in made], held)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def tokenizer(**attributes: Any) -> onnx.ModelProto:
    return one_node("Tokenizer", domain=MICROSOFT, **{"mark": 0, "mincharnum": 1, "pad_value": "", **attributes})


def parsed(graph: str, imports: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21{imports}]> g {graph}')


def session(model: onnx.ModelProto, limit: int = 0) -> ort_lite.InferenceSession:
    """`limit`: bytes of memory, 0 for as many as there are."""
    options = ort_lite.SessionOptions()
    if limit:
        options.add_session_config_entry("session.memory_limit_bytes", str(limit))
    return ort_lite.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model: onnx.ModelProto, *arrays: Any, limit: int = 0) -> Any:
    """The first output."""
    return session(model, limit).run(None, {f"x{k}": array for k, array in enumerate(arrays)})[0]


def texts(*given: str) -> Array:
    return np.array(given, object)


def repeated(text: str, count: int) -> Array:
    """One text, many references."""
    made = np.empty(count, object)
    made.fill(text)
    return made


def refused(words: str, call: Callable[[], object], kind: type[Exception] = OrtLiteError) -> None:
    """Check that the call raises an error of ort_lite, with these words."""
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value), f"{words!r} is not in the message: {caught.value}"
    assert isinstance(caught.value, OrtLiteError), f"{type(caught.value).__name__} is not one of ort_lite's errors"


def quick(seconds: float, call: Callable[[], Any]) -> Any:
    """What the call gives, within so many seconds of processor time."""
    begin = time.process_time()
    result = call()
    spent = time.process_time() - begin
    assert spent < seconds, f"it took {spent:.1f} s, expected less than {seconds} s"
    return result


def cancelled(model: onnx.ModelProto, *arrays: Any, feed: Mapping[str, Any] | None = None) -> None:
    """Check that a run which would take long ends by its timeout, and another by `terminate`, soon after."""
    made = session(model)
    given = feed or {f"x{k}": array for k, array in enumerate(arrays)}
    begin = time.perf_counter()
    refused("", lambda: made.run(None, given, timeout=SOON), DeadlineExceeded)
    options = ort_lite.RunOptions()
    timer = threading.Timer(SOON, lambda: setattr(options, "terminate", True))
    timer.start()
    refused("", lambda: made.run(None, given, options), Cancelled)
    timer.join(60)
    late = time.perf_counter() - begin - 2 * SOON
    assert late < 2 * LATE, f"two runs ended {late:.2f} s late together"


def beyond(model: onnx.ModelProto, limit: int, *arrays: Any) -> None:
    """Check that a run is refused for its memory, names its node, and gives back what it had taken."""
    made = session(model, limit)
    given = {f"x{k}": array for k, array in enumerate(arrays)}
    messages = set()
    for _ in range(3):
        with pytest.raises(OutOfMemory, match=r"session\.memory_limit_bytes") as caught:
            made.run(None, given)
        messages.add(str(caught.value))
        assert caught.value.node or "StringConcat" in str(caught.value), f"no node is named: {caught.value}"
    assert len(messages) == 1, f"a run leaves bytes behind: {messages}"
