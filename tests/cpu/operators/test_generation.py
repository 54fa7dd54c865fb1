"""GreedySearch and BeamSearch over a small decoder, against onnxruntime."""

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import OrtLiteError

VOCABULARY, HEADS, SIZE = 11, 2, 4
EOS, PAD = 9, 10
IDS = np.array([[3, 5, 7], [PAD, 2, 1], [4, 4, 4]], np.int32)
KEPT = np.array([0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1], np.int32)
OUTPUTS = {"GreedySearch": ["sequences"], "BeamSearch": ["sequences", "sequences_scores", "scores"]}


@cache
def weights(seed: int) -> tuple[onnx.TensorProto, ...]:
    rng, width = np.random.default_rng(seed), HEADS * SIZE
    arrays = {
        "words": rng.standard_normal((VOCABULARY, width)),
        "places": rng.standard_normal((64, width)) / 2,
        "w": rng.standard_normal((width, 3 * width)) * 0.4,
        "b": np.zeros(3 * width),
        "head": rng.standard_normal((width, VOCABULARY)) * 3,
    }
    return tuple(numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items())


def decoder(seed: int, captured: bool) -> onnx.GraphProto:
    info = helper.make_tensor_value_info
    int32, float32 = TensorProto.INT32, TensorProto.FLOAT
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["word"]),
        helper.make_node("Gather", ["places", "position_ids"], ["place"]),
        helper.make_node("Add", ["word", "place"], ["x"]),
        helper.make_node(
            "Attention",
            ["x", "w", "b", "attention_mask", "past_0"],
            ["a", "present_0"],
            domain="com.microsoft",
            num_heads=HEADS,
            unidirectional=1,
        ),
        helper.make_node("Add", ["a", "x"], ["y"]),
        helper.make_node("MatMul", ["y", "head"], ["logits"]),
    ]
    inputs = [info("input_ids", int32, ["B", "S"]), info("position_ids", int32, ["B", "S"])]
    inputs += [info("attention_mask", int32, ["B", "T"]), info("past_0", float32, [2, "B", HEADS, "P", SIZE])]
    outputs = [info("logits", float32, ["B", "S", VOCABULARY]), info("present_0", float32, [2, "B", HEADS, "T", SIZE])]
    return helper.make_graph(nodes, "decoder", inputs, outputs, [] if captured else weights(seed))


def model(op: str, feeds: dict[str, Array | None], seed: int = 0, captured: bool = False, **attributes: Any) -> bytes:
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)
        for name, array in feeds.items()
        if array is not None
    ]
    names = [name if array is not None else "" for name, array in feeds.items()]
    attributes = {"eos_token_id": EOS, "pad_token_id": PAD, "decoder": decoder(seed, captured), **attributes}
    node = helper.make_node(op, names, OUTPUTS[op], domain="com.microsoft", **attributes)
    kinds = [TensorProto.INT32, TensorProto.FLOAT, TensorProto.FLOAT]
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(OUTPUTS[op], kinds, strict=False)]
    graph = helper.make_graph([node], "g", infos, results, weights(seed) if captured else [])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    data: bytes = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    return data


def both(op: str, feeds: dict[str, Array | None], **how: Any) -> tuple[list[Any], list[Any]]:
    data, given = model(op, feeds, **how), {name: array for name, array in feeds.items() if array is not None}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    theirs = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, given)
    return ort_lite.InferenceSession(data).run(None, given), list(theirs)


def number(value: Any, dtype: type = np.int32) -> Array:
    return np.array([value], dtype)


def greedy(longest: int = 12, **more: Array | None) -> dict[str, Array | None]:
    given: dict[str, Array | None] = {"input_ids": IDS, "max_length": number(longest)}
    given |= dict.fromkeys(("min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask"))
    return given | more


GREEDY: dict[str, tuple[dict[str, Array | None], dict[str, Any]]] = {
    "plain": (greedy(), {}),
    "no end": (greedy(), {"eos_token_id": -1}),
    "captured": (greedy(), {"captured": True}),
    "at least": (greedy(min_length=number(8)), {}),
    "penalty": (greedy(repetition_penalty=number(1.7, np.float32)), {}),
    "no pairs again": (greedy(20), {"no_repeat_ngram_size": 2, "eos_token_id": -1}),
    "nothing again": (greedy(9), {"no_repeat_ngram_size": 1}),
    "some words": (greedy(vocab_mask=KEPT), {}),
    "first words": (greedy(prefix_vocab_mask=np.stack([KEPT, 1 - KEPT, KEPT])), {"eos_token_id": -1}),
    "masked": (greedy(attention_mask=np.array([[0, 1, 1], [1, 0, 1], [1, 1, 1]], np.int32)), {"eos_token_id": -1}),
}


