"""Workloads of Python steps and of nodes with bodies: texts, maps, sequences, control flow, generation, images."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

from ort_lite.dtypes import Array
from tests.cancellation.workloads import MICROSOFT, Make, Workload, f32, i32, i64, one, scalar
from tests.hostile.strings import ML, one_node, parsed, repeated, texts, tokenizer

MANY, LONG = 4_000_000, 12_000_000


def text(what: str, model: onnx.ModelProto, *feeds: Any) -> Workload:
    """Return a workload whose inputs are x0, x1, ..."""
    return Workload(what, model, {f"x{k}": feed for k, feed in enumerate(feeds)})


def node(line: str, inputs: str, output: str = "y") -> onnx.ModelProto:
    """Return a model of one node of any domain."""
    return parsed(f"({inputs}) => ({output}) {{ [n] y = {line} }}", f', "{ML}": 3, "{MICROSOFT}": 1')


def column(word: str, count: int) -> Array:
    """Return a text many times, one a row."""
    return repeated(word, count).reshape(-1, 1)


def shuffled(count: int) -> Array:
    """Return different texts, in no order."""
    return np.array([f"text {k}" for k in np.random.default_rng(0).permutation(count).tolist()], object)


def _grams() -> onnx.ModelProto:
    form: dict[str, Any] = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0]}
    return one_node("TfIdfVectorizer", **form, ngram_indexes=[0], pool_strings=["a"])


def _map(op_type: str, value: int, values: dict[Any, Any], **attributes: Any) -> Workload:
    """Return a workload that a map of many keys feeds."""
    fed = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(value, ()))
    made = helper.make_node(op_type, ["x0"], ["y"], "n", domain=ML, **attributes)
    graph = helper.make_graph([made], "g", [helper.make_value_info("x0", fed)], [onnx.ValueInfoProto(name="y")])
    imports = [helper.make_opsetid(ML, 3), helper.make_opsetid("", 21)]
    return Workload("many keys in no order", helper.make_model(graph, opset_imports=imports, ir_version=10), {"x0": values})


def _keys(count: int) -> dict[Any, Any]:
    return dict.fromkeys(np.random.default_rng(0).permutation(count).tolist(), 1.0)


def _endless(body: str, state: str, start: str) -> onnx.ModelProto:
    return parsed(f"""(float[N] x0) => ({state} s) <int64 n = {{9223372036854775807}}, bool go = {{1}}> {{
        first = {start}
        s = Loop(n, go, first) <body = step(int64 i, bool c, {state} before) => (bool d, {state} after) {{ d = Identity(c) {body} }}>
    }}""")


_LONGER = "after = StringConcat(before, before)"
_BRANCHES = """(bool yes, float[M,K] a, float[K,M] b) => (float[M,M] y) {
    y = If(yes) <then_branch = t () => (float[M,M] p) { p = MatMul(a, b) },
                 else_branch = e () => (float[M,M] q) { r = MatMul(a, b) q = Neg(r) }>
}"""
_SCANNED = """(float[N] s, float[T,N] x) => (float[N] z, float[T,N] y) {
    z, y = Scan(s, x) <num_scan_inputs = 1, body = b (float[N] p, float[N] v) => (float[N] q, float[N] w) { q = Add(p, v) w = Cos(q) }>
}"""
_SPLIT = "(float[N] x0) => (seq(float[M]) s) { s = SplitToSequence(x0) }"
_JOINED = "(float[N] x0) => (float[N] y) { s = SplitToSequence(x0) y = ConcatFromSequence<axis = 0>(s) }"
_MAPPED = """(float[N] x0) => (seq(float[M]) s) {
    parts = SplitToSequence<keepdims = 0>(x0)
    s = SequenceMap(parts) <body = step(float a) => (float b) { b = Neg(a) }>
}"""
_DECODER = """decoder (int32[B,S] input_ids, int32[B,S] position_ids, int32[B,T] attention_mask, float[2,B,1,P,1] past_0)
    => (float[B,S,{vocabulary}] logits, float[2,B,1,P,1] present_0) <int64[1] last = {{2}}> {{
    numbers = Cast<to = 1>(input_ids) columns = Unsqueeze(numbers, last) raised = Mul(columns, row) logits = Sin(raised)
    present_0 = Identity(past_0)
}}"""


_OWN = "float[B,1,P,1] {}_key_self_0, float[B,1,P,1] {}_value_self_0"
_CROSS = "float[B,1,L,2] {}_key_cross_0, float[B,1,L,2] {}_value_cross_0"
_TURN = "numbers = Cast<to = 1>({}) columns = Unsqueeze(numbers, last) raised = Mul(columns, row) logits = Sin(raised)"
_WHISPER = {
    "encoder": f"""encoder (float[B,2,L] encoder_input_ids, int32[B,S] decoder_input_ids)
        => (float[B,S,{{vocabulary}}] logits, float[B,L,2] encoder_hidden_states, {_OWN.format("present", "present")},
            {_CROSS.format("present", "present")})
        <int64[1] last = {{{{2}}}}, int64[1] heads = {{{{1}}}}, int64[4] form = {{{{0, 1, -1, 1}}}}> {{{{
        encoder_hidden_states = Transpose<perm = [0, 2, 1]>(encoder_input_ids)
        present_key_cross_0 = Unsqueeze(encoder_hidden_states, heads) present_value_cross_0 = Identity(present_key_cross_0)
        words = Cast<to = 1>(decoder_input_ids) present_key_self_0 = Reshape(words, form)
        present_value_self_0 = Identity(present_key_self_0) {_TURN.format("decoder_input_ids")}
    }}}}""",
    "decoder": f"""decoder (int32[B,1] input_ids, {_OWN.format("past", "past")}, {_CROSS.format("past", "past")})
        => (float[B,1,{{vocabulary}}] logits, {_OWN.format("present", "present")}) <int64[1] last = {{{{2}}}}> {{{{
        {_TURN.format("input_ids")}
        present_key_self_0 = Identity(past_key_self_0) present_value_self_0 = Identity(past_value_self_0)
    }}}}""",
}


def _search(op_type: str, vocabulary: int, inputs: dict[str, Any], **attributes: Any) -> Workload:
    """Return a search whose bodies cost little and have a huge vocabulary."""
    texts = _WHISPER if op_type == "WhisperBeamSearch" else {"decoder": _DECODER}
    bodies = {name: onnx.parser.parse_graph(body.format(vocabulary=vocabulary)) for name, body in texts.items()}
    for body in bodies.values():
        body.initializer.append(numpy_helper.from_array(f32(vocabulary), "row"))
    form = {"eos_token_id": -1, "pad_token_id": 0, **bodies, **attributes}
    made = helper.make_node(op_type, list(inputs), ["out"], "n", domain=MICROSOFT, **form)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in inputs.items()
        if name
    ]
    graph = helper.make_graph([made], "g", infos, [onnx.ValueInfoProto(name="out")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    feeds = {name: x for name, x in inputs.items() if name}
    return Workload("a huge vocabulary", helper.make_model(graph, opset_imports=imports, ir_version=10), feeds)


def _greedy(rows: int, turns: int) -> dict[str, Any]:
    return {"ids": np.ones((rows, 1), np.int32), "longest": i32(turns)}


def _beams(rows: int, turns: int) -> dict[str, Any]:
    return {**_greedy(rows, turns), "least": i32(0), "beams": i32(4), "returned": i32(4)}


def _image() -> Workload:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray((f32(6000, 6000, 3) * 127 + 128).astype(np.uint8)).save(file, "PNG", compress_level=1)
    return one("a large image", "ImageDecoder", np.frombuffer(file.getvalue(), np.uint8), pixel_format="BGR")


STEPS: dict[str, list[Make]] = {
    "Cast:strings": [
        lambda: text("texts become numbers", node("Cast<to=1>(x0)", "string[N] x0"), repeated("1.5", MANY)),
        lambda: text("numbers become texts", node("Cast<to=8>(x0)", "float[N] x0"), np.ones(MANY, np.float32)),
    ],
    "Col2Im:strings": [
        lambda: text(
            "a large image",
            node("Col2Im(x0, x1, x2)", "string[N,C,L] x0, int64[2] x1, int64[2] x2"),
            repeated("a", 1 << 22).reshape(1, 4, 1 << 20),
            i64(1025, 1025),
            i64(2, 2),
        )
    ],
    "Compress:complex": [lambda: one("one of two", "Compress", np.zeros(1 << 25, np.complex128), np.arange(1 << 25) % 2 == 0)],
    "ConcatFromSequence": [lambda: text("many tensors", parsed(_JOINED), f32(2_000_000))],
    "Dropout": [lambda: one("a mask", "Dropout", f32(1 << 25), scalar(0.5), np.array(True), outputs=2)],
    "Equal:strings": [
        lambda: text(
            "long texts, nearly equal",
            node("Equal(x0, x1)", "string[N,1] x0, string[1,M] x1"),
            column("a" * 100_000, 2000),
            column("a" * 99_999 + "b", 2000).T,
        )
    ],
    "Expand:strings": [
        lambda: text("one text", node("Expand(x0, x1)", "string[N] x0, int64[R] x1"), texts("a"), i64(4000, 10_000))
    ],
    "Identity": [
        lambda: Workload("one long tensor", parsed("(float[N] x0) => (float[N] y) { y = Identity(x0) }"), {"x0": f32(1 << 28)}),
        lambda: text("numbers fed as texts", one_node("Identity"), np.array([*range(1000)] * 3000, object)),
        lambda: text("fixed-width texts", one_node("Identity"), np.full(MANY, "text")),
    ],
    "If": [
        lambda: Workload("a branch", parsed(_BRANCHES), {"yes": np.array(True), "a": f32(4000, 4000), "b": f32(4000, 4000)})
    ],
    "ImageDecoder": [_image],
    "Loop": [
        lambda: text("no end", _endless("after = Cos(before)", "float[N]", "Identity(x0)"), f32(1 << 10)),
        lambda: text(
            "a sequence grows", _endless("after = SequenceInsert(before, x0)", "seq(float[M])", "SequenceEmpty()"), f32(1 << 20)
        ),
        lambda: text("texts grow", _endless(_LONGER, "string[N]", "Cast<to = 8>(x0)"), f32(1 << 10)),
    ],
    "NonZero:strings": [lambda: text("many texts", node("NonZero(x0)", "string[N,4] x0"), repeated("a", MANY).reshape(-1, 4))],
    "RegexFullMatch:strings": [
        lambda: text("many texts", one_node("RegexFullMatch", pattern="(a|b)*c"), repeated("ab" * 10, 1_000_000)),
        lambda: text("a long text", one_node("RegexFullMatch", pattern="(a|b)*c"), texts("ab" * (1 << 27))),
    ],
    "Scan": [lambda: Workload("many turns", parsed(_SCANNED), {"s": f32(64), "x": f32(1 << 21, 64)})],
    "SequenceMap": [lambda: text("many tensors", parsed(_MAPPED), f32(2_000_000))],
    "SplitToSequence": [lambda: text("many tensors", parsed(_SPLIT), f32(4_000_000))],
    "StringConcat:strings": [
        lambda: text(
            "pairs", node("StringConcat(x0, x1)", "string[N,1] x0, string[1,M] x1"), column("a", 4000), column("b", 4000).T
        ),
        lambda: text(
            "pairs of long texts",
            node("StringConcat(x0, x1)", "string[N,1] x0, string[1,M] x1"),
            column("a" * 4000, 4000),
            column("b", 4000).T,
        ),
    ],
    "StringNormalizer:strings": [
        lambda: text("many texts", one_node("StringNormalizer", case_change_action="UPPER"), repeated("straße", MANY)),
        lambda: text("a long text", one_node("StringNormalizer", case_change_action="UPPER"), texts("é" * LONG)),
        lambda: text(
            "stop words", one_node("StringNormalizer", case_change_action="LOWER", stopwords=["a"]), repeated("A", MANY)
        ),
    ],
    "StringSplit:strings": [
        lambda: text("a long text", one_node("StringSplit", 1, 2), texts("a b " * (LONG // 4))),
        lambda: text("a long text, a delimiter", one_node("StringSplit", 1, 2, delimiter="ab"), texts("ab" * (LONG // 2))),
        lambda: text("many texts", one_node("StringSplit", 1, 2), repeated("a b", MANY)),
        lambda: text("one text longer", one_node("StringSplit", 1, 2), np.array(["a " * 20_000, *["b"] * 1000], object)),
    ],
    "TfIdfVectorizer:strings": [lambda: text("many texts", _grams(), repeated("a", 3 * MANY))],
    "Unique:strings": [
        lambda: text("different texts", one_node("Unique", sorted=1), shuffled(1_000_000)),
        lambda: text("rows", node("Unique<axis = 0>(x0)", "string[N,2] x0"), shuffled(1_000_000).reshape(-1, 2)),
    ],
    "ai.onnx.ml.CastMap": [lambda: _map("CastMap", TensorProto.FLOAT, _keys(MANY // 4), cast_to="TO_FLOAT")],
    "ai.onnx.ml.DictVectorizer": [
        lambda: _map("DictVectorizer", TensorProto.FLOAT, _keys(1 << 20), int64_vocabulary=[*range(1 << 20)])
    ],
    "ai.onnx.ml.LabelEncoder:strings": [
        lambda: text(
            "many texts",
            one_node("LabelEncoder", domain=ML, keys_strings=["a", "b"], values_int64s=[1, 2]),
            repeated("c", 3 * MANY),
        )
    ],
    "ai.onnx.ml.LinearClassifier": [
        lambda: one(
            "labels that are texts",
            "LinearClassifier",
            f32(1 << 24, 1),
            domain=ML,
            outputs=2,
            coefficients=[1.0, -1.0],
            intercepts=[0.0, 0.0],
            classlabels_strings=["a", "b"],
        )
    ],
    "ai.onnx.ml.OneHotEncoder:strings": [
        lambda: text("many texts", one_node("OneHotEncoder", domain=ML, cats_strings=["a", "b"]), repeated("a", 3 * MANY))
    ],
    "ai.onnx.ml.ZipMap": [
        lambda: text(
            "many rows", node(f'{ML}.ZipMap<classlabels_strings=["a","b","c"]>(x0)', "float[N,3] x0"), f32(MANY // 2, 3)
        )
    ],
    "com.microsoft.BeamSearch": [lambda: _search("BeamSearch", 2_000_000, _beams(4, 40))],
    "com.microsoft.ExpandDims:strings": [
        lambda: text(
            "many texts", node(f"{MICROSOFT}.ExpandDims(x0, x1)", "string[N] x0, int32 x1"), repeated("a", MANY), np.int32(0)
        )
    ],
    "com.microsoft.GatherND:complex": [
        lambda: one(
            "many indices", "GatherND", np.zeros((4, 2), np.complex128), np.zeros((1 << 24, 1), np.int64), domain=MICROSOFT
        )
    ],
    "com.microsoft.GatherND:strings": [
        lambda: text(
            "many indices",
            node(f"{MICROSOFT}.GatherND(x0, x1)", "string[N] x0, int64[M,1] x1"),
            texts("a", "b"),
            np.zeros((MANY, 1), np.int64),
        )
    ],
    "com.microsoft.GreedySearch": [lambda: _search("GreedySearch", 4_000_000, _greedy(4, 40))],
    "com.microsoft.MurmurHash3:strings": [
        lambda: text("a long text", one_node("MurmurHash3", domain=MICROSOFT), texts("a" * LONG)),
        lambda: text("many texts", one_node("MurmurHash3", domain=MICROSOFT), shuffled(2_000_000)),
    ],
    "com.microsoft.Sampling": [lambda: _search("Sampling", 4_000_000, _greedy(1, 40), top_p=0.9)],
    "com.microsoft.Tokenizer:strings": [
        lambda: text("characters of a long text", tokenizer(tokenexp="."), texts("é" * LONG)),
        lambda: text("words of a long text", tokenizer(tokenexp=r"\w+"), texts("é a" * (LONG // 3))),
        lambda: text("a costly separator", tokenizer(separators=["a.*b|c"]), texts("ac" * 300_000)),
    ],
    "com.microsoft.WhisperBeamSearch": [
        lambda: _search("WhisperBeamSearch", 2_000_000, {**_beams(4, 40), "ids": f32(4, 2, 3)}, decoder_start_token_id=1)
    ],
    "com.microsoft.UnfoldTensor:complex": [
        lambda: one("overlapping windows", "UnfoldTensor", np.zeros(1 << 14, np.complex64), domain=MICROSOFT, size=1 << 13)
    ],
    "com.microsoft.UnfoldTensor:strings": [
        lambda: text("overlapping windows", node(f"{MICROSOFT}.UnfoldTensor<size = 2000>(x0)", "string[N] x0"), shuffled(4000))
    ],
    "com.microsoft.Unique:strings": [
        lambda: text("different texts", one_node("Unique", 1, 3, domain=MICROSOFT), shuffled(2_000_000))
    ],
}
