"""TemplateExecutionProvider in a session, beside the CPU provider."""

import numpy as np
import onnx.parser
from ort_lite_template import TemplateExecutionProvider

import ort_lite

MODEL = "(float[N,3] x) => (float[N,3] y) { a = LeakyRelu<alpha = 0.5>(x)  b = Softmax(a)  y = Neg(b) }"


def test_it_runs_its_operators_and_says_why_not_the_others() -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> main {MODEL}')
    session = ort_lite.InferenceSession(model, providers=[TemplateExecutionProvider, "CPUExecutionProvider"])
    x = np.array([[1, -2, 3]], np.float32)
    powers = np.exp([[1, -1, 3]])
    np.testing.assert_allclose(session.run(None, {"x": x})[0], -powers / powers.sum(), rtol=1e-5)
    verdicts = session.explain().verdicts()
    assert {node: str(said[TemplateExecutionProvider.name]) for node, said in verdicts.items()} == {
        "LeakyRelu_0": "taken: TemplateExecutionProvider_0",
        "Softmax_0": "declined operator: no kernel for ai.onnx.Softmax",
        "Neg_0": "taken: TemplateExecutionProvider_1",
    }
