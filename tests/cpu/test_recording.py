"""A profile of the CPU provider: an event an instruction, named after its node."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite_cpu.lowering.lowered import HostStep
from ort_lite_cpu.program.program import Program
from ort_lite_cpu.program.segment_run import SegmentRun
from tests.models.light_models import randomised

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
main (float[N,4] x, bool c) => (float[M,L] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}> {
    [product] p = MatMul(x, w)
    [soft] s = Softmax<axis=-1>(p)
    [choice] y = If (c) <
        then_branch = a () => (float[M,L] t) { [twice] t = Add(s, s) },
        else_branch = b () => (float[M,L] e) { [turned] e = Transpose(s) }
    >
}"""


def events(model: Any, tmp_path: Path, feeds: dict[str, Any], runs: int, **options: Any) -> list[dict[str, Any]]:
    chosen = ort_lite.SessionOptions()
    chosen.enable_profiling, chosen.profile_file_prefix = True, str(tmp_path / "profile")
    for name, value in options.items():
        setattr(chosen, name, value)
    session = ort_lite.InferenceSession(model, chosen, providers=["CPUExecutionProvider"])
    for _ in range(runs):
        session.run(None, feeds)
    found: list[dict[str, Any]] = json.loads(Path(session.end_profiling()).read_text())
    session.run(None, feeds)  # after the end nothing is kept
    assert session.end_profiling() == ""
    return found


def test_every_instruction_is_an_event_of_its_node(tmp_path: Path) -> None:
    feeds = {"x": np.ones((5, 4), np.float32), "c": np.array(True)}
    found = [e for e in events(onnx.parser.parse_model(TEXT), tmp_path, feeds, 2) if e["cat"] == "Kernel"]
    assert [e["name"] for e in found] == ["product", "soft", "choice", "twice"] * 2
    product, soft, choice, twice = (e["args"] for e in found[:4])
    assert (product["op_name"], product["shapes"].count("[5, 4]"), product["parts"]) == ("MatMul", 1, "1")
    assert product["kernel"].startswith("gemm<f32")
    assert (soft["op_name"], soft["shapes"]) == ("Softmax", "float32[5, 3], float32[5, 3]")
    assert soft["bytes"] == str(2 * 5 * 3 * 4)
    assert twice["op_name"] == "Add"
    assert (choice["op_name"], choice["kernel"]) == ("If", "control flow")
    assert {e["args"]["provider"] for e in found} == {"CPUExecutionProvider"}


def test_the_events_add_up_to_the_partition(tmp_path: Path) -> None:
    """But for a fifth at most in the quietest run: between two instructions are the recording and other work of the machine."""
    model = randomised("squeezenet")
    session = ort_lite.InferenceSession(model)
    feeds = {arg.name: np.ones([d if isinstance(d, int) else 1 for d in arg.shape], np.float32) for arg in session.get_inputs()}
    found = events(model, tmp_path, feeds, 4)
    shares = []
    for run in (e for e in found if e["cat"] == "Step"):
        inside = [e for e in found if e["cat"] == "Kernel" and run["ts"] <= e["ts"] < run["ts"] + run["dur"]]
        shares.append(sum(e["dur"] for e in inside) / run["dur"])
    assert len(shares) == 4
    assert 0.8 < max(shares) <= 1


@pytest.mark.parametrize(
    ("rows", "threads", "parts"), [(1, 2, "2"), (16, 2, "2"), (512, 1, "1"), (512, 2, "8"), (512, 3, "12"), (2048, 20, "40")]
)
def test_large_products_have_several_parts_for_each_thread(tmp_path: Path, rows: int, threads: int, parts: str) -> None:
    w = onnx.numpy_helper.from_array(np.full((512, 512), 0.1, np.float32), "w")
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> main (float[{rows},512] x) => (float y) {{ y = MatMul(x, w) }}'
    )
    model.graph.initializer.append(w)
    feeds = {"x": np.ones((rows, 512), np.float32)}
    found = events(model, tmp_path, feeds, 1, intra_op_num_threads=threads)
    assert [e["args"]["parts"] for e in found if e["cat"] == "Kernel"] == [parts]


def test_products_that_pack_their_operand_in_each_part_have_one_for_each_thread(tmp_path: Path) -> None:
    x = np.ones((512, 512), np.float32)
    text = (
        '<ir_version: 10, opset_import: ["" : 21]> main (float[512,512] x, float[512,512] w) => (float y) { y = MatMul(x, w) }'
    )
    found = events(onnx.parser.parse_model(text), tmp_path, {"x": x, "w": x}, 1, intra_op_num_threads=2)
    assert [e["args"]["parts"] for e in found if e["cat"] == "Kernel"] == ["2"]


def test_without_profiling_nothing_is_recorded() -> None:
    session = ort_lite.InferenceSession(onnx.parser.parse_model(TEXT))
    programs = [p for p in session._stage_results.compiled.partitions.values() if isinstance(p, Program)]
    assert {type(step) for program in programs for step in program.steps} == {SegmentRun, HostStep}
