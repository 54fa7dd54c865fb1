"""Workloads by registration whose worst shapes do not grow out of small cases: each would run from a second to days."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from ort_lite.dtypes import Array
from tests.hostile.building import operator_model
from tests.hostile.strings import ML

MICROSOFT = "com.microsoft"


class Workload(NamedTuple):
    """A model with feeds. `what` says what is large."""

    what: str
    model: onnx.ModelProto
    feeds: Mapping[str, Any]
    shapes: str = ""


Make = Callable[[], Workload]


def one(what: str, op_type: str, *arrays: Array | None, **form: Any) -> Workload:
    """Return a workload of one node. `form`: as for `operator_model`, with constants at some positions."""
    model = operator_model(op_type, arrays, **form)
    fed = [k for k, array in enumerate(arrays) if array is not None and k not in form.get("constants", ())]
    feeds = {f"in{k}": arrays[k] for k in fed}
    shapes = ", ".join("x".join(map(str, array.shape)) or "scalar" for array in arrays if array is not None)
    return Workload(what, model, feeds, shapes)


def f32(*shape: int) -> Array:
    """Return numbers from -1 to 1, in no order; 2 ns each."""
    count = int(np.prod(shape))
    mixed = (np.arange(count, dtype=np.uint32) * np.uint32(2654435761)).view(np.int32)
    return (mixed / np.float32(2**31)).astype(np.float32).reshape(shape)


def zeros(*shape: int, dtype: Any = np.float32) -> Array:
    """Return zeros, whose pages are not there until they are read."""
    return np.zeros(shape, dtype)


def i64(*numbers: int) -> Array:
    """Return integers in one axis."""
    return np.array(numbers, np.int64)


def i32(*numbers: int) -> Array:
    """Return integers of 32 bits in one axis."""
    return np.array(numbers, np.int32)


def scalar(value: float) -> Array:
    """Return a float32 without an axis."""
    return np.array(value, np.float32)


def boxes(count: int) -> Array:
    """Return boxes that do not meet."""
    at = np.arange(count, dtype=np.float32)
    return np.stack([at, at, at + 0.5, at + 0.5], -1)[None]


def scattered(count: int) -> Array:
    """Return each position once, in no order."""
    return np.arange(count) * 7919 % count


def _grams(items: int) -> Workload:
    """Count n-grams of three equal items, as far apart as they may be: a quarter of a square."""
    fields: dict[str, Any] = {"mode": "TF", "min_gram_length": 3, "max_gram_length": 3, "max_skip_count": 2**31 - 1}
    fields |= {"ngram_counts": [0, 0, 0], "ngram_indexes": [0], "pool_int64s": [0, 0, 0]}
    return one("items any distance apart", "TfIdfVectorizer", np.zeros(items, np.int64), **fields)


def _trees(rows: int, trees: int, depth: int) -> Workload:
    """Return full trees over two features."""
    inner, count = 2**depth - 1, 2 ** (depth + 1) - 1
    node = np.arange(count)
    modes = ["BRANCH_LEQ" if k < inner else "LEAF" for k in range(count)] * trees
    fields: dict[str, Any] = {
        "nodes_treeids": np.repeat(np.arange(trees), count).tolist(),
        "nodes_nodeids": np.tile(node, trees).tolist(),
        "nodes_featureids": np.tile(node % 2, trees).tolist(),
        "nodes_values": f32(count * trees).tolist(),
        "nodes_modes": modes,
        "nodes_truenodeids": np.tile(np.where(node < inner, 2 * node + 1, 0), trees).tolist(),
        "nodes_falsenodeids": np.tile(np.where(node < inner, 2 * node + 2, 0), trees).tolist(),
        "target_treeids": np.repeat(np.arange(trees), count - inner).tolist(),
        "target_nodeids": np.tile(node[inner:], trees).tolist(),
        "target_ids": [0] * (trees * (count - inner)),
        "target_weights": f32(trees * (count - inner)).tolist(),
    }
    return one("rows and trees", "TreeEnsembleRegressor", f32(rows, 2), domain=ML, n_targets=1, **fields)


def _machine(rows: int, features: int, vectors: int) -> Workload:
    fields: dict[str, Any] = {"kernel_type": "RBF", "kernel_params": [0.3, 0.5, 3.0], "n_supports": vectors, "rho": [0.3]}
    fields |= {"support_vectors": f32(vectors * features).tolist(), "coefficients": f32(vectors).tolist()}
    return one("rows and vectors", "SVMRegressor", f32(rows, features), domain=ML, **fields)


def _sparse() -> Workload:
    """Multiply matrices of which the left one is declared as sparse, and full."""
    a = helper.make_value_info("a", helper.make_sparse_tensor_type_proto(1, [3000, 3000]))
    b = helper.make_tensor_value_info("b", 1, [3000, 3000])
    made = helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], "n", domain=MICROSOFT)
    graph = helper.make_graph([made], "g", [a, b], [helper.make_tensor_value_info("y", 1, None)])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    feeds = {"a": f32(3000, 3000), "b": f32(3000, 3000)}
    return Workload("square matrices", helper.make_model(graph, opset_imports=imports, ir_version=8), feeds)


def _experts() -> Workload:
    """Send many tokens through experts of 4 bits."""
    codes, scales = np.full((8, 1024, 512), 0x79, np.uint8), np.full((8, 1024), 0.01, np.float32)
    operands = [f32(8192, 1024), f32(8192, 8), codes, scales, None, codes, scales]
    return one("many tokens", "QMoE", *operands, domain=MICROSOFT, k=4)


def _attention(op_type: str, length: int, **form: Any) -> Workload:
    return one("a long sequence", op_type, *[f32(1, length, 64)] * 3, **form)


NUMBERS: dict[str, list[Make]] = {
    "AffineGrid": [lambda: one("a fine grid", "AffineGrid", f32(8, 2, 3), i64(8, 1, 6000, 4000))],
    "Attention": [lambda: one("a long sequence", "Attention", *(f32(1, 1, 20_000, 16) for _ in range(3)), opset=23)],
    "AveragePool": [lambda: one("a large window", "AveragePool", zeros(1, 1, 4000, 4000), kernel_shape=[3000, 3000])],
    "BitShift": [lambda: one("one long row", "BitShift", *[np.ones(1 << 29, np.uint8)] * 2, direction="LEFT")],
    "Compress": [lambda: one("one of two", "Compress", f32(1 << 27), np.arange(1 << 27) % 2 == 0)],
    "Constant": [lambda: one("a long tensor", "Constant", value=zeros(1 << 27))],
    "ConstantOfShape": [lambda: one("a long tensor", "ConstantOfShape", i64(1 << 29), value=np.ones(1, np.float32))],
    "Conv": [lambda: one("a large window", "Conv", zeros(1, 1, 1500, 1500), zeros(1, 1, 700, 700))],
    "ConvTranspose": [lambda: one("large windows", "ConvTranspose", zeros(1, 64, 200, 200), zeros(64, 64, 31, 31))],
    "CumProd": [lambda: one("one long axis", "CumProd", zeros(1, 1 << 27), i64(1)[0], opset=26)],
    "CumSum": [lambda: one("long axes", "CumSum", zeros(40, 3_000_000), i64(0), constants=[1])],
    "DFT": [lambda: one("a length that is a prime", "DFT", f32(1, 3_000_017, 1))],
    "DequantizeLinear": [
        lambda: one("one long row", "DequantizeLinear", zeros(1 << 28, dtype=np.uint8), scalar(0.5), opset=13)
    ],
    "Det": [lambda: one("one matrix", "Det", f32(4000, 4000)), lambda: one("small matrices", "Det", f32(20_000_000, 2, 2))],
    "Einsum": [lambda: one("products", "Einsum", *[zeros(2000, 2000)] * 3, equation="ij,jk,kl->il")],
    "Expand": [lambda: one("a long tensor", "Expand", f32(1, 1), i64(1 << 14, 1 << 14))],
    "EyeLike": [lambda: one("a large matrix", "EyeLike", zeros(20_000, 20_000))],
    "GRU": [lambda: one("many steps", "GRU", zeros(600_000, 1, 64), *[zeros(1, 192, 64)] * 2, hidden_size=64)],
    "Gather": [lambda: one("indices in no order", "Gather", f32(1 << 26), scattered(1 << 26))],
    "GatherElements": [lambda: one("indices in no order", "GatherElements", f32(1 << 26), scattered(1 << 26))],
    "GridSample": [lambda: one("a fine grid", "GridSample", zeros(1, 64, 64, 64), zeros(1, 1000, 1000, 2), mode="cubic")],
    "HannWindow": [lambda: one("a long window", "HannWindow", i64(1 << 28)[0])],
    "Identity": [lambda: one("a long tensor", "Identity", f32(1 << 28))],
    "LRN": [lambda: one("many channels", "LRN", zeros(1, 100_000, 10, 1), size=99_999)],
    "LSTM": [lambda: one("many steps", "LSTM", zeros(400_000, 1, 64), *[zeros(1, 256, 64)] * 2, hidden_size=64)],
    "LinearAttention": [
        lambda: _attention("LinearAttention", 1 << 20, opset=27, q_num_heads=4, kv_num_heads=4, update_rule="linear", outputs=2)
    ],
    "LpPool": [lambda: one("a large window", "LpPool", zeros(1, 1, 2000, 2000), kernel_shape=[1000, 1000])],
    "MatMul": [
        lambda: one("square matrices", "MatMul", zeros(3000, 3000), zeros(3000, 3000)),
        lambda: one("a deep product", "MatMul", zeros(8, 1 << 24), zeros(1 << 24, 1)),
        lambda: one("small matrices", "MatMul", zeros(1 << 23, 2, 2), zeros(1 << 23, 2, 2)),
    ],
    "MatMulInteger": [lambda: one("square matrices", "MatMulInteger", *[np.zeros((6000, 6000), np.uint8)] * 2)],
    "MaxPool": [lambda: one("a large window", "MaxPool", zeros(1, 1, 4000, 4000), kernel_shape=[3000, 3000])],
    "MelWeightMatrix": [
        lambda: one("a fine matrix", "MelWeightMatrix", i64(1000)[0], i64(500_000)[0], i64(16000)[0], scalar(0), scalar(8000))
    ],
    "Multinomial": [lambda: one("many samples", "Multinomial", zeros(1, 1 << 20), sample_size=20_000_000)],
    "NegativeLogLikelihoodLoss": [
        lambda: one("short rows", "NegativeLogLikelihoodLoss", f32(1 << 26, 2), np.zeros(1 << 26, np.int64), reduction="none")
    ],
    "NonMaxSuppression": [
        lambda: one(
            "boxes that do not meet",
            "NonMaxSuppression",
            boxes(400_000),
            np.arange(400_000, dtype=np.float32)[None, None],
            i64(400_000),
            constants=[2],
        )
    ],
    "NonZero": [lambda: one("all of them", "NonZero", np.ones((1 << 24, 2), np.bool_))],
    "OneHot": [lambda: one("many classes", "OneHot", scattered(1 << 14), i64(1 << 14), np.array([0, 1], np.float32))],
    "Pad": [lambda: one("wide edges", "Pad", f32(100, 100), i64(8000, 8000, 8000, 8000))],
    "RandomNormal": [lambda: one("a long tensor", "RandomNormal", shape=[60_000_000])],
    "RandomUniform": [lambda: one("a long tensor", "RandomUniform", shape=[1 << 28])],
    "Range": [lambda: one("a long tensor", "Range", i64(0)[0], i64(1 << 28)[0], i64(1)[0])],
    "ReduceLogSumExp": [lambda: one("one row", "ReduceLogSumExp", f32(1, 1 << 27), i64(1))],
    "ReduceSum": [lambda: one("short rows", "ReduceSum", f32(1 << 26, 2), i64(1))],
    "Resize": [
        lambda: one("a large image", "Resize", f32(1, 1, 100, 100), None, None, i64(1, 1, 12_000, 12_000), mode="cubic")
    ],
    "ReverseSequence": [
        lambda: one("a long sequence", "ReverseSequence", f32(1 << 25, 2), i64(1 << 25, 1 << 25), batch_axis=1, time_axis=0)
    ],
    "RoiAlign": [
        lambda: one("many samples", "RoiAlign", zeros(1, 1, 9, 9), f32(1000, 4), np.zeros(1000, np.int64), sampling_ratio=1000)
    ],
    "STFT": [lambda: one("many frames", "STFT", zeros(1, 300_000, 1), np.array(1), None, np.array(1023), constants=[1, 3])],
    "ScatterElements": [
        lambda: one("one place each", "ScatterElements", zeros(1 << 25), scattered(1 << 25), zeros(1 << 25), reduction="add")
    ],
    "ScatterND": [lambda: one("one place each", "ScatterND", zeros(1 << 25), scattered(1 << 25)[:, None], zeros(1 << 25))],
    "Slice": [lambda: one("backwards", "Slice", f32(1 << 27), i64(-1), i64(-(2**62)), i64(0), i64(-1))],
    "Softmax": [
        lambda: one("one row", "Softmax", f32(1, 1 << 27)),
        lambda: one("short rows", "Softmax", f32(1 << 26, 2)),
    ],
    "TfIdfVectorizer": [lambda: _grams(1 << 20)],
    "Tile": [lambda: one("a long tensor", "Tile", f32(3), i64(1 << 27))],
    "TopK": [
        lambda: one("one row", "TopK", f32(1, 6_000_000), i64(3_000_000), constants=[1], outputs=2),
        lambda: one("short rows", "TopK", f32(1 << 25, 4), i64(2), constants=[1], outputs=2),
        lambda: one("all of one row", "TopK", f32(1, 1 << 23), i64(1 << 23), outputs=2),
    ],
    "Transpose": [
        lambda: one("a large matrix", "Transpose", f32(12_000, 12_000)),
        lambda: one("short rows", "Transpose", f32(1 << 26, 2)),
    ],
    "Trilu": [lambda: one("a large matrix", "Trilu", zeros(12_000, 12_000))],
    "Unique": [
        lambda: one("one row", "Unique", f32(5_000_000)),
        lambda: one("rows", "Unique", f32(1 << 22, 4), axis=0, outputs=4),
    ],
    "ai.onnx.ml.SVMRegressor": [lambda: _machine(20_000, 100, 2000)],
    "ai.onnx.ml.TreeEnsembleRegressor": [lambda: _trees(1 << 20, 100, 8)],
    "com.microsoft.BifurcationDetector": [
        lambda: one(
            "many tokens",
            "BifurcationDetector",
            np.zeros(1 << 25, np.int64),
            np.zeros(1 << 10, np.int64),
            i64(0)[0],
            np.zeros((1 << 25) + 1, np.int64),
            domain=MICROSOFT,
            outputs=2,
            min_ngram_size=500,
            max_ngram_size=1000,
        )
    ],
    "com.microsoft.CDist": [lambda: one("pairs of rows", "CDist", f32(8000, 64), f32(8000, 64), domain=MICROSOFT)],
    "com.microsoft.Inverse": [lambda: one("one matrix", "Inverse", f32(1500, 1500), domain=MICROSOFT)],
    "com.microsoft.MultiHeadAttention": [lambda: _attention("MultiHeadAttention", 20_000, domain=MICROSOFT, num_heads=4)],
    "com.microsoft.LinearAttention": [
        lambda: _attention(
            "LinearAttention", 1 << 20, domain=MICROSOFT, q_num_heads=4, kv_num_heads=4, update_rule="linear", outputs=2
        )
    ],
    "com.microsoft.MurmurHash3": [lambda: one("one row", "MurmurHash3", np.arange(1 << 25, dtype=np.int32), domain=MICROSOFT)],
    "com.microsoft.QMoE": [_experts],
    "com.microsoft.SparseToDenseMatMul": [_sparse],
    "com.microsoft.WordConvEmbedding": [
        lambda: one(
            "many words",
            "WordConvEmbedding",
            np.ones((20_000, 64), np.int32),
            *(f32(256, 1, 3, 64), f32(256), f32(1000, 64)),
            domain=MICROSOFT,
        )
    ],
}
