"""`examples/generate.py` without its words: tokens from tokens. `examples/tests/test_generate.py` runs it as a program."""

import numpy as np
import pytest

import ort_lite
from examples.generate import choose, generate
from tests.models import verses

MODEL = verses.sizes()
CONTEXT = MODEL["context_length"]


@pytest.fixture(scope="module")
def session() -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(verses.FOLDER / MODEL["decoder"]["filename"])


def test_a_token_follows_from_all_before_it(session: ort_lite.InferenceSession) -> None:
    """Each is the best of a run that reads the whole text at once, with empty caches."""
    prompt = verses.committed("prompts")[2]
    tokens = list(generate(session, MODEL, prompt, 40))
    ids = np.array([[*prompt, *tokens]])
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), **verses.caches(session, 1, 0)}
    logits = session.run(["logits"], feeds)[0][0, len(prompt) - 1 : -1]
    best = logits.max(-1)
    assert (best - logits[np.arange(40), tokens] < 1e-4).all()


@pytest.mark.parametrize(("length", "count", "found"), [(3, 5, 5), (3, 0, 0), (CONTEXT - 2, 9, 3), (CONTEXT, 9, 1)])
def test_tokens_end_where_the_context_ends(session: ort_lite.InferenceSession, length: int, count: int, found: int) -> None:
    prompt = verses.committed("held_out")[:length]
    assert len(list(generate(session, MODEL, prompt, count))) == found


@pytest.mark.parametrize("length", [0, CONTEXT + 1])
def test_a_prompt_that_does_not_fit_is_refused(session: ort_lite.InferenceSession, length: int) -> None:
    with pytest.raises(ValueError, match=f"has {length} tokens; expected 1 to {CONTEXT}"):
        next(generate(session, MODEL, [66] * length, 1))


def test_a_seed_gives_the_same_tokens_again(session: ort_lite.InferenceSession) -> None:
    first, again, other = (list(generate(session, MODEL, [103], 30, 0.9, seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_temperature_weighs_the_tokens() -> None:
    logits, random = np.array([0, 1, 3], np.float32), np.random.default_rng(0)
    drawn = np.bincount([choose(logits, 2.0, random) for _ in range(4000)], minlength=3) / 4000
    shares = np.exp(logits / 2) / np.exp(logits / 2).sum()
    np.testing.assert_allclose(drawn, shares, atol=0.03)
    assert choose(logits, 0.0, random) == 2
