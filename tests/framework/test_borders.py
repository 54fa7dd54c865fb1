"""Borders between providers: what crosses them is looked at on both sides, and belongs to whoever it should."""

from typing import Any

import numpy as np
import pytest

import ort_lite
from tests.framework.models import proto


def make(text: str, *providers: Any, **config: str) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in config.items():
        options.add_session_config_entry(f"ort_lite.{key}", value)
    return ort_lite.InferenceSession(proto(f"main {text}"), options, providers=list(providers))


X = np.array([1, -2, 3], np.float32)


# The CPU provider's own borders: sizes that come with a sequence or an optional, shapes that are read later


class TestSizesOfWhatCrosses:
    @pytest.mark.parametrize(
        ("made", "taken"),
        [
            ("SequenceConstruct(c, c)", "SequenceAt(s, i)"),
            ("Optional(c)", "OptionalGetElement(s)"),
            ("Identity(o)", "SequenceAt(t, i)"),
        ],
    )
    @pytest.mark.parametrize("flag", [True, False])
    def test_a_body_that_captures_elements_of_a_computed_size(self, made: str, taken: str, flag: bool) -> None:
        inner = "t = OptionalGetElement(s)" if "t, i" in taken else ""
        session = make(
            f"""(float[N] x, bool f) => (float[K] y) {{
            c = Concat<axis = 0>(x, x)  l = SequenceConstruct(c, c)  o = Optional(l)  s = {made}
            y = If (f) <
                then_branch = p () => (float[A] q) {{ i = Constant<value_int = 1>()  {inner}  w = {taken}  q = Add(w, w) }},
                else_branch = e () => (float[B] r) {{ r = Neg(x) }}
            >
        }}"""
        )
        expected = np.concatenate([X, X]) * 2 if flag else -X
        np.testing.assert_array_equal(session.run(None, {"x": X, "f": np.array(flag)})[0], expected)

    @pytest.mark.parametrize("fusion", ["0", "1"])
    @pytest.mark.parametrize("use", ["y = Reshape(v, p)", "a = Reshape(v, p)  y = Neg(a)", "a = Reshape(v, p)  y = Abs(v)"])
    def test_a_shape_that_is_read_after_the_array_was_made(self, fusion: str, use: str) -> None:
        text = f"(float[N] x, int64[1] s) => (float[M] y) {{ n = Abs(s)  p = ReduceProd(n)  v = Neg(x)  {use} }}"
        session = make(text, fusion=fusion)
        expected = -X if use.startswith("y") else X if "Neg(a)" in use else np.abs(X)
        np.testing.assert_array_equal(session.run(None, {"x": X, "s": np.array([3])})[0], expected)
