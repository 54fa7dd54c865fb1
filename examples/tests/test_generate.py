"""`examples/generate.py` as a program: its words are those of the tokens that `tests/examples/test_generate.py` checks."""

import re
import subprocess
import sys

import pytest
from tokenizers import Tokenizer

import ort_lite
from examples import generate
from tests.models import verses

PROMPT = "And the king said"


def printed(*arguments: str) -> tuple[str, str]:
    command = [sys.executable, generate.__file__, *arguments, "--tokens", "40", PROMPT]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    return done.stdout.removesuffix("\n"), done.stderr


@pytest.mark.parametrize("name", verses.NAMES)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_it_prints_the_words_of_the_tokens_and_the_speed(name: str, temperature: float) -> None:
    text, speed = printed("--model", f"model_{name}.onnx", "--temperature", str(temperature), "--seed", "3")
    tokenizer = Tokenizer.from_file(str(generate.VERSES / "tokenizer.json"))
    session = ort_lite.InferenceSession(verses.FOLDER / f"model_{name}.onnx")
    tokens = list(generate.generate(session, verses.sizes(), tokenizer.encode(PROMPT).ids, 40, temperature, 3))
    assert text == PROMPT + tokenizer.decode(tokens[: tokens.index(0)] if 0 in tokens else tokens)
    assert re.fullmatch(r"\n\nfirst token [\d.]+ ms, then \d+ tokens per second\n", speed)


def test_the_model_is_the_one_that_the_folder_names() -> None:
    assert printed()[0] == printed("--model", "model_fp32.onnx")[0]
