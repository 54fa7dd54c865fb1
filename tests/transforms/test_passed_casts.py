"""Casts of the model's own beside nodes of float16 that are computed in float32."""

import numpy as np
import onnx
import onnx.parser

import ort_lite

HEAD = '<ir_version: 10, opset_import: ["": 21]>'
RNG = np.random.default_rng(3)


def run(text: str, *feeds: object, **config: str) -> list[np.ndarray]:
    proto = onnx.parser.parse_model(f"{HEAD} main {text}")
    options = ort_lite.SessionOptions()
    for key, value in config.items():
        options.add_session_config_entry(f"ort_lite.{key}", value)
    session = ort_lite.InferenceSession(proto.SerializeToString(), options)
    results: list[np.ndarray] = session.run(
        None, {arg.name: feed for arg, feed in zip(session.get_inputs(), feeds, strict=True)}
    )
    return results


A, B = (RNG.uniform(-1, 1, 4096).astype(np.float16) for _ in range(2))
EXACT = A.astype(np.float64) + B


def test_a_cast_behind_reads_what_was_not_rounded() -> None:
    text = "(float16[N] a, float16[N] b) => (float[N] y) { s = Add(a, b)  y0 = Cast<to = 1>(s)  y = Neg(y0) }"
    np.testing.assert_allclose(run(text, A, B)[0], -EXACT, rtol=1e-6, atol=1e-7)
    rounded = -(EXACT.astype(np.float16)).astype(np.float32)
    np.testing.assert_array_equal(run(text, A, B, round_16_bit="nodes")[0], rounded)


def test_a_cast_whose_result_the_model_returns_reads_what_was_not_rounded() -> None:
    text = "(float16[N] a, float16[N] b) => (float[N] y, float[N] z) { s = Add(a, b)  y = Cast<to = 1>(s)  z = Neg(y) }"
    y, z = run(text, A, B)
    np.testing.assert_allclose(y, EXACT, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(z, -y)


def test_a_cast_in_front_is_passed_by() -> None:
    text = "(float[N] a, float16[N] b) => (float16[N] y) { h = Cast<to = 10>(a)  y = Add(h, b) }"
    wide = RNG.uniform(-1, 1, 4096).astype(np.float32)
    np.testing.assert_array_equal(run(text, wide, B)[0], (wide + B.astype(np.float32)).astype(np.float16))


def test_what_others_read_is_rounded() -> None:
    text = """(float[N] a, float16[N] b) => (float16[N] h, float16[N] s, float[N] y) {
        h = Cast<to = 10>(a)  s = Add(h, b)  y = Cast<to = 1>(s) }"""
    wide = RNG.uniform(-1, 1, 64).astype(np.float32)
    h, s, y = run(text, wide, B[:64])
    np.testing.assert_array_equal(h, wide.astype(np.float16))
    np.testing.assert_array_equal(s, (wide + B[:64].astype(np.float32)).astype(np.float16))
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, s, atol=1e-3)


def test_bfloat16_is_rounded_where_the_model_says() -> None:
    import ml_dtypes

    text = "(bfloat16[N] a, bfloat16[N] b) => (float[N] y) { s = Add(a, b)  y = Cast<to = 1>(s) }"
    a, b = (x.astype(ml_dtypes.bfloat16) for x in (A, B))
    np.testing.assert_array_equal(run(text, a, b)[0], (a + b).astype(np.float32))
