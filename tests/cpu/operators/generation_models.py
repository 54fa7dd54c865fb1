"""Tiny decoders, encoders and the nodes of com.microsoft that search with them, for tests of generation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from ort_lite.dtypes import Array

VOCABULARY, HEADS, SIZE, LAYERS = 20, 2, 4, 2
WIDTH = HEADS * SIZE
INT, FLOAT = TensorProto.INT32, TensorProto.FLOAT
Shape = Sequence[int | str]
Nodes = list[onnx.NodeProto]


def info(name: str, dtype: int, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def weights(seed: int, **shapes: tuple[int, ...]) -> list[TensorProto]:
    """Of a third: logits are near to one another, so that beams overtake each other."""
    rng = np.random.RandomState(seed)
    return [numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name) for name, shape in shapes.items()]


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Names apart by blanks, "" spelled as -."""
    given, made = ([name.replace("-", "") for name in side.split()] for side in (inputs, outputs))
    microsoft = op_type in ("Attention", "MultiHeadAttention", "GreedySearch", "Sampling", "BeamSearch", "WhisperBeamSearch")
    return helper.make_node(op_type, given, made, domain="com.microsoft" if microsoft else "", **attributes)


def gpt(seed: int = 0, name: str = "gpt", layers: int = LAYERS) -> GraphProto:
    """Embeddings of tokens and positions, layers of attention that look back, logits (B, S, VOCABULARY)."""
    nodes = [node("Gather", "words input_ids", "word"), node("Gather", "places position_ids", "place")]
    nodes.append(node("Add", "word place", "x0"))
    shapes: dict[str, tuple[int, ...]] = {"words": (VOCABULARY, WIDTH), "places": (32, WIDTH), "head": (WIDTH, VOCABULARY)}
    for k in range(layers):
        shapes |= {f"w{k}": (WIDTH, 3 * WIDTH), f"b{k}": (3 * WIDTH,)}
        operands = f"x{k} w{k} b{k} attention_mask past_{k}"
        nodes.append(node("Attention", operands, f"a{k} present_{k}", num_heads=HEADS, unidirectional=1))
        nodes.append(node("Add", f"x{k} a{k}", f"x{k + 1}"))
    nodes.append(node("MatMul", f"x{layers} head", "logits"))
    cache = (2, "B", HEADS)
    inputs = [info(name, INT, "B", "S") for name in ("input_ids", "position_ids")]
    inputs += [info("attention_mask", INT, "B", "T"), *(info(f"past_{k}", FLOAT, *cache, "P", SIZE) for k in range(layers))]
    outputs = [info("logits", FLOAT, "B", "S", VOCABULARY)]
    outputs += [info(f"present_{k}", FLOAT, *cache, "T", SIZE) for k in range(layers)]
    return helper.make_graph(nodes, name, inputs, outputs, weights(seed, **shapes))


def search(
    op_type: str, inputs: Mapping[str, Array | None], outputs: Mapping[str, tuple[int, Shape]], **attributes: Any
) -> ModelProto:
    """A model of one node; an input that is None is left out, an output is its element type and shape."""
    given = [info(name, helper.np_dtype_to_tensor_dtype(x.dtype), *x.shape) for name, x in inputs.items() if x is not None]
    made = node(op_type, " ".join("-" if x is None else name for name, x in inputs.items()), " ".join(outputs), name="search")
    for name, value in sorted(attributes.items()):
        made.attribute.append(helper.make_attribute(name, value))
    results = [info(name, dtype, *shape) for name, (dtype, shape) in outputs.items()]
    graph = helper.make_graph([made], "main", given, results)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


# --- encoder and decoder
_SPLIT = {"split": np.array([0, 0, HEADS, SIZE], np.int64)}


def _cache(kind: str, length: str, first: str = "present") -> list[onnx.ValueInfoProto]:
    names = [f"{first}_{part}_{kind}_{k}" for k in range(LAYERS) for part in ("key", "value")]
    return [info(name, FLOAT, "B", HEADS, length, SIZE) for name in names]


def _turn(tokens: str, past: bool, masked: bool = True) -> Nodes:
    """A decoder's: logits, and what attention to itself remembers. Attention to the encoder reads ..._cross_k."""
    nodes = [node("Gather", f"words {tokens}", "y0")]
    for k in range(LAYERS):
        before = f" past_key_self_{k} past_value_self_{k}" if past else ""
        operands = f"y{k} y{k} y{k}{' - - -' if past else ''}{before}"
        presents = f"present_key_self_{k} present_value_self_{k}"
        nodes.append(node("MultiHeadAttention", operands, f"s{k} {presents}", num_heads=HEADS, unidirectional=1))
        nodes += [node("Add", f"y{k} s{k}", f"z{k}"), node("MatMul", f"z{k} q{k}", f"q{k}x")]
        cross = "past" if past else "present"
        operands = f"q{k}x {cross}_key_cross_{k} {cross}_value_cross_{k}" + " - encoder_attention_mask" * masked
        nodes += [node("MultiHeadAttention", operands, f"c{k}", num_heads=HEADS), node("Add", f"z{k} c{k}", f"y{k + 1}")]
    return [*nodes, node("MatMul", f"y{LAYERS} head", "logits")]


