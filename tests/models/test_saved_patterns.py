"""Saved models keep the patterns that onnxruntime's Python fusions match: the fused operators are the same as with onnxruntime."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.transformers.optimizer import optimize_by_fusion

import ort_lite

FOLDER = Path(__file__).parent.parent / "data" / "transformers"
CPU = ["CPUExecutionProvider"]
BASIC = ["ConstantSharing"]
EXTENDED = ["MatMulScaleFusion", "MatMulAddFusion", "MatmulTransposeFusion", "GemmActivationFusion", "BiasSoftmaxFusion"]
LEVELS = [("ORT_ENABLE_BASIC", BASIC), ("ORT_ENABLE_EXTENDED", BASIC + EXTENDED)]
"""As onnxruntime.transformers.optimizer.optimize_model sets them, with the optimizers that it disables."""
KINDS = {"bert": "bert", "gpt2": "gpt2", "vit": "vit", "t5_encoder": "t5", "t5_decoder": "t5"}


def saved(runtime: Any, name: str, level: str, disabled: list[str], path: Path) -> onnx.ModelProto:
    """The model that a session of the runtime saves."""
    options = runtime.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.log_severity_level = 3
    runtime.InferenceSession(FOLDER / f"{name}.onnx", options, providers=CPU, disabled_optimizers=disabled)
    return onnx.load(path)


def fused(model: onnx.ModelProto, name: str) -> tuple[onnx.ModelProto, Counter[str]]:
    """The model after onnxruntime's Python fusions, and how many fused operators it has of each kind."""
    made = optimize_by_fusion(model, KINDS[name], num_heads=4, hidden_size=16).model
    standard = {schema.name for schema in onnx.defs.get_all_schemas()} - {"Attention", "LayerNormalization", "Gelu"}
    return made, Counter(node.op_type for node in made.graph.node if node.op_type not in standard)


def feeds(model: onnx.ModelProto) -> dict[str, Any]:
    """Ones for masks, and small numbers."""
    random, sizes = np.random.default_rng(0), {"num_channels": 3, "height": 16, "width": 16}
    out: dict[str, Any] = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [dim.dim_value or sizes.get(dim.dim_param, 2 if "batch" in dim.dim_param else 5) for dim in dims]
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            out[value.name] = random.standard_normal(shape).astype(np.float32)
        else:
            out[value.name] = random.integers(0, 20, shape) if value.name == "input_ids" else np.ones(shape, np.int64)
    return out


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("level", "disabled"), LEVELS)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.slow
def test_fusions_find_in_saved_models_what_they_find_in_those_of_onnxruntime(
    name: str, level: str, disabled: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, expected = fused(saved(onnxruntime, name, level, disabled, tmp_path / "theirs.onnx"), name)
    caplog.clear()
    ours = saved(ort_lite, name, level, disabled, tmp_path / "ours.onnx")
    assert not caplog.messages
    made, found = fused(ours, name)
    assert found == expected and found
    if name.startswith("t5"):  # onnxruntime's CPU provider does not run RelativePositionBias
        return
    given = onnx.load(FOLDER / f"{name}.onnx")
    theirs, own = (onnxruntime.InferenceSession(m.SerializeToString(), providers=CPU) for m in (given, made))
    for got, want in zip(own.run(None, feeds(given)), theirs.run(None, feeds(given)), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-4)


def test_a_saved_model_has_a_number_or_a_name_for_each_dimension(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,1,H,W] x) => (float[N,1,P,W] y) <float[1,1,2,1] w = {1, 1}>
        { a = Conv<strides=[2,1]>(x, w) b = Relu(a) y = Resize(b, , scales) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 1, 1.5, 1], np.float32), "scales"))
    options = ort_lite.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    ort_lite.InferenceSession(model.SerializeToString(), options, providers=CPU)
    graph = onnx.load(tmp_path / "saved.onnx").graph
    shapes = {
        v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*graph.value_info, *graph.output)
    }
    assert shapes == {"a": ["N", 1, "unk__0", "W"], "b": ["N", 1, "unk__0", "W"], "y": ["N", 1, "P", "W"]}


@pytest.mark.parametrize("name", KINDS)
def test_inputs_and_outputs_are_described_as_in_onnxruntime(name: str) -> None:
    sessions = [runtime.InferenceSession(FOLDER / f"{name}.onnx", providers=CPU) for runtime in (onnxruntime, ort_lite)]
    theirs, ours = ([(arg.name, arg.type, arg.shape) for arg in (*s.get_inputs(), *s.get_outputs())] for s in sessions)
    assert ours == theirs
