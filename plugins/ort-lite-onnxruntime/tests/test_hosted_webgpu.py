"""WebGPU's execution provider for onnxruntime, hosted. Without a GPU it runs on a software driver of Vulkan, if there is one."""

import json
import os
import subprocess
import sys

PROGRAM = """
import json, numpy, onnx.parser, ort_lite
NAME = "WebGpuExecutionProvider@onnxruntime"
text = "(float[1,8,6,6] x, float[4,8,3,3] w) => (float[1,4,4,4] y) { c = Conv(x, w)  y = Relu(c) }"
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> main ' + text)
try:
    session = ort_lite.InferenceSession(model, providers=[NAME, "CPUExecutionProvider"])
except ort_lite.errors.ProviderError as error:
    print(json.dumps({"error": str(error)}))
else:
    cpu = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"])
    rng = numpy.random.default_rng(0)
    feeds = {"x": rng.standard_normal((1, 8, 6, 6), "f"), "w": rng.standard_normal((4, 8, 3, 3), "f")}
    (got,), (expected,) = session.run(None, feeds), cpu.run(None, feeds)
    providers = [partition.provider.name for partition in session.explain().assignment.partitions]
    print(json.dumps({"providers": providers, "difference": float(abs(got - expected).max())}))
"""


def test_it_runs_or_says_that_there_is_no_adapter() -> None:
    environment = {**os.environ, "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=240, env=environment
    )
    outcome = json.loads(done.stdout.splitlines()[-1])
    if "error" in outcome:
        assert "Failed to get a WebGPU adapter" in outcome["error"]
    else:
        assert outcome["providers"] == ["WebGpuExecutionProvider@onnxruntime"]
        assert outcome["difference"] < 1e-4
