"""If, Loop and Scan. Bodies see the node's inputs by name: "in2" in a body is a capture."""

from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import helper, numpy_helper

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, Maybe, Right, case
from tests.conformance.versions.models import convert, type_of
from tests.conformance.versions.sequences import CLASSIC
from tests.cpu.check import ints, ramp

A, B = ramp((2, 3)), ramp((2, 3), low=1, high=9)
ROWS = ramp((4, 3))
YES, NO = np.array(True), np.array(False)
SINCE = {
    **dict.fromkeys(CLASSIC, 1),
    "bfloat16": 16,
    "float8_e4m3fn": 19,
    "float8_e4m3fnuz": 19,
    "float8_e5m2": 19,
    "float8_e5m2fnuz": 19,
    "uint4": 21,
    "int4": 21,
    "float4_e2m1fn": 23,
    "float8_e8m0fnu": 24,
    "uint2": 25,
    "int2": 25,
}
"""The version that lets control flow hand on an element type."""


def body(text: str) -> onnx.GraphProto:
    """A graph; without declared types it does for all element types."""
    return onnx.parser.parse_graph(text)


def constant(array: Array) -> onnx.GraphProto:
    node = helper.make_node("Constant", [], ["y"], value=numpy_helper.from_array(array))
    return helper.make_graph([node], "constant", [], [onnx.ValueInfoProto(name="y")])


def either(condition: Array, then: onnx.GraphProto, otherwise: onnx.GraphProto, *wanted: Any, **more: Any) -> Case:
    given = {"then_branch": then, "else_branch": otherwise, "outputs": len(wanted), "constants": [0]}
    return case("If", condition, oracle=lambda *_, **__: wanted, **given, **more)


def chosen(dtype: str, first: bool) -> Case:
    ones, others = convert(abs(A) + 1, dtype), convert(B[:1], dtype)
    assert isinstance(ones, np.ndarray) and isinstance(others, np.ndarray)
    return either(np.array(first), constant(ones), constant(others), ones if first else others, since=SINCE[dtype])


NUMBER = body("b () => (y) { y = Cast<to=1>(in0) }")  # what the condition is
PAIR = body(
    "b () => (s) { a = Constant<value = float[2] {1, 2}>() b = Constant<value = float[1] {3}>() s = SequenceConstruct(a, b) }"
)
SINGLE = body("b () => (s) { a = Constant<value = float[2] {1, 2}>() s = SequenceConstruct(a) }")
HELD = body("b () => (o) { a = Constant<value = float[2] {1, 2}>() o = Optional(a) }")
ONE_TWO, THREE = np.array([1, 2], np.float32), np.array([3], np.float32)
NOTHING = helper.make_graph(
    [helper.make_node("Optional", [], ["o"], type=type_of(ONE_TWO))], "nothing", [], [onnx.ValueInfoProto(name="o")]
)
TWO_RESULTS = body("b () => (y, z) { y = Constant<value = float[2] {1, 2}>() z = Identity(y) }")
NESTED = body("""b () => (y) {
    y = If (in0) <then_branch = t () => (p) { p = Cast<to=7>(in0) }, else_branch = e () => (q) { q = Constant<value = int64 {5}>() }>
}""")
OTHERS = body("b () => (y) { y = Constant<value = int64[2] {7, 8}>() }")
EMPTY = Right(Maybe(None, ONE_TWO), lambda got: got is None)


def held(value: Array) -> Right:
    """An optional that holds the value, which is what comes out."""
    return Right(Maybe(value, value), lambda got: np.array_equal(got, value))


BRANCHES = (
    *[chosen(dtype, k % 2 == 0) for k, dtype in enumerate(SINCE)],
    either(NO, constant(A), constant(B), B),
    either(YES[None], constant(A), NUMBER, A, since=6),
    either(NO, constant(A), NUMBER, np.array(0, np.float32), since=6),
    either(YES, TWO_RESULTS, TWO_RESULTS, ONE_TWO, ONE_TWO),
    either(YES, NESTED, OTHERS, np.array(1), since=6),
    either(NO, NESTED, OTHERS, ints(7, 8), since=6),
    *[either(np.array(c), PAIR, SINGLE, [ONE_TWO, THREE][: 1 + c], since=13) for c in (True, False)],
    *[either(np.array(c), HELD, NOTHING, held(ONE_TWO) if c else EMPTY, since=16) for c in (True, False)],
)


def trips(count: int) -> Array:
    return np.array(count)


def loop(text: str, *inputs: Any, wanted: Any, **more: Any) -> Case:
    """`wanted` is what comes out, or a function of the carried values."""
    made = wanted if callable(wanted) else lambda *_: wanted
    return case("Loop", *inputs, oracle=lambda _, __, *state, body: made(*state), body=body(text), **{"types": (), **more})


