"""Operators on text."""

from typing import Any

import numpy as np
import onnx.parser
import pytest

from ort_lite import InferenceSession
from ort_lite.dtypes import Array
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.errors import RuntimeException
from ort_lite_cpu.operators.text import _BECOME_ASCII
from tests.cpu.check import check_op, run_op


def words(*texts: Any) -> Array:
    return np.array(texts, object)


def test_a_view_of_texts_that_another_node_has_read_leaves_them_there() -> None:
    text = """<ir_version: 10, opset_import: ["": 9]> main (string x) => (string[1,2] y, string[1] z) {
        a = Flatten<axis = 0>(x) y = Concat<axis = 1>(a, a) z = Squeeze<axes = [0]>(a) }"""
    y, z = InferenceSession(onnx.parser.parse_model(text)).run(None, {"x": np.array("text", object)})
    assert (y.tolist(), z.tolist()) == ([["text", "text"]], ["text"])


DAYS = words("Monday", "tuesday", "MONDAY", "Ωmega", "straße", "İstanbul")


@pytest.mark.parametrize("attributes", [{}, {"delimiter": ","}, {"delimiter": ",", "maxsplit": 1}, {"delimiter": ""}], ids=str)
def test_texts_are_split_and_filled_up(attributes: dict[str, Any]) -> None:
    x = words(["a, b,c", " one  two "], [",,", "é"])
    rows = [text.split(attributes.get("delimiter") or None, attributes.get("maxsplit", -1)) for text in x.reshape(-1)]
    most = max(map(len, rows))
    filled = np.array([row + [""] * (most - len(row)) for row in rows], object).reshape(2, 2, most)
    counts = np.array([len(row) for row in rows]).reshape(2, 2)
    check_op("StringSplit", x, expected=[filled, counts], outputs=2, **attributes)


def test_no_texts_have_no_parts() -> None:
    expected = [np.empty((0, 0), object), np.empty(0, np.int64)]
    check_op("StringSplit", np.empty(0, object), expected=expected, outputs=2)


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        ("LOWER", ["monday", "tuesday", "monday", "ωmega", "straße", "istanbul"]),
        ("UPPER", ["MONDAY", "TUESDAY", "MONDAY", "ΩMEGA", "STRAßE", "İSTANBUL"]),
        ("NONE", DAYS.tolist()),
    ],
)
def test_letters_change_one_by_one(action: str, wanted: list[str]) -> None:
    check_op("StringNormalizer", DAYS, expected=words(*wanted), case_change_action=action)


@pytest.mark.parametrize("action", ["LOWER", "UPPER"])
def test_letters_change_alike_alone_and_together(action: str) -> None:
    letters = [chr(code) for code in range(0x20, 0x20000)]
    alone = run_op("StringNormalizer", [words(*letters)], {"case_change_action": action})[0].tolist()
    [together] = run_op("StringNormalizer", [words("".join(letters))], {"case_change_action": action})[0]
    assert together == "".join(alone)
    become = {letter for letter, changed in zip(letters, alone, strict=True) if changed.isascii() and not letter.isascii()}
    assert become <= set(_BECOME_ASCII)


@pytest.mark.parametrize("text", ["ΑΣ", "ΑΣ Σ", "ΟΔΥΣΣΕΥΣ"])
def test_a_sigma_does_not_depend_on_its_neighbors(text: str) -> None:
    expected = "".join(letter.lower() for letter in text)
    check_op("StringNormalizer", words(text), expected=words(expected), case_change_action="LOWER")


def test_the_plain_locale_knows_ascii_alone() -> None:
    check_op("StringNormalizer", words("ÄRGER\ud800"), expected=words("Ärger\ud800"), case_change_action="LOWER", locale="C")
    check_op("StringNormalizer", words("ärger"), expected=words("äRGER"), case_change_action="UPPER", locale="C")


@pytest.mark.parametrize("shape", [(3,), (1, 3)], ids=str)
@pytest.mark.parametrize(("sensitive", "left"), [(1, ["tuesday", "monday"]), (0, ["tuesday"])])
def test_stop_words_go(sensitive: int, left: list[str], shape: tuple[int, ...]) -> None:
    attributes = {"case_change_action": "LOWER", "is_case_sensitive": sensitive, "stopwords": ["Monday"]}
    wanted = words(*left).reshape(*shape[:-1], -1)
    check_op("StringNormalizer", DAYS[:3].reshape(shape), expected=wanted, **attributes)


def test_where_nothing_is_left_there_is_one_empty_text() -> None:
    check_op("StringNormalizer", words(["a", "a"]), expected=words([""]), stopwords=["a"], is_case_sensitive=1)


def test_a_table_of_several_rows_is_refused() -> None:
    with pytest.raises(RuntimeException, match=r"X, .* is 2[,;] it should be 1"):
        run_op("StringNormalizer", [words(["a"], ["b"])], {})


def test_an_unknown_case_is_declined() -> None:
    with pytest.raises(NotSupported, match="case_change_action 'TITLE'"):
        run_op("StringNormalizer", [words("a")], {"case_change_action": "TITLE"})