@pytest.mark.parametrize("case", GREEDY)
def test_the_likeliest_token_each_time(case: str) -> None:
    """onnxruntime leaves what is behind the end of the last sequence as memory was; here it is padding."""
    feeds, attributes = GREEDY[case]
    for seed in (0, 1):
        [[mine], [theirs]] = both("GreedySearch", feeds, seed=seed, **attributes)
        assert mine.dtype == theirs.dtype == np.int32 and mine.shape == theirs.shape
        said = np.argmax(np.append((mine == PAD).all(0), True)) if (mine[:, -1] == PAD).all() else mine.shape[1]
        np.testing.assert_array_equal(mine[:, :said], theirs[:, :said])
        assert (mine[:, said:] == PAD).all() and said > IDS.shape[1]


def beams(longest: int = 9, width: int = 3, kept: int = 2, **more: Array) -> dict[str, Array | None]:
    return {
        "input_ids": IDS,
        "max_length": number(longest),
        "min_length": number(1),
        "num_beams": number(width),
        "num_return_sequences": number(kept),
        "length_penalty": number(1, np.float32),
        "repetition_penalty": number(1, np.float32),
        "vocab_mask": np.ones(VOCABULARY, np.int32),
        "prefix_vocab_mask": np.ones((3, VOCABULARY), np.int32),
        "attention_mask": (IDS != PAD).astype(np.int32),
        **more,
    }


BEAMS: dict[str, tuple[dict[str, Array | None], dict[str, Any]]] = {
    "plain": (beams(), {}),
    "early": (beams(), {"early_stopping": 1}),
    "one": (beams(width=1, kept=1), {}),
    "long": (beams(30, 4, 4), {}),
    "longer are better": (beams(length_penalty=number(2, np.float32)), {}),
    "shorter are better": (beams(length_penalty=number(-1, np.float32)), {}),
    "penalty": (beams(repetition_penalty=number(1.5, np.float32)), {}),
    "no pairs again": (beams(14), {"no_repeat_ngram_size": 2}),
    "at least": (beams(min_length=number(7)), {}),
    "some words": (beams(vocab_mask=KEPT), {}),
    "first words": (beams(prefix_vocab_mask=np.stack([KEPT, 1 - KEPT, KEPT])), {}),
    "masked": (beams(attention_mask=np.array([[0, 1, 1], [1, 0, 1], [1, 1, 1]], np.int32)), {}),
}


@pytest.mark.parametrize("case", BEAMS)
def test_the_best_sequences_and_their_scores(case: str) -> None:
    feeds, attributes = BEAMS[case]
    for seed in (0, 1, 3):
        mine, theirs = both("BeamSearch", feeds, seed=seed, **attributes)
        np.testing.assert_array_equal(mine[0], theirs[0])
        np.testing.assert_allclose(mine[1], theirs[1], 1e-4, 1e-5)
        turns = int(mine[2].any((1, 2, 3)).sum())  # behind them onnxruntime leaves what memory held
        np.testing.assert_allclose(mine[2][:turns], theirs[2][:turns], 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("op", "feeds", "message"),
    [
        ("GreedySearch", greedy(3), "max_length is 3, expected more than the 3 tokens"),
        ("GreedySearch", greedy(vocab_mask=KEPT[:2]), r"vocab_mask is \(2,\), expected \(11,\)"),
        ("GreedySearch", greedy(attention_mask=IDS[:2]), r"attention_mask is \(2, 3\), expected \(3, 3\)"),
        ("GreedySearch", greedy(repetition_penalty=number(0, np.float32)), "repetition_penalty is 0.0, expected more than 0"),
        ("GreedySearch", greedy(input_ids=IDS + 90), r"index 93 at position 0 of 'input_ids' is out of range \[-11, 11\)"),
        ("GreedySearch", greedy(input_ids=IDS[:, :0]), r"input_ids are \(3, 0\)"),
        ("BeamSearch", beams(width=2, kept=3), "num_beams is 2, num_return_sequences 3"),
        ("BeamSearch", beams(width=129, kept=1), "num_beams is 129"),
        ("BeamSearch", beams(prefix_vocab_mask=KEPT[None]), r"prefix_vocab_mask is \(1, 11\), expected \(3, 11\)"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_what_does_not_fit_is_refused_by_name(op: str, feeds: dict[str, Array | None], message: str) -> None:
    session = ort_lite.InferenceSession(model(op, feeds))
    with pytest.raises(OrtLiteError, match=message):
        session.run(None, {name: array for name, array in feeds.items() if array is not None})


def test_other_models_are_refused_by_name() -> None:
    with pytest.raises(OrtLiteError, match="model_type: it takes decoders like GPT-2"):
        ort_lite.InferenceSession(model("BeamSearch", beams(), model_type=1)).run(None, dict(beams()))
    feeds = {"input_ids": IDS, "max_length": number(9)}
    with pytest.raises(OrtLiteError, match="init_decoder: it takes decoders like GPT-2"):
        ort_lite.InferenceSession(model("GreedySearch", dict(feeds), init_decoder=decoder(0, False))).run(None, feeds)
