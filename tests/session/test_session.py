"""InferenceSession over stand-in providers: loading, naming, running, overriding, explaining."""

import re
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ort_lite
from ort_lite.compat.optimizers import OPTIMIZERS
from ort_lite.errors import InvalidArgument, ModelLoadCanceled, ProviderError
from ort_lite.graph import Node
from ort_lite.plugins import plugins
from ort_lite.provider import Capability, CompiledPartition, Partition
from ort_lite.provider.compiled import KernelChoice
from tests.provider import numpy_provider
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, evaluate, run_node
from tests.threads import join

X = np.array([[1, -2, 3]], np.float32)
SIMPLE = "(float[N,3] x) => (float[N,3] y) { a = Abs(x)  y = Neg(a) }"


def model(text: str, ir: int = 8, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}]> main {text}')


def session(text: str, *providers: Any, options: ort_lite.SessionOptions | None = None, **more: Any) -> Any:
    return ort_lite.InferenceSession(model(text, **more), options, providers=providers or [CpuStandIn()])


# Models


def test_a_model_comes_as_path_bytes_buffer_proto_or_file(tmp_path: Path) -> None:
    proto = model(SIMPLE)
    data, path = proto.SerializeToString(), tmp_path / "model.onnx"
    path.write_bytes(data)
    with path.open("rb") as file:
        for source in (path, str(path), data, bytearray(data), memoryview(data), proto, file):
            made = ort_lite.InferenceSession(source, providers=[CpuStandIn()])
            np.testing.assert_array_equal(made.run(None, {"x": X})[0], -np.abs(X))


# What it says of the model


def test_metadata_is_the_models() -> None:
    proto = model(SIMPLE)
    proto.producer_name, proto.domain, proto.model_version, proto.doc_string = "me", "here", 7, "what it is"
    proto.graph.doc_string = "how it is"
    onnx.helper.set_model_props(proto, {"alphabet": "abc"})
    meta = ort_lite.InferenceSession(proto, providers=[CpuStandIn()]).get_modelmeta()
    assert meta == ort_lite.ModelMetadata(
        custom_metadata_map={"alphabet": "abc"},
        description="what it is",
        domain="here",
        graph_description="how it is",
        graph_name="main",
        producer_name="me",
        version=7,
    )


def test_options_are_those_of_creation() -> None:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 2
    made = session(SIMPLE, options=options)
    options.intra_op_num_threads = 3
    made.get_session_options().intra_op_num_threads = 4
    assert made.get_session_options().intra_op_num_threads == 2


def test_providers_are_told_the_options() -> None:
    provider, options = CpuStandIn(), ort_lite.SessionOptions()
    options.intra_op_num_threads = 5
    session(SIMPLE, provider, options=options)
    assert [told.intra_op_num_threads for told in provider.configured] == [5]


# Running

TWO = "(float[N,3] x) => (float[N,3] y, float[N,3] z) { y = Abs(x)  z = Neg(x) }"


@pytest.mark.parametrize(
    ("names", "expected"),
    [(None, "yz"), ([], "yz"), (["y", "z"], "yz"), (["z", "y"], "zy"), (["z"], "z"), (("z",), "z"), (["z", "z"], "zz")],
    ids=str,
)
def test_outputs_come_in_the_order_of_the_names(names: Sequence[str] | None, expected: str) -> None:
    results = dict(zip("yz", (np.abs(X), -X), strict=True))
    got = session(TWO).run(names, {"x": X})
    assert type(got) is list
    np.testing.assert_array_equal(got, [results[name] for name in expected])


def test_an_output_that_does_not_exist_is_named() -> None:
    with pytest.raises(InvalidArgument, match="the model has no output 'q'; it has 'y', 'z'"):
        session(TWO).run(["y", "q"], {"x": X})


def test_feeds_are_not_written_to_and_results_are_the_callers() -> None:
    made = session("(float[N,3] x) => (float[N,3] y, float[N,3] x, float[3] w) <float[3] w = {1, 2, 3}> { y = Add(x, w) }")
    x = X.copy()
    first = made.run(None, {"x": x})
    for result in first:
        result += 100
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], X + np.array([1, 2, 3]))
    np.testing.assert_array_equal(made.run(["w"], {"x": x})[0], [1, 2, 3])


