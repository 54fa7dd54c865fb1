"""What does not run decides nothing: shapes, contents and memory that do not fit in a branch, or in a turn, that never comes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import OrtLiteError

LIMIT = 1 << 20
"""Bytes of memory that a session may have; what the parts below compute needs four times as many."""

DECIDING = ("bool c", "bool d", "int64 n")
SIGNATURES = {
    "fixed": "int64 k, float[1,2] v, float[1,3] m, float[1024,1] u, float[1,1024] w, float[{T},2] xs, float[2] a",
    "symbolic": "int64 k, float[B,S] v, float[S,D] m, float[P,Q] u, float[Q,R] w, float[T,2] xs, float[K] a",
}
"""The inputs of all models, behind those that decide what runs."""

PARTS = {
    ("shapes", "fixed"): "[bad] x = MatMul(v, m) p = ReduceSum<keepdims = 0>(x)",
    ("shapes", "symbolic"): "[bad] x = MatMul(v, m) p = ReduceSum<keepdims = 0>(x)",
    ("shapes of nodes that transforms insert", "fixed"): "[bad] x = Sum(v, m) p = ReduceSum<keepdims = 0>(x)",
    ("shapes of nodes that fusions insert", "fixed"): "[bad] x = Gemm(v, m) z = Relu(x) p = ReduceSum<keepdims = 0>(z)",
    ("contents", "fixed"): "seven = Constant<value_int = 7>() [bad] x = Gather(v, seven) p = ReduceSum<keepdims = 0>(x)",
    ("contents", "symbolic"): "[bad] x = Gather(v, k) p = ReduceSum<keepdims = 0>(x)",
    ("elements", "symbolic"): "one = Constant<value_ints = [1]>() r = Reshape(k, one) [bad] x = Reshape(v, r) "
    "p = ReduceSum<keepdims = 0>(x)",
    ("memory", "fixed"): "[bad] x = MatMul(u, w) y = Softmax(x) p = ReduceSum<keepdims = 0>(y)",
    ("memory", "symbolic"): "[bad] x = MatMul(u, w) y = Softmax(x) p = ReduceSum<keepdims = 0>(y)",
    ("constant", "fixed"): "many = Constant<value_ints = [1099511627776]>() [bad] x = ConstantOfShape(many) y = Exp(x) "
    "p = ReduceSum<keepdims = 0>(y)",
    ("too large", "fixed"): "many = Constant<value_ints = [4611686018427387904, 2]>() [bad] x = Expand(v, many) "
    "p = ReduceSum<keepdims = 0>(x)",
}
"""What does not fit, and gives one number."""

FINE = "p = ReduceSum<keepdims = 0>(a)"

IF = "y = If (c) <then_branch = part () => (p) {{ {part} }}, else_branch = other () => (p) {{ " + FINE + " }}>"
NESTED = (
    "y = If (c) <then_branch = outer () => (r) {{ r = If (d) <then_branch = part () => (p) {{ {part} }}, "
    "else_branch = inner () => (p) {{ " + FINE + " }}> }}, else_branch = other () => (p) {{ " + FINE + " }}>"
)
LOOP = (
    "s = ReduceSum<keepdims = 0>(a) y, rows = Loop (n, c, s) <body = part (int64 i, bool go, float t) => (more, q, p) {{ "
    "more = Identity(go) {part} q = Add(t, p) }}>"
)
SCAN = (
    "s = ReduceSum<keepdims = 0>(a) y, rows = Scan (s, xs) <num_scan_inputs = 1, body = part (float t, float[2] each) => (q, p) {{ "
    "{part} q = Add(t, p) }}>"
)
FEEDS = {"c": np.array(False), "d": np.array(False), "n": np.array(0), "k": np.array(7), "v": np.ones((1, 2), np.float32)}
FEEDS |= {"m": np.ones((1, 3), np.float32), "u": np.ones((1024, 1), np.float32), "w": np.ones((1, 1024), np.float32)}
FEEDS |= {"xs": np.ones((0, 2), np.float32), "a": np.array([1, 2], np.float32)}

CASES: Mapping[str, tuple[str, list[dict[str, Any]], dict[str, Any]]] = {
    "If": (IF, [{}], {"c": True}),
    "nested If": (NESTED, [{}, {"d": True}, {"c": True}], {"c": True, "d": True}),
    "Loop": (LOOP, [{"c": True}, {"n": 3}], {"c": True, "n": 1}),
    "Scan": (SCAN, [{}], {"xs": np.ones((1, 2), np.float32)}),
}
"""Nodes, feeds with which the part does not run, feeds with which it does."""


def _feeds(**changed: Any) -> dict[str, Array]:
    return {name: np.asarray(changed.get(name, array), array.dtype) for name, array in FEEDS.items()}


def _model(nodes: str, sizes: str, feeds: Mapping[str, Array], known: bool, function: bool) -> onnx.ModelProto:
    """`known`: what decides is a constant; `function`: the nodes are those of a function's body."""
    inputs = [*DECIDING, *SIGNATURES[sizes].replace("{T}", str(len(feeds["xs"]))).split(", ")]
    names = [each.split()[-1] for each in inputs]
    given = inputs[len(DECIDING) :] if known else inputs
    constants = ", ".join(f"{each} = {{{int(feeds[each.split()[1]])}}}" for each in DECIDING)
    body, functions = nodes, ""
    if function:
        body = f"y = my.f({', '.join(names)})"
        functions = f'<domain: "my", opset_import: ["" : 17]> f ({", ".join(names)}) => (y) {{ {nodes} }}'
    main = f"main ({', '.join(given)}) => (float y) {f'<{constants}>' if known else ''} {{ {body} }}"
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17, "my" : 1]> {main} {functions}')