COPY = "b (i, go, v) => (more, w, row) { more = Identity(go) w = Identity(v) row = Identity(v) }"
GROW = "b (i, go, v) => (more, w) { more = Identity(go) w = Concat<axis=0>(v, v) }"
UNTIL = """b (i, go, v) => (more, w, k) {
    w = Add(v, v) top = ReduceMax<keepdims=0>(w) end = Constant<value = float {100}>() more = Less(top, end) k = Identity(i)
}"""
OUTER = "b (i, go, v) => (more, w, row) { more = Identity(go) w = Add(v, in2) row = Mul(w, in2) }"
SIZES = "b (i, go, v) => (more, w, row) { more = Identity(go) w = Add(v, v) row = Shape(w) }"
BRANCHING = """b (i, go, v) => (more, w) {
    more = Identity(go) odd = Cast<to=9>(i)
    w = If (odd) <then_branch = t () => (p) { p = Add(v, in2) }, else_branch = e () => (q) { q = Identity(v) }>
}"""
LOOPING = """b (i, go, v) => (more, w) {
    more = Identity(go) two = Constant<value = int64 {2}>()
    w = Loop (two, go, v) <body = inner (j, on, s) => (still, t) { still = Identity(on) t = Add(s, in2) }>
}"""
SWAP = "b (i, go, a, c) => (more, p, q) { more = Identity(go) p = Identity(c) q = Identity(a) }"
EXTEND = """b (i, go, s) => (more, t) {
    more = Identity(go) zero = Constant<value = int64 {0}>() x = SequenceAt(s, zero) t = SequenceInsert(s, x)
}"""
PASS = "b (i, go, o) => (more, p) { more = Identity(go) p = Identity(o) }"
FILL = "b (i, go, o) => (more, p) { more = Identity(go) x = Constant<value = float[2] {1, 2}>() p = Optional(x) }"
small = abs(A) + 0.5


def outer(x: Array) -> tuple[Array, Array]:
    states = [x * k for k in (2, 3, 4)]
    return states[-1], np.stack(states) * x


LOOPS = (
    loop(COPY, trips(3), YES, A, outputs=2, types=None, wanted=lambda x: (x, np.stack([x] * 3))),
    loop(GROW, trips(3), YES, A, wanted=lambda x: np.concatenate([x] * 8)),
    loop(GROW, trips(0), YES, A, wanted=A),
    loop(GROW, trips(5), NO, A, wanted=A),
    loop(
        UNTIL,
        None,
        YES,
        small,
        outputs=2,
        wanted=lambda x: (x * 32, np.arange(5)) if x.max() * 32 >= 100 else (x * 64, np.arange(6)),
    ),
    loop(UNTIL, None, None, B, outputs=2, wanted=lambda x: (x * 16, np.arange(4))),
    loop(UNTIL, trips(2)[None], None, B, outputs=2, wanted=lambda x: (x * 4, np.arange(2)), constants=[0]),
    loop(OUTER, trips(3), YES, A, outputs=2, wanted=outer),
    loop(OUTER, trips(3), YES, A, outputs=[False, True], wanted=lambda x: outer(x)[1]),
    loop(SIZES, trips(0), YES, A, outputs=2, wanted=(A, np.zeros((0, 2), np.int64))),
    loop(SIZES, trips(2), YES, A, outputs=2, wanted=(A * 4, np.array([[2, 3], [2, 3]]))),
    loop(BRANCHING, trips(3), YES, A, since=6, wanted=A * 3),
    loop(LOOPING, trips(2), YES, A, wanted=A * 5),
    loop(SWAP, trips(3), YES, A, B[:1], outputs=2, wanted=(B[:1], A)),
    loop(EXTEND, trips(2), YES, [A, B], since=13, wanted=lambda s: [*s, A, A]),
    loop(PASS, trips(2), YES, Maybe(A, A), since=16, wanted=held(A)),
    loop(PASS, trips(2), YES, Maybe(None, A), since=16, wanted=EMPTY),
    loop(FILL, trips(1), YES, Maybe(None, ONE_TWO), since=16, wanted=held(ONE_TWO)),
)


def scan(text: str, *inputs: Any, wanted: Any, **more: Any) -> Case:
    return case("Scan", *inputs, oracle=lambda *arrays, **_: wanted(*arrays), body=body(text), **{"types": (), **more})


