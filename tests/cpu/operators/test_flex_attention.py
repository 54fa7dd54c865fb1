"""FlexAttention in whole models: its graphs are compiled as bodies."""

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from tests.cpu.check import assert_close, ramp, run_op

SCORES = "score_mod = s (float[B,H,L,S] x) => (float[B,H,L,S] y) { y = Mul(x, factor) }"
PROBABILITIES = "prob_mod = p (float[B,H,L,S] x) => (float[B,H,L,S] y) { two = Constant<value_float=2.0>() y = Div(x, two) }"
DOUBLES = "softmax_precision = 11, score_mod = s (double[B,H,L,S] x) => (double[B,H,L,S] y) { y = Neg(x) }"
UNTYPED = "score_mod = s (x) => (y) { y = Tanh(x) }"


def check(attributes: str, q: Array, k: Array, v: Array, tolerance: float = 2e-5) -> None:
    """Against onnx.reference; `factor` is a value outside of the graphs."""
    kind = "float" if q.dtype == np.float32 else "double"
    text = f"""<ir_version: 13, opset_import: ["" : 26, "ai.onnx.preview" : 1]>
    main ({kind}[B,H,L,E] q, {kind}[B,G,S,E] k, {kind}[B,G,S,F] v, float f) => ({kind}[B,H,L,F] y) {{
        factor = Neg(f)
        y = ai.onnx.preview.FlexAttention {attributes and f"<{attributes}>"} (q, k, v)
    }}"""
    model = onnx.parser.parse_model(text)
    feeds = {"q": q, "k": k, "v": v, "f": np.array(-1.5, np.float32)}
    session = ort_lite.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    [got], [again] = session.run(None, feeds), session.run(None, feeds)
    np.testing.assert_array_equal(got, again)
    if "factor" in attributes:  # the reference's graphs see nothing outside
        inner = "Constant<value_float=1.5>() y = Mul(x, factor) "
        model = onnx.parser.parse_model(text.replace("y = Mul(x, factor) ", f"factor = {inner}"))
    [want] = ReferenceEvaluator(model).run(None, feeds)
    assert_close(got, np.asarray(want), tolerance, tolerance, attributes)


@pytest.mark.parametrize("heads", [(2, 2), (6, 2)], ids=str)
@pytest.mark.parametrize(
    "attributes", ["", "scale = 0.3", SCORES, PROBABILITIES, f"{SCORES}, {PROBABILITIES}", DOUBLES, UNTYPED]
)
def test_graphs_change_scores_and_probabilities(attributes: str, heads: tuple[int, int]) -> None:
    check(attributes, ramp((2, heads[0], 5, 4)), ramp((2, heads[1], 7, 4)), ramp((2, heads[1], 7, 3)))


def test_doubles() -> None:
    check("scale = 0.25", ramp((2, 2, 5, 4), "float64"), ramp((2, 2, 7, 4), "float64"), ramp((2, 2, 7, 3), "float64"), 1e-12)


@pytest.mark.parametrize("attributes", ["", SCORES])
@pytest.mark.parametrize(
    ("k", "v", "message"),
    [
        ((2, 2, 7, 4), (2, 2, 7, 3), "3 query heads cannot share 2"),
        ((2, 3, 7, 4), (2, 3, 6, 3), "V, .* is 6, but S is 7"),
        ((2, 3, 7, 5), (2, 3, 7, 3), "K, .* is 5, but E is 4"),
    ],
)
def test_heads_that_do_not_fit_are_refused(attributes: str, k: tuple[int, ...], v: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        check(attributes, ramp((2, 3, 5, 4)), ramp(k), ramp(v))


def test_queries_of_rank_five_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"Q, .* has rank 5"):
        run_op("FlexAttention", [ramp((1, 1, 2, 3, 4))] * 3, {}, opset=1, domain="ai.onnx.preview")