def test_an_output_that_is_listed_twice_is_two_arrays() -> None:
    proto = model(SIMPLE)
    proto.graph.output.append(proto.graph.output[0])
    made = ort_lite.InferenceSession(proto, providers=[CpuStandIn()])
    first, second = made.run(None, {"x": X})
    assert not np.shares_memory(first, second)


# Overridable initialisers

OVERRIDABLE = """(float[N,3] x, float[3] w) => (float[N,3] y) <float[3] w = {1, 2, 3}, float[3] v = {1, 1, 1}> {
    a = Add(x, w)
    y = Mul(a, v)
}"""


def test_an_initialiser_that_is_an_input_too_can_be_overridden() -> None:
    provider = CpuStandIn()
    made = session(OVERRIDABLE, provider)
    assert [arg.name for arg in made.get_inputs()] == ["x"]
    assert [arg.name for arg in made.get_overridable_initializers()] == ["w"]
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], X + np.array([1, 2, 3]))
    assert len(provider.compiled) == 1
    w = np.array([5, 6, 7], np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(made.run(None, {"x": X, "w": w})[0], X + w)
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], X + np.array([1, 2, 3]))
    np.testing.assert_array_equal(made.run(None, {"x": X, "w": None})[0], X + np.array([1, 2, 3]))
    assert len(provider.compiled) == 2


def test_an_override_is_checked_as_an_input_is() -> None:
    made = session(OVERRIDABLE)
    with pytest.raises(InvalidArgument, match=r"input 'w' has 2 in dimension 0, shape \[2\]; expected \[3\]"):
        made.run(None, {"x": X, "w": np.zeros(2, np.float32)})
    with pytest.raises(InvalidArgument, match="the model has no input 'v'"):
        made.run(None, {"x": X, "v": np.zeros(3, np.float32)})


def test_before_ir_version_4_initialisers_cannot_be_overridden() -> None:
    made = session(OVERRIDABLE, ir=3)
    assert made.get_overridable_initializers() == []
    with pytest.raises(InvalidArgument, match="the model has no input 'w'"):
        made.run(None, {"x": X, "w": np.zeros(3, np.float32)})


# Cancelling


class Canceling(CpuStandIn):
    """Asks for cancellation, in another thread, when it is told to compile."""

    def __init__(self, options: ort_lite.SessionOptions) -> None:
        super().__init__()
        self.given = options

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        other = threading.Thread(target=self.given.set_load_cancellation_flag, args=(True,))
        other.start()
        join(other)
        return super().compile(partitions)


def test_another_thread_cancels_the_creation_of_a_session() -> None:
    options = ort_lite.SessionOptions()
    with pytest.raises(ModelLoadCanceled, match=r"cancelled the creation of the session \(stage: (compile|finish)\)"):
        session(SIMPLE, Canceling(options), options=options)
    with pytest.raises(ModelLoadCanceled, match=r"\(stage: load\)"):
        session(SIMPLE, options=options)
    options.set_load_cancellation_flag(False)
    assert session(SIMPLE, options=options).run(None, {"x": X})


# Options that change the model


CONSTANT = "(float[N,3] x) => (float[N,3] y) <float[3] w = {1, 2, 3}> { y = Add(x, w) }"


def test_an_initialiser_can_be_replaced() -> None:
    options = ort_lite.SessionOptions()
    options.add_initializer("w", np.array([4, 5, 6], np.float32))
    np.testing.assert_array_equal(session(CONSTANT, options=options).run(None, {"x": X})[0], X + np.array([4, 5, 6]))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("v", np.zeros(3, np.float32), "add_initializer: the model has no initialiser 'v'"),
        ("w", np.zeros(3), r"add_initializer: 'w' is float64\[3\]; the model's is float32\[3\]"),
        ("w", np.zeros(2, np.float32), r"add_initializer: 'w' is float32\[2\]; the model's is float32\[3\]"),
    ],
)
def test_a_replacement_that_does_not_fit_is_refused(name: str, value: Any, message: str) -> None:
    options = ort_lite.SessionOptions()
    options.add_initializer(name, value)
    with pytest.raises(InvalidArgument, match=message):
        session(CONSTANT, options=options)


