"""Tables with columns of numbers and of texts, as scikit-learn's column transformers read them: steps for texts, then one segment."""

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite_cpu.program.program import Program
from tests.cpu.check import ramp, text_program

NAMES = ["b", "a", "é", ""]
ROWS = [0, 1, 3, 200]

ONE_HOT = """(float[N,1] n, string[A,1] s, float[N,1] m, string[B,1] t) => (float[N,W] y)
    <int64[2] shape = {-1, 6}> {
    numbers = Concat<axis = 1>(n, m)
    p = ai.onnx.ml.OneHotEncoder<cats_strings = ["b", "a", "é", ""], zeros = 1>(s)
    scaled = ai.onnx.ml.Scaler<offset = [1.0, 0.0], scale = [1.0, 2.0]>(numbers)
    q = ai.onnx.ml.OneHotEncoder<cats_strings = ["a", "b"], zeros = 1>(t)
    pq = Concat<axis = -1>(p, q)
    texts = Reshape(pq, shape)
    y = Concat<axis = 1>(scaled, texts) }"""

ORDINAL = """(string[N,3] x) => (float[N,2] y)
    <int64 first = {0}, int64[1] last = {2}, int64[2] shape = {-1, 1}, string[N,1] s, string[N,1] t> {
    s = ai.onnx.ml.ArrayFeatureExtractor(x, first)
    t = ai.onnx.ml.ArrayFeatureExtractor(x, last)
    p = ai.onnx.ml.LabelEncoder<keys_strings = ["b", "a", "é", ""], values_int64s = [0, 1, 2, 3], default_int64 = 9>(s)
    q = ai.onnx.ml.LabelEncoder<keys_strings = ["b", "a", "é", ""], values_int64s = [0, 1, 2, 3], default_int64 = 9>(t)
    r = Reshape(p, shape)
    pq = Concat<axis = 1>(r, q)
    y = Cast<to = 1>(pq) }"""

RENAMED = """(string[N,2] x) => (int64[M] y) <int64[1] flat = {-1}, string[M] r, string[M] z, string[M] lower> {
    r = Reshape(x, flat)
    lower = StringNormalizer<case_change_action = "LOWER", locale = "C">(r)
    z = ai.onnx.ml.LabelEncoder<keys_strings = ["b", "c"], values_strings = ["a", "A"], default_string = "é">(lower)
    y = ai.onnx.ml.LabelEncoder<keys_strings = ["b", "a", "é", ""], values_int64s = [0, 1, 2, 3], default_int64 = 9>(z) }"""


def column(rows: int, *texts: str) -> Array:
    return np.resize(np.array([*NAMES, "unseen", *texts], object), (rows, 1))


def hot(x: Array, names: list[str]) -> Array:
    made: Array = (x == np.array(names, object)).astype(np.float32)
    return made


def steps(program: Program) -> tuple[int, int]:
    facts = program.facts()
    return int(facts["python_steps"]), int(facts["segments"])


@pytest.mark.parametrize("rows", ROWS)
def test_columns_of_texts_become_rows_of_ones(rows: int) -> None:
    program = text_program(ONE_HOT)
    n, m, s, t = ramp((rows, 1)), ramp((rows, 1)), column(rows), column(rows, "a", "b")
    [y] = program([n, s, m, t])
    np.testing.assert_array_equal(y, np.concatenate([n - 1, m * 2, hot(s, NAMES), hot(t, ["a", "b"])], 1))
    assert steps(program) == (2, 1)


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="dimensions of its inputs differ"):
        text_program(ONE_HOT)([ramp((3, 1)), column(2), ramp((3, 1)), column(3)])


@pytest.mark.parametrize("rows", ROWS)
def test_columns_of_a_table_of_texts_become_numbers(rows: int) -> None:
    program = text_program(ORDINAL)
    x = np.concatenate([column(rows), column(rows, "b"), column(rows, "a", "a")], 1)
    numbers = {name: k for k, name in enumerate(NAMES)}
    wanted = [[numbers.get(row[k], 9) for k in (0, 2)] for row in x.tolist()]
    np.testing.assert_array_equal(program([x])[0], np.array(wanted, np.float32).reshape(rows, 2))
    assert steps(program) == (2, 1)


@pytest.mark.parametrize("rows", ROWS)
def test_texts_become_texts_become_numbers(rows: int) -> None:
    program = text_program(RENAMED)
    x = np.resize(np.array(["B", "b", "C", "c", "", "x", "É"], object), (rows, 2))
    wanted = [{"b": 1, "c": 9}.get(text.lower(), 2) for text in x.reshape(-1)]
    np.testing.assert_array_equal(program([x])[0], np.array(wanted, np.int64))
    assert steps(program) == (1, 0)


def test_a_column_that_is_an_output_is_the_callers() -> None:
    program = text_program("""(string[N,2] x) => (string[N,1] y, string[N,2] z) <int64[1] k = {1}> {
        y = ai.onnx.ml.ArrayFeatureExtractor(x, k) z = Identity(x) }""")
    x = np.array([["a", "b"], ["c", "d"]], object)
    y, _ = program([x])
    assert y.tolist() == [["b"], ["d"]]
    y[:] = ""
    assert x.tolist() == [["a", "b"], ["c", "d"]]


def test_a_step_stays_behind_what_it_reads() -> None:
    program = text_program("""(float[N] x, string[N] s) => (string[N] y, int64[N] z) <float[N] d, float[N] e, string[N] f> {
        d = Add(x, x) f = Cast<to = 8>(d) e = Mul(d, x) y = StringConcat(f, s) g = Cast<to = 7>(e)
        h = ai.onnx.ml.LabelEncoder<keys_strings = ["a"], values_int64s = [5]>(s) z = Add(g, h) }""")
    y, z = program([np.array([1, 2], np.float32), np.array(["a", "b"], object)])
    assert (y.tolist(), z.tolist()) == (["2a", "4b"], [7, 7])