def _session(model: onnx.ModelProto) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.memory_limit_bytes", str(LIMIT))
    return ort_lite.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _run(session: Any, feeds: Mapping[str, Array]) -> Any:
    names = {each.name for each in session.get_inputs()}
    return session.run(["y"], {name: array for name, array in feeds.items() if name in names})[0]


def _all() -> list[Any]:
    cases = []
    for (what, sizes), part in PARTS.items():
        for kind, (nodes, idle, busy) in CASES.items():
            for place, known in (("graph", False), ("graph", True), ("function", False), ("function", True)):
                name = f"{what}-{sizes}-{kind}-{place}-{'known' if known else 'open'}"
                case = (nodes.format(part=part), sizes, idle, busy, place == "function", known)
                cases.append(pytest.param(*case, id=name))
    return cases


@pytest.mark.parametrize(("nodes", "sizes", "idle", "busy", "function", "known"), _all())
def test_what_does_not_run_decides_nothing(
    nodes: str, sizes: str, idle: list[dict[str, Any]], busy: dict[str, Any], function: bool, known: bool
) -> None:
    for changed in idle:
        feeds = _feeds(**changed)
        session = _session(_model(nodes, sizes, feeds, known, function))
        for _ in range(2):
            assert _run(session, feeds) == 3
    feeds = _feeds(**busy)
    # A branch that a constant takes becomes part of the graph around it.
    with pytest.raises(OrtLiteError, match=r"bad|; in 'part' of|(?i:memory)" if known else r"; in 'part' of "):
        _run(_session(_model(nodes, sizes, feeds, known, function)), feeds)


def test_no_turn_leaves_rows_of_the_rank_that_was_known_at_load() -> None:
    """As in onnxruntime, which has loaded the model before the sizes of a run tell that no turn fits."""
    nodes = "rows = Loop (n, c) <body = part (int64 i, bool go) => (more, p) { more = Identity(go) p = MatMul(v, m) }>"
    model = _model(f"{nodes} y = ReduceSum<keepdims = 0>(a)", "symbolic", FEEDS, known=False, function=False)
    model.graph.output.add().name = "rows"
    for session in (_session(model), onnxruntime.InferenceSession(model.SerializeToString())):
        names = {each.name for each in session.get_inputs()}
        assert session.run(["rows"], {name: array for name, array in FEEDS.items() if name in names})[0].shape == (0, 0, 0)


@pytest.mark.parametrize("elements", ["none", "some"])
def test_an_empty_sequence_need_not_fit_the_body_of_a_map(elements: str) -> None:
    body = "part (float[K] e) => (p) { p = MatMul(v, m) }"
    nodes = f"some = SplitToSequence(a) none = SequenceEmpty() l = SequenceMap ({elements}) <body = {body}> "
    nodes += "count = SequenceLength(l) y = Cast<to = 1>(count)"
    session = _session(_model(nodes, "symbolic", FEEDS, known=False, function=False))
    if elements == "none":
        assert _run(session, FEEDS) == 0
        return
    with pytest.raises(OrtLiteError, match="; in 'part' of SequenceMap"):
        _run(session, FEEDS)
