"""Small cases for the operators that ONNX has no schema of, nearly all com.microsoft's: what mutants of them begin with.

Nothing here says what is right.
"""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, Input, case
from tests.conformance.versions.control_flow import body
from tests.cpu.check import ints, ramp


def own(op_type: str, *inputs: Input, constants: tuple[int, ...] = (), outputs: int = 1, **attributes: Any) -> Case:
    return case(op_type, *inputs, domain="com.microsoft", constants=constants, outputs=outputs, types=(), **attributes)


def scalar(value: float, dtype: str = "float32") -> Array:
    return np.array(value, dtype)


def level(scale: float, zero: int = 3, dtype: str = "uint8") -> list[Input]:
    """Scale and zero point."""
    return [scalar(scale), scalar(zero, dtype)]


def byte(*shape: int, dtype: str = "uint8") -> Array:
    return np.asarray(ramp(shape, dtype))


HEADS, SIZE = 2, 4
WIDTH = HEADS * SIZE
ROWS = ramp((2, 3, WIDTH))
PAST = ramp((2, HEADS, 5, SIZE))
ATTENTION = [
    own("Attention", ramp((2, 3, 6)), ramp((6, 3 * WIDTH)), ramp((3 * WIDTH,)), constants=(1, 2), num_heads=HEADS),
    own(
        "Attention", ramp((2, 3, 6)), ramp((6, 3 * WIDTH)), ramp((3 * WIDTH,)), np.array([3, 2], np.int32),
        ramp((2, 2, HEADS, 5, SIZE)), outputs=2, num_heads=HEADS, unidirectional=1,
    ),
    own(
        "Attention", ramp((2, 3, 6)), ramp((6, 2 * WIDTH + 6)), ramp((2 * WIDTH + 6,)), num_heads=HEADS,
        qkv_hidden_sizes=[WIDTH, WIDTH, 6],
    ),
    own("MultiHeadAttention", ROWS, ramp((2, 7, WIDTH)), ramp((2, 7, 6)), num_heads=HEADS, scale=0.3),
    own(
        "MultiHeadAttention", ROWS, ROWS, ROWS, ramp((3 * WIDTH,)), np.ones((2, 8), np.int32), None, PAST, PAST,
        outputs=3, constants=(3,), num_heads=HEADS, unidirectional=1,
    ),
    own("MultiHeadAttention", ROWS, PAST, PAST, None, None, ramp((1, HEADS, 3, 5)), num_heads=HEADS),
    own("MultiHeadAttention", ramp((2, 3, HEADS, 3, SIZE)), None, None, num_heads=HEADS),
    own("MultiHeadAttention", ROWS, ROWS, ROWS, None, None, None, PAST, PAST, np.array([1], np.int32), outputs=3, num_heads=HEADS),
    own(
        "DecoderMaskedMultiHeadAttention", ROWS[:, :1], ROWS[:, :1], ROWS[:, :1], None, None, PAST, PAST, np.array([4], np.int32),
        outputs=3, num_heads=HEADS, past_present_share_buffer=1,
    ),
    own(
        "DecoderMaskedMultiHeadAttention", ROWS[:, :1], ROWS[:, :1], ROWS[:, :1], None, None, PAST, PAST, np.array([4], np.int32),
        np.array([2], np.int32), np.array([[[0, 1, 0, 1, 0], [1, 1, 0, 0, 1]]], np.int32),
        outputs=3, num_heads=HEADS, past_present_share_buffer=1,
    ),
    own(
        "GroupQueryAttention", ramp((2, 1, 32)), ramp((2, 1, 16)), ramp((2, 1, 16)), ramp((2, 2, 9, 8)), ramp((2, 2, 9, 8)),
        np.array([9, 6], np.int32), scalar(10, "int32"), ramp((16, 4)), ramp((16, 4)),
        outputs=3, num_heads=4, kv_num_heads=2, do_rotary=1,
    ),
    own(
        "GroupQueryAttention", ramp((2, 5, 64)), None, None, None, None, np.array([4, 2], np.int32), scalar(5, "int32"),
        outputs=3, num_heads=4, kv_num_heads=2, local_window_size=3,
    ),
    own(
        "QAttention", byte(2, 3, 6), byte(6, 3 * WIDTH), ramp((3 * WIDTH,)), scalar(0.02), scalar(0.01),
        np.array([3, 2], np.int32), scalar(120, "uint8"), scalar(3, "uint8"), constants=(1, 2), num_heads=HEADS,
    ),
    own(
        "QAttention", byte(2, 3, 6), byte(6, 3 * WIDTH), ramp((3 * WIDTH,)), scalar(0.02), scalar(0.01), None,
        scalar(120, "uint8"), scalar(3, "uint8"), ramp((2, 2, HEADS, 3, SIZE)), outputs=2, num_heads=HEADS, unidirectional=1,
    ),
    own("RotaryEmbedding", ramp((2, 3, 16)), np.array([[0, 3, 9], [7, 6, 2]]), ramp((10, 4)), ramp((10, 4)), num_heads=2),
    own("RotaryEmbedding", ramp((2, 2, 3, 8)), ints(2), ramp((10, 4)), ramp((10, 4)), interleaved=1),
    own("BifurcationDetector", ints(1, 5, 3, 4, 2, 5, 3), ints(9), ints(0), ints(1, 5, 0, 4, 2, 5, 3, 7), outputs=2),
    own(
        "LinearAttention", ramp((2, 4, 6)), ramp((2, 4, 6)), ramp((2, 4, 10)), ramp((2, 2, 3, 5)), ramp((2, 4, 6)), ramp((2, 4, 2)),
        outputs=2, q_num_heads=2, kv_num_heads=2, update_rule="gated_delta",
    ),
    own("CausalConvWithState", ramp((2, 3, 7)), ramp((3, 1, 4)), ramp((3,)), ramp((2, 3, 3)), outputs=2, activation="silu"),
]  # fmt: skip