def test_transforms_can_be_disabled_by_their_names_and_by_those_of_onnxruntime(caplog: pytest.LogCaptureFixture) -> None:
    text = "(float[N,3] x) => (float[N,3] y) { a = Identity(x)  y = Neg(a) }"
    for names in (["remove_no_op"], ["EliminateIdentity", "MatMulScaleFusion"]):
        made = ort_lite.InferenceSession(model(text), providers=[CpuStandIn()], disabled_optimizers=names)
        assert len(made.explain().assignment.placements) == 2
    assert caplog.messages == []


def test_disabling_what_nobody_knows_costs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    text = "(float[N,3] x) => (float[N,3] y) { a = Identity(x)  y = Neg(a) }"
    made = ort_lite.InferenceSession(model(text), providers=[CpuStandIn()], disabled_optimizers=["GellyFusion"])
    assert len(made.explain().assignment.placements) == 1
    assert caplog.messages == ["no transform is called 'GellyFusion': it cannot be disabled"]


def test_the_names_of_onnxruntime_are_those_of_its_library() -> None:
    library = Path(onnxruntime.capi.onnxruntime_pybind11_state.__file__).read_bytes()
    kinds = rb"[A-Za-z0-9]*(?:Fusion|Elimination|Sharing|Folding|Remover)|Eliminate[A-Za-z]+"
    classes = {name.decode() for _, name in re.findall(rb"N11onnxruntime(\d\d)(%s)E\0" % kinds, library)}
    assert len(classes) > 40 and classes <= OPTIMIZERS
    counterparts = {n for found in (*plugins.transforms(), *plugins.fusions()) for n in found.counterparts}
    assert counterparts <= OPTIMIZERS


def test_unknown_keywords_cost_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    made = ort_lite.InferenceSession(model(SIMPLE), provider=["CPUExecutionProvider"], frob=1)
    assert made.get_providers() == ["CPUExecutionProvider"]
    warning = "InferenceSession ignores keywords that it does not have: 'frob', 'provider'; did you mean 'providers'?"
    assert caplog.messages == [warning]


# Functions and element types

FUNCTIONS = """<ir_version: 8, opset_import: ["": 17, "own": 1]>
main (float[N] x) => (float[N] y) { a = own.Twice(x)  y = Abs(a) }
<domain: "own", opset_import: ["": 17]> Twice (v) => (w) { n = Neg(v)  w = Sub(v, n) }"""


class TakesCalls(NumpyProvider):
    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [lambda inputs: [inputs[0] * 2] for _ in partitions]


LOST = TakesCalls(operators=["Twice"], group=lambda node: Capability([node], minimum=2))


@pytest.mark.parametrize(
    ("takers", "placed"),
    [([], ["Abs", "Neg", "Sub"]), ([TakesCalls(operators=["Twice"])], ["Abs", "Twice"]), ([LOST], ["Abs", "Neg", "Sub"])],
    ids=["nobody claims it", "somebody claims it", "lost while partitioning"],
)
def test_a_function_is_inlined_unless_somebody_runs_it(takers: list[NumpyProvider], placed: list[str]) -> None:
    made = ort_lite.InferenceSession(onnx.parser.parse_model(FUNCTIONS), providers=[*takers, CpuStandIn()])
    assert sorted(place.node.op_type for _, place in made.explain().assignment.rows()) == placed
    np.testing.assert_array_equal(made.run(None, {"x": X[0]})[0], np.abs(2 * X[0]))


class NoHalf(CpuStandIn):
    """Has no float16, but for Cast."""

    def __init__(self) -> None:
        super().__init__(self._fits, operators=("Abs", "Neg", "Cast"))

    @staticmethod
    def _fits(node: Node) -> bool:
        return node.op_type == "Cast" or all(value is None or value.dtype != "float16" for value in node.inputs)

    def supports_type(self, node: Node, dtype: str) -> bool:
        return dtype != "float16"

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [partial(self._run, partition) for partition in partitions]

    @staticmethod
    def _run(partition: Partition, inputs: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = dict(zip(partition.inputs, inputs, strict=True))
        for node in partition.nodes:
            run_node(node, values, None)
            values[node.output] = values[node.output].astype(node.output.dtype)
            assert node.op_type == "Cast" or values[node.output].dtype == np.float32
        return [values[value] for value in partition.outputs]


def test_a_node_that_nobody_takes_in_its_type_gets_casts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_provider, "FUNCTIONS", {**numpy_provider.FUNCTIONS, "Cast": np.array})
    made = session("(float16[N] x) => (float16[N] y) { a = Abs(x)  y = Neg(a) }", NoHalf())
    placed = [place.node.op_type for _, place in made.explain().assignment.rows()]
    assert placed == ["Cast", "Abs", "Neg", "Cast"]
    (y,) = made.run(None, {"x": X[0].astype(np.float16)})
    np.testing.assert_array_equal(y, -np.abs(X[0]).astype(np.float16))