def _decoder_weights(seed: int) -> list[TensorProto]:
    queries = {f"q{k}": (WIDTH, WIDTH) for k in range(LAYERS)}
    return weights(seed, words=(VOCABULARY, WIDTH), head=(WIDTH, VOCABULARY), **queries)


def _cross(seed: int) -> tuple[Nodes, list[TensorProto]]:
    """Keys and values of an encoder's hidden states."""
    nodes = []
    for k in range(LAYERS):
        for part in ("key", "value"):
            nodes.append(node("MatMul", f"encoder_hidden_states {part}{k}", f"{part}{k}x"))
            nodes.append(node("Reshape", f"{part}{k}x split", f"{part}{k}y"))
            nodes.append(node("Transpose", f"{part}{k}y", f"present_{part}_cross_{k}", perm=[0, 2, 1, 3]))
    matrices = {f"{part}{k}": (WIDTH, WIDTH) for k in range(LAYERS) for part in ("key", "value")}
    stored = weights(seed + 1, letters=(VOCABULARY, WIDTH), **matrices)
    return nodes, [*stored, numpy_helper.from_array(_SPLIT["split"], "split")]


def t5_encoder(seed: int = 0, joined: bool = True) -> GraphProto:
    """joined: with the decoder's first turn, and hidden states that a decoder may read."""
    nodes, stored = _cross(seed)
    nodes.insert(0, node("Gather", "letters encoder_input_ids", "encoder_hidden_states"))
    inputs = [info("encoder_input_ids", INT, "B", "L"), info("encoder_attention_mask", INT, "B", "L")]
    cross = _cache("cross", "L")
    if not joined:
        return helper.make_graph(nodes, "encoder", inputs, cross, stored)
    inputs.append(info("decoder_input_ids", INT, "B", 1))
    outputs = [info("logits", FLOAT, "B", 1, VOCABULARY), info("encoder_hidden_states", FLOAT, "B", "L", WIDTH)]
    outputs += [*_cache("self", "S"), *cross]
    return helper.make_graph(
        nodes + _turn("decoder_input_ids", past=False), "encoder", inputs, outputs, stored + _decoder_weights(seed)
    )


def t5_decoder(seed: int = 0, hidden: bool = True, whole: bool = False) -> GraphProto:
    """whole: it is given whole sequences, and looks at their last token."""
    inputs = [info("input_ids", INT, "B", "S" if whole else 1), info("encoder_attention_mask", INT, "B", "L")]
    inputs += [info("encoder_hidden_states", FLOAT, "B", "L", WIDTH)] if hidden else []
    inputs += [*_cache("self", "P", "past"), *_cache("cross", "L", "past")]
    outputs = [info("logits", FLOAT, "B", 1, VOCABULARY), *_cache("self", "T")]
    stored = _decoder_weights(seed)
    if not whole:
        return helper.make_graph(_turn("input_ids", past=True), "decoder", inputs, outputs, stored)
    stored.append(numpy_helper.from_array(np.array([-1], np.int64), "end"))
    nodes = [node("Gather", "input_ids end", "last", axis=1), *_turn("last", past=True)]
    return helper.make_graph(nodes, "decoder", inputs, outputs, stored)


def t5_decoder_with_prompt(seed: int = 0, hidden: bool = True) -> GraphProto:
    """Like t5_decoder, with the encoder's tokens in second place, whose mean is added to each token."""
    body = t5_decoder(seed, hidden)
    tokens, *rest = body.node
    tokens.output[0] = "y"
    mean = [node("Gather", "words encoder_input_ids", "prompt"), node("ReduceMean", "prompt", "mean", axes=[1])]
    first, *others = body.input
    inputs = [first, info("encoder_input_ids", INT, "B", "L"), *others]
    return helper.make_graph(
        [tokens, *mean, node("Add", "y mean", "y0"), *rest], "decoder", inputs, body.output, body.initializer
    )


def whisper_encoder(seed: int = 0) -> GraphProto:
    """Reads features (B, WIDTH, L), and has the decoder's first turn in it, of several tokens."""
    nodes, stored = _cross(seed)
    nodes.insert(0, node("Transpose", "encoder_input_ids", "encoder_hidden_states", perm=[0, 2, 1]))
    inputs = [info("encoder_input_ids", FLOAT, "B", WIDTH, "L"), info("decoder_input_ids", INT, "B", "S")]
    outputs = [info("logits", FLOAT, "B", "S", VOCABULARY), info("encoder_hidden_states", FLOAT, "B", "L", WIDTH)]
    outputs += [*_cache("self", "S"), *_cache("cross", "L")]
    nodes += _turn("decoder_input_ids", past=False, masked=False)
    return helper.make_graph(nodes, "encoder", inputs, outputs, stored + _decoder_weights(seed))


def whisper_decoder(seed: int = 0, hidden: bool = False, whole: bool = False) -> GraphProto:
    """Like t5_decoder, without a mask."""
    body = t5_decoder(seed, hidden, whole)
    turn = _turn("last" if whole else "input_ids", past=True, masked=False)
    kept = [value for value in body.input if value.name != "encoder_attention_mask"]
    nodes = [*list(body.node)[: len(body.node) - len(turn)], *turn]
    return helper.make_graph(nodes, "decoder", kept, body.output, body.initializer)
