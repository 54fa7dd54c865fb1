"""Inputs and attributes of one node that contradict each other, or point outside of one another: the session or the run refuses them.

onnxruntime refuses most of these; the others it computes as nonsense, or reads beyond its tensors for them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import OrtLiteError
from tests.case_server import Outcome
from tests.hostile.building import operator_model


def run(op_type: str, *inputs: Array | None, fixed: bool = False, **form: Any) -> list[Any]:
    """The outputs of one node. form: see `operator_model`."""
    model = operator_model(op_type, inputs, fixed=fixed, **form)
    feeds: Mapping[str, Any] = {f"in{k}": array for k, array in enumerate(inputs) if array is not None}
    return list(ort_lite.InferenceSession(model.SerializeToString()).run(None, feeds))


def refused(words: str, op_type: str, *inputs: Array | None, **form: Any) -> Callable[[], None]:
    """The case: refused with a message that names the node and has these words, with open dimensions and with fixed ones."""

    def case() -> None:
        for fixed in (False, True):
            try:
                results = run(op_type, *inputs, fixed=fixed, **form)
            except OrtLiteError as error:
                message = str(error)
                assert "'n'" in message, message
                assert [word for word in words.split(", ") if word not in message] == [], message
            else:
                raise AssertionError(f"computed with {'fixed' if fixed else 'open'} dimensions: {results!r:.200}")

    return case


def legal(op_type: str, *inputs: Array | None, **form: Any) -> Callable[[], None]:
    """The case that is only strange: it runs, as in onnxruntime."""

    def case() -> None:
        for fixed in (False, True):
            run(op_type, *inputs, fixed=fixed, **form)

    return case


def zeros(*shape: int, dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


def int32(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def int64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


MS: dict[str, Any] = {"domain": "com.microsoft"}
ML: dict[str, Any] = {"domain": "ai.onnx.ml"}
ROWS = zeros(2, 3, 8)
"""Two samples, three rows, two heads of four."""
PAST = zeros(2, 2, 5, 4)
PROJECTION = [zeros(2, 3, 6), zeros(6, 24), zeros(24)]
GQA: dict[str, Any] = {**MS, "num_heads": 2, "kv_num_heads": 2, "outputs": 3}
NEW = zeros(2, 1, 8)
SHARED: dict[str, Any] = {**MS, "num_heads": 2, "past_present_share_buffer": 1, "outputs": 3}
DECODER = [NEW, NEW, NEW, None, None, PAST, PAST, int32(4)]
PLAIN: dict[str, Any] = {"opset": 24, "q_num_heads": 2, "kv_num_heads": 2}
TREE: dict[str, Any] = {
    **ML,
    "opset": 5,
    "n_targets": 1,
    "nodes_modes": np.array([0], np.uint8),
    "nodes_featureids": [0],
    "nodes_splits": zeros(1),
    "nodes_truenodeids": [0],
    "nodes_falsenodeids": [1],
    "nodes_trueleafs": [1],
    "nodes_falseleafs": [1],
    "tree_roots": [0],
    "leaf_targetids": [0, 0],
    "leaf_weights": zeros(2),
}
OLD_TREE: dict[str, Any] = {
    **ML,
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
    "n_targets": 1,
}
X = zeros(2, 3)
SVM: dict[str, Any] = {
    **ML,
    "outputs": 2,
    "classlabels_ints": [0, 1],
    "vectors_per_class": [1, 1],
    "support_vectors": [0.0] * 6,
    "coefficients": [0.0] * 2,
    "rho": [0.0],
    "kernel_type": "RBF",
    "kernel_params": [1.0, 0.0, 3.0],
}
GRAMS: dict[str, Any] = {
    "mode": "TF",
    "min_gram_length": 1,
    "max_gram_length": 1,
    "max_skip_count": 0,
    "ngram_counts": [0],
    "ngram_indexes": [0, 1],
    "pool_int64s": [2, 3],
}
BYTE = np.zeros((), np.uint8)
ONE = np.ones((), np.float32)
B = zeros(3, 4, dtype=np.uint8)
ITEMS = [zeros(1, 4, 6)]


def of(op_type: str, *inputs: Array | None, **form: Any) -> Callable[..., Callable[[], None]]:
    """A function from words, more inputs and a further form to the case of an operator; without words it is a legal one."""

    def made(words: str, *more: Array | None, **further: Any) -> Callable[[], None]:
        every = [*inputs, *more]
        return refused(words, op_type, *every, **form, **further) if words else legal(op_type, *every, **form, **further)

    return made


attention = of("Attention", *PROJECTION, **MS, num_heads=2)
many_heads = of("MultiHeadAttention", ROWS, ROWS, ROWS, None, **MS, num_heads=2)
decoding = of("DecoderMaskedMultiHeadAttention", **SHARED)
grouped = of("GroupQueryAttention", **GQA)
plain = of("Attention", ROWS, ROWS, ROWS, None, **PLAIN)

CASES: dict[str, Callable[[], None]] = {
    # --- Attention of com.microsoft
    "a mask of other columns": attention("mask_index, is 4; it should be 1 or 3", zeros(2, 4, dtype=np.int32)),
    "a mask of other rows": attention("mask_index, 2, S is 3", zeros(2, 2, 3, dtype=np.int32)),
    "a mask index beyond": attention("", int32(3, 4)),
    "a mask index below": attention("sample 0 is -1", int32(-1, 3)),
    "a mask start beyond": attention("", int32(3, 3, 9, 0)),
    "a bias of other columns": attention("attention_bias, 4, P+S is 3", None, None, zeros(2, 2, 3, 4)),
    "a bias of other rows": attention("attention_bias, 1, S is 3", None, None, zeros(2, 2, 1, 3)),
    "a bias that broadcasts": attention("", None, None, zeros(1, 1, 3, 3)),
    "a mask index at the end": attention("", int32(3, 0)),
    "a key padding mask of other columns": many_heads("mask does not fit, 4, 3", zeros(2, 4, dtype=np.int32)),
    "a key padding mask without the past": many_heads(
        "mask does not fit, 3, 8", zeros(2, 3, dtype=np.int32), None, PAST, PAST, outputs=3
    ),
    "pasts of other lengths": decoding("past_value, 6, P is 5", *DECODER[:6], zeros(2, 2, 6, 4), int32(4)),
    "a past of no length": decoding("past_sequence_length", *DECODER[:7]),
    "two past lengths": decoding("2 elements", *DECODER[:7], int32(4, 4)),
    "a past length beyond the buffer": decoding("past of 5", *DECODER[:7], int32(5)),
    "another beam_width": decoding("beam_width is 3, 2 beams", *DECODER, int32(3), zeros(1, 2, 5, dtype=np.int32)),
    "beam_width without beams": decoding("beam_width is 2", *DECODER, int32(2)),
    "beams of another buffer": decoding("cache_indirection, 4, 5", *DECODER, int32(2), zeros(1, 2, 4, dtype=np.int32)),
    "a beam that is not there": decoding("beam 2, [0", *DECODER, int32(2), np.full((1, 2, 5), 2, np.int32)),
    "beams that fit": decoding("", *DECODER, int32(2), zeros(1, 2, 5, dtype=np.int32)),
    # --- GroupQueryAttention: past 5, one new row
    "a length beyond the total": grouped(
        "key 3 at position 1, total_sequence_length is 3", NEW, NEW, NEW, PAST, PAST, int32(2, 3), int32(3)
    ),
    "a length below zero": grouped("key -1 at position 0", NEW, NEW, NEW, PAST, PAST, int32(-1, 2), int32(3)),
    "a length of a prompt beyond": grouped("key 3 at position 0", ROWS, ROWS, ROWS, None, None, int32(3, 2), int32(3)),
    "a total without room": grouped("total_sequence_length is 8, 5", NEW, NEW, NEW, PAST, PAST, int32(7, 7), int32(8)),
    "a total of a prompt": grouped("total_sequence_length is 4, 3 new", ROWS, ROWS, ROWS, None, None, int32(2, 2), int32(4)),
    "a total below the rows": grouped("total_sequence_length is 2, 3 new", ROWS, ROWS, ROWS, PAST, PAST, int32(1, 1), int32(2)),
    "two totals": grouped("2 elements", NEW, NEW, NEW, PAST, PAST, int32(2, 2), int32(3, 3)),
    "lengths that fit": grouped("", NEW, NEW, NEW, PAST, PAST, int32(2, 1), int32(3)),
    # --- Attention of ONNX
    "more keys than there are": plain("length 4 at position 1, [0", None, None, int64(3, 4)),
    "keys below zero": plain("length -1 at position 0", None, None, int64(-1, 3)),
    "lengths for another batch": plain("nonpad_kv_seqlen, 3, 2", None, None, int64(1, 1, 1)),
    "lengths beside a past": plain("nonpad_kv_seqlen", PAST, PAST, int64(3, 3), outputs=3),
    "lengths that are keys": plain("", None, None, int64(3, 0)),
    "interleaved as 2": refused(
        "interleaved",
        "RotaryEmbedding",
        ROWS,
        zeros(2, 3, dtype=np.int64),
        zeros(9, 2),
        zeros(9, 2),
        **MS,
        num_heads=2,
        interleaved=2,
    ),
    "a position beyond the caches": refused(
        "position 9", "RotaryEmbedding", ROWS, np.full((2, 3), 9), zeros(9, 2), zeros(9, 2), **MS, num_heads=2
    ),
    "a circular start below zero": refused(
        "-1", "TensorScatter", zeros(2, 4, 3), zeros(2, 1, 3), int64(0, -1), opset=24, mode="circular"
    ),
    "starts of another rank": refused(
        "write_indices", "TensorScatter", zeros(2, 4, 3), zeros(2, 1, 3), zeros(2, 1, dtype=np.int64), opset=24
    ),
    # --- ai.onnx.ml
    "a root below zero": refused("below zero", "TreeEnsemble", X, **{**TREE, "tree_roots": [-1]}),
    "a child below zero": refused("below zero", "TreeEnsemble", X, **{**TREE, "nodes_falsenodeids": [-1]}),
    "a root that is no node": refused("root", "TreeEnsemble", X, **{**TREE, "tree_roots": [1]}),
    "sets without nodes": refused(
        "membership_values, 1 sets", "TreeEnsemble", X, **TREE, membership_values=np.array([1, np.nan], np.float32)
    ),
    "tracks for another number of nodes": refused(
        "nodes_missing_value_tracks_true", "TreeEnsemble", X, **TREE, nodes_missing_value_tracks_true=[1, 1]
    ),
    "a target that is not there": refused("targets", "TreeEnsemble", X, **{**TREE, "leaf_targetids": [0, -1]}),
    "a feature that rows lack": refused("features", "TreeEnsemble", X, **{**TREE, "nodes_featureids": [3]}),
    "a mode that is unknown": refused(
        "BRANCH_FOO", "TreeEnsembleRegressor", X, **{**OLD_TREE, "nodes_modes": ["BRANCH_FOO", "LEAF", "LEAF"]}
    ),
    "old tracks for too few nodes": refused(
        "tracks_true", "TreeEnsembleRegressor", X, **OLD_TREE, nodes_missing_value_tracks_true=[1]
    ),
    "an ensemble": legal("TreeEnsembleRegressor", X, **OLD_TREE),
    "an index from the end": refused("index -1 at position 0", "ArrayFeatureExtractor", X, int64(-1), **ML),
    "no index": refused("no indices", "ArrayFeatureExtractor", X, zeros(0, dtype=np.int64), **ML),
    "intercepts for other targets": refused(
        "3 intercepts", "LinearRegressor", X, **ML, coefficients=[0.0] * 6, intercepts=[0.0] * 3, targets=2
    ),
    "two kinds of labels": refused("classlabels", "SVMClassifier", X, **SVM, classlabels_strings=["a", "b"]),
    "vectors below zero": refused("vectors_per_class", "SVMClassifier", X, **{**SVM, "vectors_per_class": [1, -1]}),
    "two kernel parameters": refused("kernel_params", "SVMClassifier", X, **{**SVM, "kernel_params": [1.0, 0.0]}),
    "rho of another number of pairs": refused("rho", "SVMClassifier", X, **{**SVM, "rho": [0.0, 0.0]}),
    "two kinds of categories": refused(
        "cats_", "OneHotEncoder", zeros(3, dtype=np.int64), **ML, cats_int64s=[0, 1], cats_strings=["a"]
    ),
    "scales of another number": refused("2 offsets", "Scaler", X, **ML, scale=[1.0, 1.0, 1.0], offset=[0.0, 0.0]),
    "rows of rank 3": refused("rank 3", "Scaler", zeros(2, 2, 3), **ML, scale=[1.0], offset=[0.0]),
    "an n-gram twice": refused("twice", "TfIdfVectorizer", int64(1, 2), **{**GRAMS, "pool_int64s": [2, 2]}),
    "n-grams without a count": refused("max_gram_length", "TfIdfVectorizer", int64(1, 2), **{**GRAMS, "max_gram_length": 2}),
    "n-grams of rank 3": refused("rank 3", "TfIdfVectorizer", zeros(1, 2, 2, dtype=np.int64), **GRAMS),
    "n-grams": legal("TfIdfVectorizer", int64(1, 2), **GRAMS),
    # --- Quantised operators
    "a zero point for another scale": refused("scale, zero", "DequantizeLinear", B, zeros(4), zeros(1, dtype=np.uint8)),
    "a scale of y alone": refused("zero point", "QGemm", zeros(2, 3, dtype=np.uint8), ONE, BYTE, B, ONE, BYTE, None, ONE, **MS),
    "a bias for other columns": refused(
        "bias", "MatMulIntegerToFloat", zeros(2, 3, dtype=np.uint8), B, ONE, ONE, BYTE, BYTE, zeros(1), **MS
    ),
    "another g_idx": refused(
        "block 2",
        "MatMulNBits",
        zeros(1, 32),
        zeros(2, 2, 8, dtype=np.uint8),
        zeros(4),
        None,
        np.full(32, 2, np.int32),
        **MS,
        N=2,
        K=32,
        block_size=16,
        bits=4,
    ),
    # --- Sizes and positions
    "a frame longer than the signal": refused("frame", "STFT", zeros(1, 10, 1), int64(4)[0], None, int64(12)[0], opset=17),
    "two lengths of a transform": refused("2 elements", "DFT", ITEMS[0][..., None], int64(4, 4)),
    "a step of two numbers": refused("input 2", "Range", int64(0)[0], int64(5)[0], int64(1, 1)),
    "a shape of rank 2": refused("rank 2", "Expand", X, int64(2, 3)[None]),
    "a shape of rank 2 to fill": refused("rank 2", "ConstantOfShape", int64(2, 3)[None]),
    "exclusive as 2": refused("exclusive", "CumSum", X, int64(0)[0], exclusive=2),
    "a mirror of what is cut": refused("reflect", "Pad", X, int64(0, -1, 0, 2), mode="reflect"),
    "ranks of transposed batches": refused("ranks", "FusedMatMul", zeros(3, 2, 4), zeros(4, 5), **MS, transBatchA=1),
    "parameters of an activation": refused(
        "activation_params",
        "FusedConv",
        zeros(1, 1, 4, 4),
        zeros(1, 1, 2, 2),
        **MS,
        activation="HardSigmoid",
        activation_params=[0.2],
    ),
    "tokens of rank 2": refused("rank 2", "BifurcationDetector", int64(1, 2)[None], int64(9), int64(0), **MS, outputs=2),
}


@pytest.mark.parametrize("name", CASES)
def test_inputs_that_contradict_each_other_are_refused(outcome: Outcome, name: str) -> None:
    assert outcome(__name__, name, seconds=60) == ""