@pytest.mark.parametrize(
    ("rounding", "dtype", "rounded"),
    [
        ("", "float16", False),
        ("regions", "float16", False),
        ("nodes", "float16", True),
        ("steps", "float16", True),
        ("", "bfloat16", True),
    ],
)
def test_what_is_rounded_between_such_nodes_may_be_asked_for(rounding: str, dtype: str, rounded: bool) -> None:
    options = ort_lite.SessionOptions()
    if rounding:
        options.add_session_config_entry("ort_lite.round_16_bit", rounding)
    made = session(f"({dtype}[N] x) => ({dtype}[N] y) {{ a = Exp(x)  y = Floor(a) }}", "CPUExecutionProvider", options=options)
    placed = [place.node.op_type for _, place in made.explain().assignment.rows()]
    assert placed == ["Cast", "Exp", *["Cast", "Cast"] * rounded, "Floor", "Cast"]
    if dtype != "float16":
        return
    x = np.linspace(-3, 9, 500, dtype=np.float16)
    exact = np.exp(x.astype(np.float32))
    wanted = np.floor(exact.astype(np.float16) if rounded else exact).astype(np.float16)
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], wanted)


def test_a_rounding_that_there_is_not_is_refused() -> None:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.round_16_bit", "never")
    with pytest.raises(InvalidArgument, match="round_16_bit is 'never'; it should be 'regions', 'nodes' or 'steps'"):
        session(SIMPLE, options=options)


# Explaining


class Counting(CpuStandIn):
    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [Counted(p) for p in partitions]


class Counted:
    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return evaluate(self.partition, inputs)

    def facts(self) -> dict[str, int | str]:
        return {"python_steps": len(self.partition.nodes), "kind": "counted"}


def test_explain_sums_the_python_steps_of_partitions() -> None:
    body = "<then_branch = t () => (float[N] u) { u = Neg(a) }, else_branch = e () => (float[N] v) { w = Abs(a) v = Neg(w) }>"
    made = session(f"(float[N] x, bool c) => (float[N] y) {{ a = Abs(x) y = If (c) {body} }}", Counting())
    explanation = made.explain()
    assert explanation.python_steps == 5
    assert "CPUExecutionProvider_0: python_steps 2, kind counted" in str(explanation)
    assert explanation.as_dict()["facts"]["CPUExecutionProvider_0"] == {"python_steps": 2, "kind": "counted"}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda: {"Abs_0": "fast"}, "kernels returned .*expected a KernelChoice by name of node"),
        (
            lambda: {"Abs_0": KernelChoice((), "fast", {})},
            "kernels returned no cost of 'fast', which is taken for node 'Abs_0'",
        ),
        (lambda: ["fast"], "kernels returned .*expected a Mapping"),
        (("fast",), "kernels failed: "),
    ],
)
def test_kernels_that_are_none_are_the_partitions_error(answer: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "kernels", staticmethod(answer) if callable(answer) else answer, raising=False)
    made = session("(float[N] x) => (float[N] y) { y = Abs(x) }", Counting())
    assert made.explain().kernels == {}
    with pytest.raises(ProviderError, match=f"CPUExecutionProvider_0: {message}"):
        made.explain(kernels=True)


def test_dimensions_that_exporters_write_for_unknown_are_shown_as_written() -> None:
    """And are different dimensions all the same."""
    dims = ["?", None, "-1", "None", "N", 3]
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    made = ort_lite.InferenceSession(model)
    installed = onnxruntime.InferenceSession(model.SerializeToString())
    assert made.get_inputs()[0].shape == installed.get_inputs()[0].shape == dims
    assert made.run(None, {"x": np.ones((1, 2, 1, 2, 1, 3), np.float32)})[0].shape == (1, 2, 1, 2, 1, 3)
