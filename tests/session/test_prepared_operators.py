"""Prepared programs of every operator: functions of their steps and of their packed constants must refer to what can be stored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import OrtLiteError
from ort_lite.testing.generated import Cases, GeneratedCase
from tests.session.prepared_sessions import equal, found, session, store_in, stored

CASES = Cases()
DOMAINS = sorted({domain for domain, _ in CASES.operators})
NUMBERS = range(4)
"""The models of each operator: of the second one, all operands are constants; of the third one, none is."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return store_in(tmp_path / "programs", monkeypatch)


def cases(domain: str) -> list[GeneratedCase]:
    targets = [CASES.usual(*one)[0] for one in CASES.operators if one[0] == domain]
    drawn = (CASES.alone("attributes", target, number) for target in targets for number in NUMBERS)
    return [case for case in drawn if case is not None]


def outcome(made: Any, feeds: Mapping[str, Any]) -> Any:
    try:
        return made.run(None, feeds)
    except OrtLiteError as error:
        return str(error)


def alike(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(alike, left, right))
    if isinstance(left, np.ndarray) and left.dtype.hasobject:
        return bool(left.shape == right.shape and left.tolist() == right.tolist())
    return equal(left, right)


def check(data: bytes, feeds: Mapping[str, Any]) -> str:
    """Return what is wrong with the program of a model, or nothing."""
    first = session(data)
    if found(first) != "yes" and stored(first) != "yes":
        return f"stored: {stored(first)}"
    second = session(data)
    if found(second) != "yes":
        return f"found: {found(second)}"
    return "" if alike(outcome(first, feeds), outcome(second, feeds)) else "another result"


@pytest.mark.parametrize("domain", DOMAINS)
def test_programs_of_all_operators_are_stored(domain: str) -> None:
    wrong, invalid, count = {}, 0, 0
    for case in cases(domain):
        count += 1
        try:
            wrong[case.name] = check(case.model.SerializeToString(), next(iter(case.feeds)))
        except OrtLiteError:
            invalid += 1  # the operator is invalid in this form: nothing is there to store
    assert invalid < count / 2
    assert not {name: why for name, why in wrong.items() if why}


def zip_map(count: int) -> bytes:
    text = '<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 5]> main (float[N, C] x) => (y) { y = ai.onnx.ml.ZipMap(x) }'
    made = onnx.parser.parse_model(text)
    made.graph.node[0].attribute.append(onnx.helper.make_attribute("classlabels_int64s", [*range(count)][::-1]))
    made.graph.output[0].type.CopyFrom(
        onnx.helper.make_sequence_type_proto(
            onnx.helper.make_map_type_proto(onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(1, []))
        )
    )
    data: bytes = made.SerializeToString()
    return data


@pytest.mark.parametrize("count", [1, 3, 32, 33])
def test_maps_of_few_and_of_many_labels(count: int) -> None:
    x: Array = np.arange(2 * count, dtype=np.float32).reshape(2, count)
    assert not check(zip_map(count), {"x": x})


TEXTS = """<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 4, "com.microsoft": 1]>
main (string[N] x) => (%s) { %s }"""
LONG = np.array([f"text {k} Straße" for k in range(100)], object)
"""More texts than `lookup.MANY`."""


@pytest.mark.parametrize(
    ("output", "node"),
    [
        ("string[N] y", 'y = StringNormalizer<case_change_action="LOWER", locale="C">(x)'),
        ("string[N] y", 'y = StringNormalizer<case_change_action="UPPER", stopwords=["text 3 straße"]>(x)'),
        ("string[N] y", "y = StringNormalizer(x)"),
        ("bool[N] y", 'y = RegexFullMatch<pattern="(?i)TEXT [0-4]+ .*">(x)'),
        ("string[N, M] y", 'y = com.microsoft.Tokenizer<mark=0, pad_value="", separators=[" ", "e+"], mincharnum=1>(x)'),
        ("int64[N] y", 'y = ai.onnx.ml.LabelEncoder<keys_strings=["text 1 Straße", "b"], values_int64s=[4, 7]>(x)'),
    ],
)
def test_steps_of_texts(output: str, node: str) -> None:
    data = onnx.parser.parse_model(TEXTS % (output, node)).SerializeToString()
    assert not check(data, {"x": LONG})
    assert not check(data, {"x": LONG[:2]})


def test_a_stream_of_words_is_read_again() -> None:
    node = """t = com.microsoft.Tokenizer<mark=0, pad_value="", tokenexp="[a-z]+", mincharnum=1>(x)
        y = TfIdfVectorizer<max_gram_length=1, max_skip_count=0, min_gram_length=1, mode="TF", ngram_counts=[0],
                            ngram_indexes=[0, 1], pool_strings=["text", "tra"]>(t)"""
    data = onnx.parser.parse_model(TEXTS % ("float[N, 2] y", node)).SerializeToString()
    assert not check(data, {"x": LONG})
    assert session(data).run(None, {"x": LONG})[0].any()


def test_loops_without_a_program_of_their_own_are_steps() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> main (int64 trips, float[N] x) => (float[M] y, float[K, M] rows) {
        y, rows = Loop(trips, , x)<body=turn (int64 i, bool going, float[A] before) => (bool on, float[B] after, float[B] row) {
            on = Identity(going) after = Concat<axis=0>(before, before) row = Identity(before) }>
    }"""
    data = onnx.parser.parse_model(
        text.replace("Loop(trips, , x)<", "Loop<").replace("}>\n", "}>(trips, , x)\n")
    ).SerializeToString()
    for trips in (0, 1):
        assert not check(data, {"trips": np.array(trips), "x": np.ones(3, np.float32)})
