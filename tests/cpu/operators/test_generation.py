"""GreedySearch, Sampling and BeamSearch against onnxruntime, and against what their decoders say of the sequences that they found."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import Cancelled, OrtLiteError
from ort_lite.graph import Node
from ort_lite.provider import RunOptions
from ort_lite.provider.current import as_in
from ort_lite_cpu.operators.microsoft.generation import beams
from ort_lite_cpu.operators.microsoft.generation.settings import Settings
from tests.cpu.check import assert_close
from tests.cpu.operators.generation_models import (
    FLOAT,
    HEADS,
    INT,
    LAYERS,
    SIZE,
    VOCABULARY,
    gpt,
    info,
    node,
    search,
    t5_decoder,
    t5_decoder_with_prompt,
    t5_encoder,
    whisper_decoder,
    whisper_encoder,
)

PROMPT = np.array([[3, 4, 5], [0, 7, 8]], np.int32)
CPU = ["CPUExecutionProvider"]
FORBIDDEN = np.arange(VOCABULARY, dtype=np.int32) % 3


def scalars(dtype: str = "int32", **values: float | None) -> dict[str, Array | None]:
    return {name: None if value is None else np.array([value], dtype) for name, value in values.items()}


def greedy_inputs(
    prompt: Array = PROMPT, longest: int = 9, least: int | None = None, penalty: float | None = None, **masks: Array
) -> Any:
    inputs = {
        "input_ids": prompt,
        **scalars(max_length=longest, min_length=least),
        **scalars("float32", repetition_penalty=penalty),
    }
    return inputs | {name: masks.get(name) for name in ("vocab_mask", "prefix_vocab_mask", "attention_mask")}


def beam_inputs(
    prompt: Array = PROMPT,
    longest: int = 9,
    least: int = 0,
    beams: int = 3,
    returned: int = 2,
    length: float = 1.0,
    penalty: float | None = None,
    **masks: Array,
) -> Any:
    inputs = {"input_ids": prompt} | scalars(
        max_length=longest, min_length=least, num_beams=beams, num_return_sequences=returned
    )
    inputs |= scalars("float32", length_penalty=length, repetition_penalty=penalty)
    return inputs | {name: masks.get(name) for name in ("vocab_mask", "prefix_vocab_mask", "attention_mask")}


SEQUENCES: dict[str, Any] = {"sequences": (INT, ("B", "L"))}
BEAMS = {"sequences": (INT, ("B", "R", "L")), "sequences_scores": (FLOAT, ("B", "R")), "scores": (FLOAT, ("N", "B", "K", "V"))}


def run(model: onnx.ModelProto, inputs: Mapping[str, Array | None]) -> list[Array]:
    session = ort_lite.InferenceSession(model.SerializeToString(), providers=CPU)
    return list(session.run(None, {name: x for name, x in inputs.items() if x is not None}))


def check(op_type: str, inputs: Mapping[str, Array | None], outputs: Any, **attributes: Any) -> list[Array]:
    """As onnxruntime. What a search that ends early leaves of sequences and scores is what memory had, there; here pads and zeros."""
    model = search(op_type, inputs, outputs, **{"eos_token_id": 1, "pad_token_id": 0, **attributes})
    got = run(model, inputs)
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=CPU)
    want = theirs.run(None, {name: x for name, x in inputs.items() if x is not None})
    for mine, other in zip(got, want, strict=True):
        assert mine.dtype == other.dtype and mine.shape == other.shape
        if mine.ndim == 4:
            turns = mine.any(axis=(1, 2, 3))
            mine, other = mine[turns], other[turns]
        elif op_type != "BeamSearch":
            left = (mine == attributes.get("pad_token_id", 0)).all(axis=0)
            mine, other = mine[:, ~left], other[:, ~left]
        assert_close(mine, other, 1e-4, 1e-4, op_type)
    return got


@pytest.mark.parametrize(
    ("given", "attributes"),
    [
        ({}, {}),
        ({}, {"eos_token_id": 11, "pad_token_id": 7}),
        ({"least": 6}, {"eos_token_id": 11}),
        ({"penalty": 1.7}, {}),
        ({}, {"no_repeat_ngram_size": 2}),
        ({}, {"no_repeat_ngram_size": 1}),
        ({"vocab_mask": FORBIDDEN}, {}),
        ({"prefix_vocab_mask": np.stack([FORBIDDEN, 1 - FORBIDDEN])}, {}),
        ({"attention_mask": np.array([[1, 0, 1], [0, 1, 1]], np.int32)}, {}),
        ({"prompt": PROMPT[:, :1], "longest": 2}, {}),
        ({"prompt": PROMPT[:0]}, {}),
    ],
)
def test_what_steers_a_search(given: dict[str, Any], attributes: dict[str, Any]) -> None:
    for seed in range(2):
        check("GreedySearch", greedy_inputs(**given), SEQUENCES, decoder=gpt(seed), **attributes)
        check("BeamSearch", beam_inputs(**given), BEAMS, decoder=gpt(seed), **attributes)


def test_the_first_call_may_have_a_body_of_its_own() -> None:
    bodies = {"decoder": gpt(0), "init_decoder": gpt(1, "first")}
    check("GreedySearch", greedy_inputs(), SEQUENCES, **bodies)
    check("BeamSearch", beam_inputs(), BEAMS, **bodies)


@pytest.mark.parametrize(
    "given", [{"beams": 1, "returned": 1}, {"beams": 15, "returned": 15}, {"length": 0.0}, {"length": 3.0}, {"length": -1.0}]
)
def test_beams(given: dict[str, Any]) -> None:
    """Three rows: of the second and third onnxruntime compares the scores of others, which shows where a search ends."""
    prompt = np.concatenate([PROMPT, [[9, 9, 1]]]).astype(np.int32)
    for eos in (2, 5, 9):
        for early in (0, 1):
            inputs = beam_inputs(prompt, longest=11, **given)
            check("BeamSearch", inputs, BEAMS, decoder=gpt(3), eos_token_id=eos, pad_token_id=7, early_stopping=early)


@pytest.mark.parametrize("count", [1, 3, 8, 23])
def test_the_best_of_a_long_row_are_found_slice_by_slice(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beams, "SLICE", 5)
    settings, row = (
        Settings(Node("GreedySearch", (), (), name="node"), 23, 0, 0, 0, 9),
        np.array([k * 7 % 4 for k in range(23)], np.float32),
    )
    assert beams._largest(settings, row, count).tolist() == np.argsort(-row, kind="stable")[:count].tolist()
    options = RunOptions()
    options.terminate = True
    with as_in(options, None), pytest.raises(Cancelled, match="in GreedySearch 'node'"):
        beams._largest(settings, row, 3)


# --- Sampling
def sampling_inputs(seed: int | None = None, presence: Array | None = None, **given: Any) -> Any:
    return greedy_inputs(**given) | {"presence_mask": presence} | scalars(seed=seed)


@pytest.mark.parametrize(
    ("given", "attributes"),
    [
        ({}, {"top_p": 0.9}),
        ({"seed": 5, "penalty": 1.5}, {"top_p": 0.8, "no_repeat_ngram_size": 2}),
        ({"seed": 6, "vocab_mask": FORBIDDEN}, {"top_p": 0.9, "temperature": 3.0}),
        ({"seed": 2**31 - 1}, {"top_p": 0.6, "custom": 1, "temperature": 0.5}),
        ({"seed": 8, "least": 7}, {"top_p": 0.9, "custom": 1, "eos_token_id": 9}),
        ({"seed": 9}, {"top_p": 0.2, "min_tokens_to_keep": 5}),
        ({"seed": 10}, {"top_p": 0.5, "filter_value": -3.0}),
        ({"seed": 11, "prompt": PROMPT[:0]}, {"top_p": 0.5}),
    ],
)
def test_the_same_seed_draws_what_onnxruntime_draws(given: dict[str, Any], attributes: dict[str, Any]) -> None:
    for seed in range(2):
        check("Sampling", sampling_inputs(**given), SEQUENCES, decoder=gpt(seed), **attributes)


def test_tokens_are_drawn_from_the_likely_ones() -> None:
    """filtered_logits: those of the last token. All that were there cost something, not the first alone."""
    outputs = {**SEQUENCES, "filtered_logits": (FLOAT, ("B", "V"))}
    rows = {"top_p": 0.7, "decoder": gpt(1), "eos_token_id": 1, "pad_token_id": 0, "presence_penalty": 1.5}
    present = FORBIDDEN[None].repeat(2, 0)
    inputs = sampling_inputs(3, present, longest=4)
    got, kept = run(search("Sampling", inputs, outputs, **rows), inputs)
    for prompt, token, row in zip(PROMPT, got[:, 3], kept, strict=True):
        if prompt.all():  # a decoder without a mask sees no pads
            scores = logarithms(prompt.tolist(), 1)[-1] - present[0] * 1.5
            likely = np.argsort(-scores)
            enough = 1 + int(np.searchsorted(np.cumsum(np.exp(scores[likely]) / np.exp(scores).sum()), 0.7))
            assert set(np.flatnonzero(row > -1e20)) == set(likely[:enough])
        assert row[token] > -1e20


# --- against what the decoder says, without a past
@cache
def decoder(seed: int) -> Any:
    model = onnx.helper.make_model(
        gpt(seed), opset_imports=search("GreedySearch", greedy_inputs(), SEQUENCES).opset_import, ir_version=10
    )
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=CPU)


def logarithms(sequence: Sequence[int], seed: int) -> Array:
    """(steps, V): the probabilities of what follows each token."""
    ids = np.array([sequence], np.int32)
    past = {f"past_{k}": np.zeros((2, 1, HEADS, 0, SIZE), np.float32) for k in range(LAYERS)}
    feeds = {"input_ids": ids, "position_ids": np.arange(ids.size, dtype=np.int32)[None], "attention_mask": np.ones_like(ids)}
    logits = np.asarray(decoder(seed).run(["logits"], feeds | past)[0][0], np.float64)
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


# --- encoder and decoder
@pytest.mark.parametrize(("hidden", "joined"), [(True, True), (False, True), (False, False)])
def test_an_encoder_and_a_decoder(hidden: bool, joined: bool) -> None:
    prompt = np.array([[3, 4, 5, 0], [0, 7, 8, 6]], np.int32)
    bodies = {"encoder": t5_encoder(0, joined), "decoder": t5_decoder(0, hidden), "model_type": 1, "decoder_start_token_id": 2}
    check("BeamSearch", beam_inputs(prompt), BEAMS, **bodies)
    mask = np.array([[1, 1, 0, 1], [1, 1, 1, 1]], np.int32)
    check("BeamSearch", beam_inputs(prompt, attention_mask=mask, longest=3, least=2), BEAMS, eos_token_id=3, **bodies)


@pytest.mark.parametrize("hidden", [True, False])
def test_a_decoder_may_read_the_encoders_tokens(hidden: bool) -> None:
    prompt = np.array([[3, 4, 5, 0], [0, 7, 8, 6]], np.int32)
    bodies = {"encoder": t5_encoder(), "decoder": t5_decoder_with_prompt(hidden=hidden)}
    check("BeamSearch", beam_inputs(prompt), BEAMS, model_type=1, decoder_start_token_id=2, **bodies)


def test_a_decoder_may_be_given_whole_sequences() -> None:
    prompt = np.array([[3, 4, 5, 0], [0, 7, 8, 6]], np.int32)
    bodies = {"encoder": t5_encoder(), "model_type": 1, "decoder_start_token_id": 2}
    for kind in ({"joined": True}, {"joined": False}):
        bodies |= {"encoder": t5_encoder(**kind), "decoder": t5_decoder(hidden=kind["joined"], whole=True)}
        check("BeamSearch", beam_inputs(prompt), BEAMS, **bodies)


# --- Whisper
FEATURES = np.random.RandomState(3).normal(0, 1, (2, 8, 5)).astype(np.float32)
STARTS = np.array([[3, 4, 5], [6, 7, 8]], np.int32)
WHISPER = {"encoder": whisper_encoder(), "decoder": whisper_decoder(), "model_type": 2, "decoder_start_token_id": 2}
TOKENS = {
    "beginning_timestamp_token_id": 12,
    "translate_token_id": 9,
    "transcribe_token_id": 10,
    "start_of_lm_token_id": 11,
    "no_timestamps_token_id": 8,
}


def whisper_inputs(starts: Array | None = STARTS, processor: int | None = None, heat: float | None = None, **given: Any) -> Any:
    """Inputs of WhisperBeamSearch: of BeamSearch the first twelve."""
    inputs = beam_inputs(given.pop("prompt", FEATURES), **given) | {"decoder_input_ids": starts}
    inputs |= scalars(logits_processor=processor)
    return inputs | {"cross_qk_layer_head": None, "extra_decoding_ids": None} | scalars("float32", temperature=heat)


@pytest.mark.parametrize("op_type", ["BeamSearch", "WhisperBeamSearch"])
@pytest.mark.parametrize("starts", [None, STARTS, STARTS[:, :1]], ids=["one token", "three tokens", "a token a row"])
def test_whisper(op_type: str, starts: Array | None) -> None:
    count = 12 if op_type == "BeamSearch" else 15
    for seed in range(2):
        for hidden, whole in ((False, False), (True, False), (True, True)):
            bodies = {**WHISPER, "encoder": whisper_encoder(seed), "decoder": whisper_decoder(seed, hidden, whole)}
            inputs = dict(list(whisper_inputs(starts, longest=10).items())[:count])
            check(op_type, inputs, BEAMS, **bodies)
            check(op_type, inputs, BEAMS, eos_token_id=11, pad_token_id=7, no_repeat_ngram_size=2, **bodies)


@pytest.mark.parametrize(
    "given",
    [
        {"heat": 0.5},
        {"heat": 2.0, "penalty": 1.7},
        {"vocab_mask": FORBIDDEN},
        {"prefix_vocab_mask": np.stack([FORBIDDEN, 1 - FORBIDDEN])},
        {"attention_mask": np.ones((2, 8, 5), np.int32)},
        {"least": 7},
        {"processor": 2},
    ],
)
def test_what_steers_whisper(given: dict[str, Any]) -> None:
    check("WhisperBeamSearch", whisper_inputs(longest=10, **given), BEAMS, eos_token_id=11, **WHISPER)


@pytest.mark.parametrize("eos", [1, 6, 7])
@pytest.mark.parametrize("begin", [[2], [2, 3, 12], [2, 14, 5], [2, 13, 5, 15], [2, 13, 5, 15, 15, 4]])
def test_timestamps_come_in_pairs(begin: list[int], eos: int) -> None:
    for seed in range(4):
        bodies = {**WHISPER, "encoder": whisper_encoder(seed), "decoder": whisper_decoder(seed)}
        inputs = whisper_inputs(np.array([begin, begin[::-1]], np.int32), processor=1, longest=16)
        check("WhisperBeamSearch", inputs, BEAMS, eos_token_id=eos, **bodies, **TOKENS)


def test_the_probability_of_silence() -> None:
    """Of the first turn; onnxruntime computes it for CUDA alone."""
    outputs = {**BEAMS, "cross_qk": (FLOAT, ()), "non_speech_probs": (FLOAT, ("B",))}
    inputs = whisper_inputs(longest=6)
    model = search("WhisperBeamSearch", inputs, outputs, eos_token_id=1, pad_token_id=0, no_speech_token_id=9, **WHISPER)
    model.graph.node[0].output[3] = ""
    del model.graph.output[3]
    got = run(model, inputs)
    encoder = onnx.helper.make_model(whisper_encoder(), opset_imports=model.opset_import, ir_version=10)
    theirs = onnxruntime.InferenceSession(encoder.SerializeToString(), providers=CPU)
    logits = np.asarray(theirs.run(["logits"], {"encoder_input_ids": FEATURES, "decoder_input_ids": STARTS})[0])[:, -1]
    assert_close(got[3], (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))[:, 9], 1e-5, 1e-6, "silence")


# --- errors
T5 = {"model_type": 1, "decoder": t5_decoder()}


@pytest.mark.parametrize(
    ("op_type", "given", "attributes", "message"),
    [
        ("GreedySearch", {"longest": 3}, {}, "max_length is 3; it must be greater than the 3 tokens"),
        ("GreedySearch", {"longest": 5000}, {}, "max_length is 5000; a number up to 4096"),
        ("GreedySearch", {"least": 10}, {}, "min_length is 10; a number from 0 to max_length"),
        ("GreedySearch", {"least": -1}, {}, "min_length is -1; a number from 0 to max_length"),
        ("BeamSearch", {"least": 10}, {}, "min_length is 10; a number from 0 to max_length"),
        ("GreedySearch", {"penalty": 0.0}, {}, "repetition_penalty is 0.0; a number greater than 0"),
        ("GreedySearch", {"penalty": float("nan")}, {}, "repetition_penalty is nan; a number greater than 0"),
        ("GreedySearch", {"vocab_mask": FORBIDDEN[:7]}, {}, r"'vocab_mask' has shape \(7,\); \(20,\) is expected"),
        ("GreedySearch", {"prefix_vocab_mask": FORBIDDEN[None]}, {}, r"prefix_vocab_mask, .* is 1, but B is 2"),
        ("GreedySearch", {"attention_mask": PROMPT[:, :2]}, {}, "attention_mask, .* is 2, but S is 3"),
        ("GreedySearch", {"prompt": PROMPT[:, :0]}, {}, "a prompt of one token or more"),
        ("GreedySearch", {}, {"model_type": 1}, "model_type 1; GreedySearch has 0"),
        ("GreedySearch", {}, {"encoder": t5_encoder()}, "'encoder' is not for model_type 0"),
        ("GreedySearch", {}, {"vocab_size": 25}, "vocab_size is 25; its body 'gpt' gives 20 logits"),
        ("GreedySearch", {}, {"decoder": t5_decoder()}, "expected .'input_ids', 'position_ids'"),
        ("GreedySearch", {}, {"init_decoder": gpt(layers=1)}, "decoder and init_decoder differ"),
        ("Sampling", {"seed": -3}, {}, "seed is -3; a number of 0 or more"),
        ("Sampling", {"presence": PROMPT}, {}, r"'presence_mask' has shape \(2, 3\); \(2, 20\) is expected"),
        ("BeamSearch", {"beams": 0}, {}, "num_beams is 0; a number from 1 to 128"),
        ("BeamSearch", {"returned": 4}, {}, r"num_return_sequences is 4; a number from 1 to num_beams \(3\)"),
        ("BeamSearch", {}, {"model_type": 3}, "model_type 3; BeamSearch has 0"),
        ("BeamSearch", {}, {"model_type": 2, "encoder": t5_encoder()}, "input_ids should have three dimensions"),
        ("BeamSearch", {}, {"model_type": 1}, "'encoder' is missing"),
        ("BeamSearch", {}, {**T5, "encoder": t5_encoder()}, "decoder_start_token_id is missing"),
        ("BeamSearch", {}, {**T5, "encoder": gpt()}, "begin with"),
    ],
)
def test_errors(op_type: str, given: dict[str, Any], attributes: dict[str, Any], message: str) -> None:
    made: dict[str, Any] = {"GreedySearch": greedy_inputs, "Sampling": sampling_inputs, "BeamSearch": beam_inputs}
    inputs = made[op_type](**given)
    bodies = {"decoder": gpt(), "eos_token_id": 1, "pad_token_id": 0, **attributes}
    with pytest.raises(OrtLiteError, match=message):
        run(search(op_type, inputs, BEAMS if op_type == "BeamSearch" else SEQUENCES, **bodies), inputs)


def test_a_past_in_the_buffer_of_the_present_is_refused() -> None:
    body = gpt()
    body.input.append(info("past_sequence_length", INT, 1))
    with pytest.raises(OrtLiteError, match="without past_present_share_buffer"):
        run(search("GreedySearch", greedy_inputs(), SEQUENCES, decoder=body, eos_token_id=1, pad_token_id=0), {})


def test_what_is_of_whisper_is_refused() -> None:
    inputs = beam_inputs() | {"decoder_input_ids": PROMPT}
    with pytest.raises(OrtLiteError, match="decoder_input_ids; they are for model_type 2"):
        run(search("BeamSearch", inputs, BEAMS, decoder=gpt(), eos_token_id=1, pad_token_id=0), inputs)
    inputs = beam_inputs() | {"decoder_input_ids": None} | scalars(logits_processor=1)
    with pytest.raises(OrtLiteError, match="logits_processor is not 0"):
        run(search("BeamSearch", inputs, BEAMS, decoder=gpt(), eos_token_id=1, pad_token_id=0), inputs)
    inputs |= scalars(logits_processor=0)
    check("BeamSearch", inputs, BEAMS, decoder=gpt())


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"starts": STARTS[:, :0]}, {}, r"decoder_input_ids have shape \(2, 0\)"),
    ({"starts": STARTS, "longest": 3}, {}, "max_length is 3; it must be greater than the 3 tokens"),
    ({"starts": None}, {"decoder_start_token_id": -1}, "decoder_start_token_id is missing"),
    ({"processor": 1}, {}, "beginning_timestamp_token_id is -1; a number from 1 to 19"),
    ({"prompt": PROMPT}, {}, "has rank 2; it should have 3"),
    ({"prompt": PROMPT[..., None]}, {}, "no provider of CPUExecutionProvider runs a node"),
    ({}, {"model_type": 1}, "model_type"),
    ({}, {"encoder": t5_encoder()}, "begin with"),
]


@pytest.mark.parametrize(("given", "attributes", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_errors_of_whisper(given: dict[str, Any], attributes: dict[str, Any], message: str) -> None:
    inputs = whisper_inputs(**given)
    bodies = {**WHISPER, "eos_token_id": 1, "pad_token_id": 0, **attributes}
    with pytest.raises(OrtLiteError, match=message):
        run(search("WhisperBeamSearch", inputs, BEAMS, **bodies), inputs)


def test_what_only_cuda_has_is_refused() -> None:
    outputs = {**BEAMS, "cross_qk": (FLOAT, ("B", "R", "L", "T", "F"))}
    bodies = {**WHISPER, "eos_token_id": 1, "pad_token_id": 0}
    with pytest.raises(OrtLiteError, match="the output cross_qk; onnxruntime has it for CUDA alone"):
        run(search("WhisperBeamSearch", whisper_inputs(), outputs, **bodies), whisper_inputs())
    inputs = whisper_inputs() | {"extra_decoding_ids": PROMPT}
    with pytest.raises(OrtLiteError, match="extra_decoding_ids; onnxruntime has it for CUDA alone"):
        run(search("WhisperBeamSearch", inputs, BEAMS, **bodies), inputs)


def test_logits_that_are_no_numbers_are_an_error() -> None:
    body = gpt()
    head = next(x for x in body.initializer if x.name == "head")
    head.CopyFrom(onnx.numpy_helper.from_array(np.full((8, VOCABULARY), np.nan, np.float32), "head"))
    with pytest.raises(OrtLiteError, match="'search': its body gives logits that are NaN"):
        run(search("GreedySearch", greedy_inputs(), SEQUENCES, decoder=body, eos_token_id=1, pad_token_id=0), greedy_inputs())


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_logits_that_are_infinite_have_no_probabilities(value: float) -> None:
    body = gpt()
    node_of_logits = next(one for one in body.node if one.output[0] == "logits")
    node_of_logits.output[0] = "finite"
    body.node.append(node("Add", "finite far", "logits"))
    body.initializer.append(onnx.numpy_helper.from_array(np.array(value, np.float32), "far"))
    with pytest.raises(OrtLiteError, match="its body gives logits that are infinite"):
        run(search("BeamSearch", beam_inputs(), BEAMS, decoder=body, eos_token_id=1, pad_token_id=0), beam_inputs())


def test_more_logits_than_tokens_are_left_alone() -> None:
    """vocab_size: a model whose rows of logits are longer never gives what is behind."""
    inputs = greedy_inputs()
    narrow = {"decoder": gpt(), "eos_token_id": 1, "pad_token_id": 0}
    [got] = run(search("GreedySearch", inputs, SEQUENCES, vocab_size=15, **narrow), inputs)
    mask = (np.arange(VOCABULARY) < 15).astype(np.int32)
    [want] = run(search("GreedySearch", greedy_inputs(vocab_mask=mask), SEQUENCES, **narrow), greedy_inputs(vocab_mask=mask))
    np.testing.assert_array_equal(got, want)


def test_bodies_see_outer_values() -> None:
    """Words come from the graph around."""
    body = gpt()
    words = next(x for x in body.initializer if x.name == "words")
    body.initializer.remove(words)
    inputs = greedy_inputs()
    model = search("GreedySearch", inputs, SEQUENCES, decoder=body, eos_token_id=1, pad_token_id=0)
    model.graph.node.insert(0, node("Identity", "stored", "words"))
    words.name = "stored"
    model.graph.initializer.append(words)
    [want] = run(search("GreedySearch", inputs, SEQUENCES, decoder=gpt(), eos_token_id=1, pad_token_id=0), inputs)
    np.testing.assert_array_equal(run(model, inputs)[0], want)
