"""Numbers for a segment: sizes from expressions, places in scratch memory, requirements."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite import shapes
from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.shapes import Dim, symbol
from ort_lite_cpu.program.bind import ALIGNMENT, _evaluate
from ort_lite_cpu.program.code import Code
from ort_lite_cpu.program.evaluate import LIMIT
from ort_lite_cpu.program.program import Program
from ort_lite_cpu.program.segment import Segment
from tests.cpu.check import ints, op_program, ramp, text_program
from tests.cpu.steps import segment_runs

NAMES = ("a", "b", "c")


def native(dims: list[Dim], values: dict[str, int]) -> list[int]:
    """The dims as the native binder evaluates them."""
    code = Code()
    places = [code.slot(dim) for dim in dims]
    slots = np.array(code.initial, np.int64)
    slots[code.leaf_slots] = [values[leaf.name] for leaf in code.leaves]
    table = code.table()
    _evaluate()(table.ctypes.data, len(table), slots.ctypes.data)
    return [int(slots[place]) for place in places]


# --- Expressions

leaves = st.one_of(st.sampled_from([symbol(name, signed=True) for name in NAMES]), st.integers(-5, 9))
binary = st.sampled_from(
    [
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x * y,
        shapes.floordiv,
        shapes.modulo,
        shapes.maximum,
        shapes.minimum,
        shapes.equal,
        shapes.less,
        lambda x, y: shapes.select(shapes.less(x, y), x, y + 1),
        lambda x, y: shapes.scale_dim(x, 0.7) + y,
    ]
)
expressions = st.recursive(leaves, lambda inner: st.builds(lambda f, x, y: f(x, y), binary, inner, inner), max_leaves=12)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(expressions, min_size=1, max_size=3), st.tuples(*[st.integers(-9, 40)] * 3))
def test_expressions_have_the_value_that_python_finds(dims: list[Dim], numbers: tuple[int, ...]) -> None:
    values = dict(zip(NAMES, numbers, strict=True))
    assert native(dims, values) == [shapes.evaluate(dim, values) for dim in dims]


def test_equal_expressions_share_a_slot() -> None:
    a, b = symbol("a"), symbol("b")
    code = Code()
    assert code.slot(a * b + 1) == code.slot(1 + b * a)
    assert len(code.code) == 2
    assert code.slot(3) == code.slot(3)


def test_what_is_beyond_all_sizes_stays_there() -> None:
    """INT64_MAX as the end of a slice is added to and compared; only the branch that is not chosen is beyond."""
    end, n = symbol("a", signed=True), symbol("b")
    last, first = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    clamped = shapes.select(shapes.less(end, 0), shapes.maximum(n + end, 0), shapes.minimum(end, n))
    assert native([clamped], {"a": int(last), "b": 7}) == [7]
    assert native([clamped], {"a": int(first), "b": 7}) == [0]
    assert native([end * n, end + end], {"a": int(last), "b": 7}) == [LIMIT, LIMIT]
    assert native([end * n, end + end], {"a": int(first), "b": 7}) == [-LIMIT, -LIMIT]
    assert native([shapes.scale_dim(end, 1.5)], {"a": int(last)}) == [LIMIT]


def test_division_by_zero_gives_zero() -> None:
    a, b = symbol("a"), symbol("b")
    assert native([shapes.floordiv(a, b), shapes.modulo(a, b)], {"a": 7, "b": 0}) == [0, 0]


# --- Scratch memory

TEXT = """(float[N,M] x) => (float[N,M] y) {
    a = ReduceSum<keepdims=1>(x) b = Sub(x, a) c = Softmax<axis=0>(b) d = LogSoftmax(c) e = Concat<axis=0>(b, d, c)
    f = ReduceMax<keepdims=1>(e) y = Add(d, f)
}"""


def segment_of(program: Program) -> Segment:
    [step] = segment_runs(program)
    return step.segment


@pytest.mark.parametrize("shape", [(2, 3), (40, 50), (2, 1), (3, 1000)], ids=str)
def test_buffers_that_live_together_lie_apart(shape: tuple[int, int]) -> None:
    program = text_program(TEXT)
    x = ramp(shape)
    program([x])
    segment = segment_of(program)
    [bound] = segment_runs(program)[0].cache.values()
    blocks = sorted(
        zip(bound.offsets.tolist(), bound.sizes.tolist(), segment.starts.tolist(), segment.ends.tolist(), strict=True)
    )
    assert len(blocks) >= 4
    for k, (offset, size, start, end) in enumerate(blocks):
        assert offset % ALIGNMENT == 0 and offset + size <= bound.scratch
        for offset2, _, start2, end2 in blocks[k + 1 :]:
            assert offset2 >= offset + size or start2 >= end or start >= end2


# --- What is refused


def test_a_requirement_names_node_and_numbers() -> None:
    program = op_program("TopK", [ramp((2, 5)), ints(3)], outputs=2)
    with pytest.raises(
        InvalidArgument,
        match=r"TopK 'node' \(CPUExecutionProvider\): input 1 .K, 'in1'. has the element 6; it should be from 0 to 5",
    ):
        program([ramp((2, 5)), ints(6)])


def test_impossible_sizes_name_node_and_dimensions() -> None:
    program = op_program("ConstantOfShape", [ints(1, 1)])
    with pytest.raises(InvalidArgument, match=r"ConstantOfShape 'node' .*has the element -2; it should be 0 or more"):
        program([ints(3, -2)])
    with pytest.raises(InvalidArgument, match=r"a result would have the shape .* for in0\[0\] = 4611686018427387904"):
        program([ints(2**62, 2)])
    inner = text_program("(int64[2] s) => (float[1,1] y) { c = ConstantOfShape(s) y = ReduceSum<keepdims=1>(c) }")
    with pytest.raises(InvalidArgument, match=r"ConstantOfShape .*has the element -2; it should be 0 or more"):
        inner([ints(300, -2)])
    with pytest.raises(InvalidArgument, match=r"ConstantOfShape .*has the element -300; it should be 0 or more"):
        inner([ints(-300, -2)])  # whose product is a size


def test_buffers_that_are_possible_one_by_one_and_not_together_are_refused() -> None:
    program = text_program("""(int64[2] s) => (float[1,1] y) {
        c = ConstantOfShape(s) d = Softmax(c) e = Softmax<axis=0>(c) f = ReduceSum<keepdims=1>(d) g = ReduceSum<keepdims=1>(e)
        h = ReduceSum<keepdims=1>(c) y = Sum(f, g, h)
    }""")
    with pytest.raises(OutOfMemory, match=r"planner 'adaptive' found no place below 2\*\*62 bytes for \d of \d buffers"):
        program([ints(2**58, 2)])


def test_what_has_no_results_does_not_run() -> None:
    """2**50 rows of nothing would take a week."""
    program = text_program("(float[N,M] x, int64[2] r) => (float[A,B] y) { t = Tile(x, r) y = Neg(t) }")
    [y] = program([np.zeros((3, 0), np.float32), np.array([2**50, 2])])
    assert y.shape == (3 * 2**50, 0)
    [y] = program([np.ones((3, 1), np.float32), np.array([2, 2])])
    assert y.tolist() == [[-1, -1]] * 6
