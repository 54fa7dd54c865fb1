"""`examples/semantic_search.py`: what is found is what was asked for; as `make demo` runs it, with its page."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from examples import semantic_search
from examples.semantic_search import QUESTIONS, SENTENCES, Encoder, Words

ROOT = Path(__file__).parents[2]
ANSWERS = (
    *zip(QUESTIONS, ("Yeast", "Bees", "Shares"), strict=True),
    ("Why is the sea high at noon and low at dusk?", "The Moon"),
)


@pytest.fixture(scope="module")
def encode() -> Encoder:
    return semantic_search.encoder()[1]


@pytest.mark.parametrize(("question", "beginning"), ANSWERS)
def test_the_nearest_sentence_answers_the_question(encode: Encoder, question: str, beginning: str) -> None:
    ((index, cosine),) = semantic_search.nearest(encode([question])[0], encode(SENTENCES), 1)
    assert SENTENCES[index].startswith(beginning)
    assert cosine > 0.4


def test_a_text_means_the_same_beside_longer_ones(encode: Encoder) -> None:
    alone, together = encode(SENTENCES[:1]), encode([SENTENCES[0], " ".join(SENTENCES)])
    np.testing.assert_allclose(together[0], alone[0], atol=0.02)  # int8 is scaled by the whole batch
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-5)


def test_texts_are_cut_as_bert_cuts_them() -> None:
    """The numbers are those that Hugging Face's tokenizers answers with the package's tokenizer.json."""
    words = Words(semantic_search.WORDS.read_text(encoding="utf-8").splitlines())
    assert words("Don't over-tokenize Café №5!") == [101, 2123, 1005, 1056, 2058, 1011, 19204, 4697, 7668, 1578, 2629, 999, 102]
    assert words("\N{SNOWMAN WITHOUT SNOW}") == [101, 100, 102]
    assert len(words("a " * 1000)) == semantic_search.LONGEST


def test_the_demo_answers_and_writes_its_page(tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "semantic_search.py"), "--page", str(page)]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True).stdout
    assert [printed.index(said) for said in QUESTIONS] == sorted(printed.index(said) for said in QUESTIONS)
    assert f"to open in a browser: {page}" in printed
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "CPUExecutionProvider" in text
