"""Dimensions of `get_outputs()` compared with onnxruntime: names that a model declares against numbers that inference finds."""

from collections.abc import Callable

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument

Shapes = list[list[int | str | None]]

CPU = ["CPUExecutionProvider"]
HEADER = '<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]>'

NUMBERS = {
    "Relu": "(float[N,3] x) => (float[A,B] y) { y = Relu(x) }",
    "MatMul": "(float[N,3] x) => (float[A,B] y) <float[3,1] w = {1, 2, 3}> { y = MatMul(x, w) }",
    "Reshape": "(float[N,3] x, float[2,3] v) => (float[A,B] y) { s = Shape(v) y = Reshape(x, s) }",
    "Tile": "(float[N,3] x) => (float[A,B] y) <int64[2] w = {1, 2}> { y = Tile(x, w) }",
    "Pad": "(float[N,3] x) => (float[A,B] y) <int64[4] w = {0, 1, 0, 1}> { y = Pad(x, w) }",
    "Resize": '(float[N,3] x) => (float[A,B] y) <float[2] w = {1, 2}> { y = Resize<mode = "nearest">(x, , w) }',
    "If": """(float[N,3] x, bool b) => (float[A,B] y) { y = If(b) <
        then_branch = t () => (float[C,D] p) { p = Neg(x) }, else_branch = e () => (float[C,D] q) { q = Abs(x) }> }""",
}
RESIZE = """(float[N,3,H,W] x) => (float[A,Resizeout_dim_1,C,D] out) <float[2,3,1,1] w = {1, 2, 3, 4, 5, 6}> {
    y = Conv(x, w) channels = Shape<end = 2>(y) image = Shape<start = 2>(x) sizes = Concat<axis = 0>(channels, image)
    out = Resize<mode = "linear">(y, , , sizes) }"""


def model(text: str) -> bytes:
    data: bytes = onnx.parser.parse_model(f"{HEADER} g {text}").SerializeToString()
    return data


def attention(past: str, present: str, query: str = "B,S,32", total: str = "") -> bytes:
    """GroupQueryAttention of 4 heads, 2 of them of keys and values, of size 8."""
    caches = f", float[{past}] past_k, float[{past}] past_v" if past else ""
    names = "past_k, past_v" if past else ","
    constant = f"<int32 total = {{{total}}}>" if total else ""
    feed = "" if total else ", int32 total"
    return model(
        f"(float[{query}] q, float[B,S,16] k, float[B,S,16] v, int32[B] lengths{feed}{caches}) => "
        f"(float[B,S,32] y, float[{present}] present_k, float[{present}] present_v) {constant} {{ y, present_k, present_v = "
        f"com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(q, k, v, {names}, lengths, total) }}"
    )


def many_heads(past: str, present: str) -> bytes:
    """MultiHeadAttention of 2 heads of size 8."""
    return model(
        f"(float[B,S,16] q, float[B,S,16] k, float[B,S,16] v, float[{past}] past_k, float[{past}] past_v) => "
        f"(float[B,S,16] y, float[{present}] present_k, float[{present}] present_v) {{ y, present_k, present_v = "
        f"com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, v, , , , past_k, past_v) }}"
    )


def oracle(data: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=CPU)


def shapes(data: bytes) -> tuple[Shapes, Shapes]:
    ours, theirs = ort_lite.InferenceSession(data, providers=CPU), oracle(data)
    return [arg.shape for arg in ours.get_outputs()], [arg.shape for arg in theirs.get_outputs()]


@pytest.mark.parametrize("text", NUMBERS.values(), ids=NUMBERS)
def test_an_inferred_number_replaces_a_declared_name(text: str) -> None:
    ours, theirs = shapes(model(text))
    assert ours == theirs
    assert isinstance(ours[0][1], int)


@pytest.mark.parametrize("total", ["", "12"], ids=["open", "12"])
@pytest.mark.parametrize("present", ["B,2,T,E", "A,K,T,D", "?,?,?,?"])
@pytest.mark.parametrize("past", ["B,2,P,8", "B,2,P,D", "B,K,P,8", "C,2,P,8", "B,2,10,8", "1,2,10,8", "?,?,?,?", ""])
def test_caches_have_the_dimensions_of_their_past(past: str, present: str, total: str) -> None:
    ours, theirs = shapes(attention(past, present, total=total))
    assert ours == theirs


@pytest.mark.parametrize("present", ["B,2,T,E", "B,2,T,D"])
def test_many_heads_keep_the_name_of_the_head_size_of_their_past(present: str) -> None:
    ours, theirs = shapes(many_heads("B,2,P,D", present))
    assert ours == theirs


def test_the_head_size_of_a_past_is_that_of_its_cache() -> None:
    ours, theirs = shapes(attention("B,2,P,8", "B,2,T,E", query="B,S,H"))
    assert ours == theirs
    assert ours[1] == ["B", 2, "T", 8]


def feeds_for(data: bytes, head_size: int = 8) -> dict[str, Array]:
    """Three new rows behind a past of five."""
    rng = np.random.default_rng(0)
    sizes = {"B": 1, "S": 3, "P": 5, "D": head_size}
    numbers: dict[str, Array] = {"lengths": np.array([7], np.int32), "total": np.array(8, np.int32)}
    return {
        arg.name: numbers.get(arg.name, rng.standard_normal([sizes.get(dim, dim) for dim in arg.shape], np.float32))
        for arg in oracle(data).get_inputs()
    }


@pytest.mark.parametrize("attend", [attention, many_heads])
def test_a_cache_with_a_named_head_size_is_computed(attend: Callable[[str, str], bytes]) -> None:
    data = attend("B,2,P,D", "B,2,T,D")
    feeds = feeds_for(data)
    results = ort_lite.InferenceSession(data, providers=CPU).run(None, feeds)
    for result, expected in zip(results, oracle(data).run(None, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("attend", [attention, many_heads])
def test_a_past_of_another_head_size_is_refused(attend: Callable[[str, str], bytes]) -> None:
    data = attend("B,2,P,D", "B,2,T,D")
    session = ort_lite.InferenceSession(data, providers=CPU)
    with pytest.raises(
        InvalidArgument, match=r"not go with what is new: 7 (against|and) 8|14, dimension 3 of input 6 \(past_key"
    ):
        session.run(None, feeds_for(data, head_size=7))


@pytest.mark.parametrize("tail", ["out = Identity(r)", "out = Relu(r)", "t = Transpose(r) out = Transpose(t)"])
def test_a_size_beside_open_ones_leaves_the_declared_name(tail: str) -> None:
    """onnxruntime reads the sizes of a Resize only if it knows all of them."""
    ours, theirs = shapes(model(RESIZE.replace("out = Resize", "r = Resize").replace("sizes) }", f"sizes) {tail} }}")))
    assert ours == theirs == [["A", "Resizeout_dim_1", "C", "D"]]


def test_sizes_that_are_all_known_replace_declared_names() -> None:
    ours, theirs = shapes(model(RESIZE.replace("float[N,3,H,W] x", "float[2,3,8,8] x")))
    assert ours == theirs == [[2, 2, 8, 8]]


def test_a_session_computes_the_size_that_it_does_not_show() -> None:
    [out] = ort_lite.InferenceSession(model(RESIZE)).run(None, {"x": np.ones((1, 3, 4, 5), np.float32)})
    assert out.shape == (1, 2, 4, 5)
