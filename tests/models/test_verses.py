"""The small language model of examples/verses: its tokens, losses and memory, compared with onnxruntime's."""

import re
import tracemalloc
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import ort_lite
from examples.generate import generate
from ort_lite.dtypes import Array
from tests.models import verses

TIE = 1e-4
"""The most by which the logits of two tokens may differ if either may come out as the best."""
RESIDENT = Path("/proc/self/statm")


def assert_same_tokens(tokens: Array, expected: Array, logits: Array, what: str) -> None:
    """The tokens of a text are the expected ones up to the first whose best two logits are all but equal."""
    if (differing := np.flatnonzero(tokens != expected)).size:
        first = int(differing[0])
        second, best = np.sort(logits[first])[-2:]
        assert best - second < TIE, f"{what}, token {first}: {tokens[first]}, expected {expected[first]}, {best - second} apart"


def test_greedy_tokens_are_those_of_onnxruntime() -> None:
    ours, theirs = (verses.session(runtime, "fp32") for runtime in (ort_lite, onnxruntime))
    prompts, texts = verses.committed("prompts"), set()
    for prompt in prompts:
        (expected,), (logits,) = verses.decode(onnxruntime, theirs, [prompt], 32)
        (tokens,), _ = verses.decode(ort_lite, ours, [prompt], 32)
        assert_same_tokens(tokens, expected, logits, f"after {prompt}")
        texts.add(tuple(tokens))
    assert len(prompts) == 50
    assert len(texts) > 20


@pytest.mark.parametrize("name", verses.NAMES)
def test_the_perplexity_is_that_of_onnxruntime(name: str) -> None:
    ids = verses.committed("held_out")
    ours, theirs = (verses.loss(verses.session(runtime, name), ids) for runtime in (ort_lite, onnxruntime))
    assert np.exp(ours - theirs) == pytest.approx(1, abs=1e-3)
    assert ours < np.log(1024) / 2, "it has learned nothing"


def test_the_losses_of_the_page_are_those_of_the_models() -> None:
    page = (verses.ROOT / "docs" / "language-models.md").read_text(encoding="utf-8")
    stated = {name: float(loss) for name, loss in re.findall(r"^\| `model_(\w+)\.onnx` \| ([\d.]+) \|", page, re.MULTILINE)}
    ids = verses.committed("held_out")
    assert stated == {name: pytest.approx(verses.loss(verses.session(ort_lite, name), ids), abs=1e-3) for name in verses.NAMES}


@pytest.mark.parametrize("name", verses.NAMES)
def test_prompts_of_different_length_in_one_batch_continue_as_each_alone(name: str) -> None:
    session, prompts = verses.session(ort_lite, name), verses.committed("prompts")[:8]
    assert len({len(prompt) for prompt in prompts}) > 4
    together, _ = verses.decode(ort_lite, session, prompts, 32)
    for prompt, tokens in zip(prompts, together, strict=True):
        (expected,), (logits,) = verses.decode(ort_lite, session, [prompt], 32)
        assert_same_tokens(tokens, expected, logits, f"after {prompt}")


@pytest.mark.parametrize("name", verses.NAMES)
def test_a_step_writes_into_the_caches_and_allocates_none(name: str) -> None:
    session, room = verses.session(ort_lite, name), 512
    pasts = verses.caches(session, 1, room)
    assert sorted(session._aliases().values()) == sorted(pasts)
    binding = session.io_binding()
    binding.bind_output("logits")
    bound = {past: ort_lite.OrtValue.ortvalue_from_numpy(zeros) for past, zeros in pasts.items()}
    for past, cache in bound.items():
        binding.bind_ortvalue_input(past, cache)
        binding.bind_ortvalue_output(past.replace("past_key_values", "present"), cache)
    addresses = [cache.data_ptr() for cache in bound.values()]
    mask = np.zeros((1, room), np.int64)
    for step in range(3):
        mask[0, step] = 1
        binding.bind_cpu_input("input_ids", np.array([[66 + step]]))
        binding.bind_cpu_input("attention_mask", mask)
        tracemalloc.start()
        session.run_with_iobinding(binding)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        for cache in bound.values():
            assert [bool(row.any()) for row in cache.numpy()[0, 0, : step + 2]] == [True] * (step + 1) + [False]
    assert addresses == [cache.data_ptr() for cache in bound.values()]
    assert peak < min(zeros.nbytes for zeros in pasts.values())


@pytest.mark.parametrize("name", ["fp32", "int4_cache8"])
def test_a_thousand_steps_hold_no_more_memory_than_a_hundred(name: str) -> None:
    session, model = verses.session(ort_lite, name), verses.sizes()
    assert len(list(generate(session, model, [66], 100))) == 100
    resident, held = resident_bytes(), session.memory()
    for seed in (1, 2):
        assert len(list(generate(session, model, [66], 500, 0.8, seed))) == 500
    assert resident_bytes() - resident < 2 << 20
    assert session.memory()["plans"] <= held["plans"] + 2, "a plan for the prompt and one for the steps"


def resident_bytes() -> int:
    return int(RESIDENT.read_text(encoding="ascii").split()[1]) * 4096