IDS = np.array([[0, 3, 8], [7, 6, 2]], np.int32)
TABLES = [ramp((9, 12)), ramp((6, 12)), ramp((2, 12))]
GAMMA = ramp((12,))
NORMALIZATION = [
    own("SkipLayerNormalization", ramp((2, 3, 12)), ramp((2, 3, 12)), GAMMA, GAMMA, GAMMA, outputs=4),
    own("SkipLayerNormalization", ramp((2, 3, 12)), ramp((3, 12)), GAMMA, constants=(2,), epsilon=0.1),
    own("SkipSimplifiedLayerNormalization", ramp((2, 3, 12)), ramp((1, 3, 12)), GAMMA, outputs=4),
    own("EmbedLayerNormalization", IDS, IDS % 2, *TABLES, GAMMA, GAMMA, IDS % 2, IDS % 6, constants=(2, 3, 4), outputs=3),
    own("EmbedLayerNormalization", IDS, None, *TABLES[:2], None, GAMMA, GAMMA, outputs=2),
    own("BiasGelu", ramp((2, 12)), GAMMA),
    own("FastGelu", ramp((2, 12)), GAMMA),
    own("Gelu", ramp((3, 20))),
    own("QuickGelu", ramp((3, 20)), alpha=1.5),
    case("SimplifiedLayerNormalization", ramp((3, 8)), ramp((8,)), types=()),
]

WINDOW: dict[str, Any] = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}
CONVOLUTION = [
    own(
        "FusedConv", ramp((1, 3, 6, 7)), ramp((4, 3, 3, 3)), ramp((4,)), ramp((1, 4, 4, 5)), constants=(1, 2), activation="Relu"
    ),
    own("FusedConv", ramp((1, 4, 6, 7)), ramp((4, 2, 3, 3)), group=2, activation="HardSigmoid", activation_params=[0.3, 0.4]),
    own("NhwcMaxPool", byte(2, 7, 6, 5), **WINDOW),
    own(
        "QLinearConv",
        byte(1, 3, 6, 7),
        *level(0.02),
        byte(4, 3, 3, 3, dtype="int8"),
        ramp((4,), low=0.01, high=0.1),
        np.zeros(4, np.int8),
        *level(2),
        ramp((4,), "int32"),
        constants=(3, 4, 5),
        channels_last=0,
    ),
    own(
        "QLinearConv",
        byte(1, 6, 7, 3),
        *level(0.02),
        byte(4, 3, 3, 3, dtype="int8"),
        *level(0.1, 0, "int8"),
        *level(2),
        channels_last=1,
    ),
    own("QLinearAveragePool", byte(2, 3, 6, 7), *level(0.03), *level(0.01), constants=(1, 2, 3, 4), **WINDOW),
    own("QLinearAveragePool", byte(2, 6, 7, 3), *level(0.03), *level(0.01), channels_last=1, count_include_pad=1, **WINDOW),
    own("QLinearGlobalAveragePool", byte(2, 3, 4, 5), *level(0.03), *level(0.01), channels_last=0),
]

