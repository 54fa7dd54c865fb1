"""Workers of one host hold a model's weights once: the sum of their proportional set sizes says so."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from ort_lite_ray.host import share_weights

WORKERS, LAYERS, WIDTH = 8, 10, 1536
MEGABYTES = LAYERS * WIDTH * WIDTH * 4 / 1e6  # 94
WORKER = """
import sys
import numpy as np
from ort_lite_ray.scorer import Plan, Scorer
model, width, jobs = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
scorer = Scorer(model, Plan({"x0": "x"}, {"y": "y"}), *jobs)
scorer({"x": np.ones((4, width), np.float32)})
print("ready", flush=True)
sys.stdin.read()
"""


def write_model(path: Path, width: int, external: bool) -> None:
    """A chain of products, whose kernels want their weights packed."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.random((width, width), np.float32) / width, f"w{k}") for k in range(LAYERS)]
    names = [*(f"x{k}" for k in range(LAYERS)), "y"]
    nodes = [helper.make_node("MatMul", [names[k], f"w{k}"], [names[k + 1]]) for k in range(LAYERS)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width]) for name in ("x0", "y")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(made, path, save_as_external_data=external, location=f"{path.name}.data")


def proportional(command: Sequence[str]) -> float:
    """Megabytes of as many processes together, each page counted once."""
    processes = [
        subprocess.Popen([sys.executable, "-c", WORKER, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(WORKERS)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        texts = [Path(f"/proc/{process.pid}/smaps_rollup").read_text() for process in processes]
        return sum(int(text[text.index("Pss:") :].split()[1]) for text in texts) * 1024 / 1e6
    finally:
        for process in processes:
            process.communicate(timeout=120)


@pytest.mark.parametrize("external", [False, True], ids=["inside", "external"])
def test_eight_workers_hold_the_weights_once(external: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    write_model(tmp_path / "large.onnx", WIDTH, external)
    write_model(tmp_path / "small.onnx", 16, external)
    base = proportional([str(tmp_path / "small.onnx"), "16", "job"])
    together = proportional([str(tmp_path / "large.onnx"), str(WIDTH), "job"])
    assert 0.9 * MEGABYTES < together - base < 1.3 * MEGABYTES


def test_the_weights_of_jobs_without_workers_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    share = "import sys; from ort_lite_ray.host import share_weights; print(share_weights(sys.argv[1]))"
    run = [sys.executable, "-c", f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}; {share}"]
    left = Path(subprocess.run([*run, "over"], capture_output=True, text=True, check=True, timeout=240).stdout.strip())
    assert left.is_dir()
    mine = share_weights("mine")
    assert not left.exists()
    subprocess.run([*run, "third"], check=True, capture_output=True, timeout=240)
    assert mine.is_dir(), "this process holds it"