SHIFT = "b (s, x) => (t, y) { t = Identity(x) y = Identity(s) }"
SUM = "b (s, x) => (t, y) { t = Add(s, x) y = Identity(t) }"
BOTH = "b (x, z) => (p, q) { p = Add(x, z) q = Mul(x, z) }"
CAPTURE = "b (s, x) => (t, y) { t = Add(s, x) y = Add(x, in0) }"
LENGTHS = "b (s, x) => (t, y) { t = Add(s, x) y = Shape(x) }"
STACKED = """b (s, x) => (t, y) {
    yes = Constant<value = bool {1}>() two = Constant<value = int64 {2}>()
    t = Loop (two, yes, s) <body = inner (j, on, u) => (still, v) { still = Identity(on) v = Add(u, x) }> y = Identity(s)
}"""


def shifted(s: Array, x: Array) -> tuple[Array, Array]:
    return x[-1], np.concatenate([s[None], x[:-1]])


def summed(s: Array, x: Array, axis: int = 0, backward: int = 0) -> tuple[Array, Array]:
    rows = np.moveaxis(x, axis, 0)[:: -1 if backward else 1]
    sums = s + np.cumsum(rows, 0)
    return sums[-1], sums


SCANS = (
    scan(SHIFT, A[0], ROWS, since=9, outputs=2, types=None, num_scan_inputs=1, wanted=shifted),
    scan(SUM, A[0], ROWS, since=9, outputs=2, num_scan_inputs=1, wanted=summed),
    scan(SUM, A[0], ROWS, since=9, outputs=[True, False], num_scan_inputs=1, wanted=lambda s, x: (summed(s, x)[0],)),
    scan(SUM, A[0], ROWS, since=9, outputs=2, num_scan_inputs=1, scan_input_directions=[1],
         wanted=lambda s, x: summed(s, x, backward=1)),
    scan(SUM, A[0], ROWS, since=9, outputs=2, num_scan_inputs=1, scan_output_directions=[1],
         wanted=lambda s, x: (summed(s, x)[0], summed(s, x)[1][::-1])),
    scan(SUM, A[:, 0], A, since=9, outputs=2, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1],
         wanted=lambda s, x: (summed(s, x, 1)[0], summed(s, x, 1)[1].T)),
    scan(SUM, A[:, 0], A, since=11, outputs=2, num_scan_inputs=1, scan_input_axes=[-1], scan_output_axes=[-1],
         wanted=lambda s, x: (summed(s, x, 1)[0], summed(s, x, 1)[1].T)),
    scan(BOTH, A, B.T, since=9, outputs=2, num_scan_inputs=2, scan_input_axes=[1, 0], scan_input_directions=[1, 0],
         wanted=lambda x, z: (x.T[::-1] + z, x.T[::-1] * z)),
    scan(CAPTURE, A[0], ROWS, since=9, outputs=2, num_scan_inputs=1, wanted=lambda s, x: (summed(s, x)[0], x + s)),
    scan(LENGTHS, A[0], ROWS[:0], since=9, outputs=2, num_scan_inputs=1, wanted=lambda s, _: (s, np.zeros((0, 1), np.int64))),
    scan(STACKED, A[0], ROWS, since=9, outputs=2, num_scan_inputs=1,
         wanted=lambda s, x: (s + 2 * x.sum(0), s + 2 * (np.cumsum(x, 0) - x))),
)  # fmt: skip

BATCH = ramp((2, 4, 3))


def batched(function: Any, lengths: Array | None, s: Array, x: Array, backward: int = 0) -> tuple[Array, Array]:
    """Version 8: every row of a batch by itself, over as many elements as its length says; zeros after them."""
    counts = [x.shape[1]] * len(x) if lengths is None else lengths.tolist()
    last, rows = s.copy(), np.zeros_like(x) if x.dtype != object else np.full(x.shape, "", object)
    for k, count in enumerate(counts):
        part = x[k, :count]
        last[k], rows[k, :count] = function(s[k], part[::-1] if backward else part)
    return last, rows


OLD_SCANS = (
    scan(
        SHIFT,
        None,
        A,
        BATCH,
        until=8,
        outputs=2,
        types=None,
        num_scan_inputs=1,
        wanted=lambda n, s, x: batched(shifted, n, s, x),
    ),
    scan(SUM, ints(3, 1), A, BATCH, until=8, outputs=2, num_scan_inputs=1, wanted=lambda n, s, x: batched(summed, n, s, x)),
    scan(
        SUM,
        ints(4, 2),
        A,
        BATCH,
        until=8,
        outputs=2,
        num_scan_inputs=1,
        directions=[1],
        wanted=lambda n, s, x: batched(summed, n, s, x, backward=1),
    ),
)

CASES: tuple[Case, ...] = (*BRANCHES, *LOOPS, *SCANS, *OLD_SCANS)