LSTM = [
    ramp((3, 2, 5)),
    byte(1, 5, 28, dtype="int8"),
    byte(1, 7, 28, dtype="int8"),
    ramp((1, 56)),
    None,
    ramp((1, 2, 7)),
    ramp((1, 2, 7)),
    ramp((1, 21)),
    ramp((1,), low=0.01),
    np.zeros(1, np.int8),
    ramp((1,), low=0.01),
    np.zeros(1, np.int8),
]
_DECODER = body(
    """decoder (int32[B,S] input_ids, int32[B,S] position_ids, int32[B,T] attention_mask, float[2,B,2,P,3] past_0)
    => (float[B,S,5] logits, float[2,B,2,P,3] present_0)
    <float[5,5] t = {1,2,3,4,5, 5,1,2,3,4, 4,5,1,2,3, 3,4,5,1,2, 2,3,4,5,1}>
    { logits = Gather(t, input_ids) present_0 = Identity(past_0) }"""
)
_TOKENS = np.array([[1, 2], [3, 4]], np.int32)
_LENGTH, _TWO = np.array([5], np.int32), np.array([2], np.int32)
_ENDS: dict[str, Any] = {"eos_token_id": 0, "pad_token_id": 4, "decoder": _DECODER}
GENERATION = [
    own("GreedySearch", _TOKENS, _LENGTH, None, np.array([1.5], np.float32), no_repeat_ngram_size=2, **_ENDS),
    own("Sampling", _TOKENS, _LENGTH, None, np.array([1.5], np.float32), outputs=2, top_p=0.7, temperature=1.5, **_ENDS),
    own("BeamSearch", _TOKENS, _LENGTH, None, _TWO, _TWO, outputs=3, **_ENDS),
]
MATRICES = [
    own("FusedMatMul", ramp((2, 4, 3)), ramp((2, 5, 4)), transA=1, transB=1, alpha=0.5),
    own("FusedMatMul", ramp((3, 2, 4)), ramp((2, 5, 4)), transBatchA=1, transB=1),
    own("FusedGemm", ramp((3, 4)), ramp((4, 5)), ramp((5,)), constants=(1, 2), activation="Relu", alpha=2.0),
    own("FusedGemm", ramp((3, 4)), ramp((5, 4)), transB=1, activation="LeakyRelu", activation_alpha=0.3),
    own("MurmurHash3", ramp((3, 5)), positive=0),
    own("CDist", ramp((3, 7)), ramp((5, 7)), metric="euclidean"),
    own("Inverse", ramp((2, 3, 3))),
    own("DynamicQuantizeMatMul", ramp((3, 5, 9)), byte(9, 7, dtype="int8"), ramp((7,)), np.zeros(7, np.int8), ramp((7,))),
    own(
        "MatMulIntegerToFloat",
        byte(5, 9),
        byte(9, 7),
        scalar(0.1),
        scalar(0.02),
        *level(1, 4)[1:],
        ramp((7,), "uint8"),
        ramp((7,)),
    ),
    own("QGemm", byte(5, 9), *level(0.1), byte(9, 7), *level(0.02), ramp((7,), "int32"), *level(0.5), alpha=1.5),
    own("QGemm", byte(9, 5), *level(0.1), byte(7, 9), ramp((7,), low=0.1), np.zeros(7, np.uint8), transA=1, transB=1),
    own(
        "MatMulNBits",
        ramp((2, 3, 40)),
        byte(5, 3, 8),
        ramp((5, 3)),
        byte(5, 2),
        None,
        ramp((5,)),
        constants=(1, 2, 3),
        N=5,
        K=40,
        block_size=16,
        bits=4,
    ),
    own(
        "MatMulNBits",
        ramp((3, 64)),
        byte(6, 2, 32),
        ramp((6, 2)),
        None,
        (np.arange(64) // 32).astype(np.int32),
        constants=(1, 2),
        N=6,
        K=64,
        block_size=32,
        bits=8,
    ),
    own("DynamicQuantizeLSTM", *LSTM, outputs=3, constants=(1, 2, 8, 9, 10, 11), hidden_size=7, direction="forward"),
]

X, Y = [byte(2, 3, 4), *level(0.031)], [byte(3, 1), *level(0.0537)]
QUANTIZED = [
    own("QLinearAdd", *X, *Y, *level(0.07), constants=(1, 2, 4, 5, 6, 7)),
    own("QLinearMul", *X, *Y, *level(0.07)),
    own(
        "QLinearConcat", *level(0.05), byte(2, 3), *level(0.05), byte(2, 4), *level(0.03), constants=(0, 1, 3, 4, 6, 7), axis=1
    ),
    own("QLinearLeakyRelu", *X, *level(0.02), constants=(1, 2, 3, 4), alpha=0.1),
    own("QLinearSigmoid", *X, *level(0.004, 0), constants=(1, 2, 3, 4)),
    own("QLinearSoftmax", *X, *level(0.004, 0), axis=-1, opset=13),
    own("QLinearSoftmax", *X, *level(0.004, 0), axis=1, opset=12),
    own("QuantizeLinear", ramp((3, 4)), scalar(0.05), scalar(7, "uint8")),
    own("QuantizeLinear", ramp((3, 4)), ramp((4,), low=0.01), np.zeros(4, np.int16), axis=1),
    own("DequantizeLinear", byte(3, 4, dtype="int8"), *level(0.05, 7, "int8")),
    own("DequantizeLinear", byte(3, 4, dtype="int32"), scalar(0.05)),
]

TEXTS = np.array([["a few words", "one, two;three"], ["", "été  indien"]], object)
MOVING = [
    own("ExpandDims", ramp((3, 4)), scalar(1, "int32"), constants=(1,)),
    own("ExpandDims", np.array(["a", "b"], object), scalar(1, "int32"), constants=(1,)),
    own("GatherND", ramp((3, 4, 2)), np.array([[0, 1], [2, -1]])),
    own("GatherND", np.array([["a", "b"], ["c", "d"]], object), ints(1, 0)[None]),
    own("GatherND", np.array([[1j, 2], [3, 4 - 1j]]), ints(1, 0)[None]),
    own("Pad", ramp((3, 4)), ints(1, 0, 2, 1), scalar(7), mode="constant"),
    own("Pad", ramp((3, 4)), ints(1, 0, 2, 1), constants=(1,), mode="reflect"),
    own("Range", scalar(2), scalar(9), scalar(3), constants=(0, 1, 2)),
    own("Range", scalar(2, "int64"), scalar(7, "int64")),
    own("Trilu", ramp((2, 3, 4)), scalar(1, "int64"), upper=0),
    own("Unique", np.array([3, 1, 3, 2, 1, 3], np.float32), outputs=3),
    own("Unique", np.array(["b", "a", "b"], object), outputs=3),
    own("MurmurHash3", TEXTS, seed=3),
    own("Tokenizer", TEXTS, mark=1, pad_value="#", mincharnum=1, separators=[",", ";", " "]),
    own("Tokenizer", TEXTS[0], mark=0, pad_value="#", mincharnum=2, tokenexp="[a-z]+"),
]

CASES: tuple[Case, ...] = (*ATTENTION, *NORMALIZATION, *CONVOLUTION, *MATRICES, *GENERATION, *QUANTIZED, *MOVING)
