"""Programs: bound again for every shape, read between segments, lowered during the run where they must be, called at once."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, RuntimeException, ShapeInferenceError
from ort_lite.graph import Node, TensorType, Value
from ort_lite.inference import Info
from ort_lite.memory.arenas import CACHE_LINE
from ort_lite.memory.pool import ScratchPool
from ort_lite.shapes import symbol
from ort_lite_cpu.lowering.deferred_suffix import DeferredSuffix
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program import segment_run
from ort_lite_cpu.program.program import Program
from ort_lite_cpu.run import team
from ort_lite_cpu.run.address import address_of
from ort_lite_cpu.run.kernels import Kernels
from ort_lite_cpu.run.loop import HOLD, Job
from ort_lite_cpu.run.run_context import RunContext
from tests.cpu.check import assert_close, ints, op_program, ramp, rules, text_program


def tails(program: Program) -> list[DeferredSuffix]:
    functions = [getattr(step, "function", None) for step in program.steps]
    return [function for function in functions if isinstance(function, DeferredSuffix)]


def bound(program: Program) -> int:
    """How many bound programs are kept."""
    return sum(len(step.cache) for step in program.steps if hasattr(step, "cache"))


# --- One segment

MEANS = "(float[N,M] x, float[M] w) => (float[N,1] y) { a = Mul(x, w) e = Exp(a) y = ReduceMean<axes=[1]>(e) }"


def means(x: Array, w: Array) -> Array:
    return np.asarray(np.exp(x * w).mean(1, keepdims=True))


def test_one_program_serves_every_shape_and_remembers_it() -> None:
    program = text_program(MEANS, opset=13)
    for shape in ((2, 3), (50, 7), (1, 1), (2, 3), (0, 4)):
        x, w = ramp(shape), ramp(shape[1:])
        assert_close(program([x, w])[0], means(x, w), 1e-5, 1e-6, str(shape))
    assert bound(program) == 4


def test_the_oldest_shapes_are_forgotten() -> None:
    with patch.object(segment_run, "BOUND_LIMIT", 2):
        program = text_program(MEANS, opset=13)
    for n in (1, 2, 3, 4, 1):
        x, w = ramp((n, 3)), ramp((3,))
        assert_close(program([x, w])[0], means(x, w), 1e-5, 1e-6, str(n))
    assert bound(program) == 2


@pytest.mark.parametrize("threads", [2, 5, 64])
def test_threads_give_the_same_bits(threads: int) -> None:
    x, w = ramp((400, 300)), ramp((300,))
    [one], [many] = text_program(MEANS, opset=13)([x, w]), text_program(MEANS, opset=13, threads=threads)([x, w])
    assert one.tobytes() == many.tobytes()


def test_large_results_begin_a_cache_line() -> None:
    program = text_program(MEANS, opset=13)
    x = np.zeros((20_001, 2), np.float32)
    results = [program([x, ramp((2,))])[0] for _ in range(8)]
    assert [address_of(result) % CACHE_LINE for result in results] == [0] * 8


def test_many_threads_may_call_at_once() -> None:
    program = text_program(MEANS, opset=13, threads=2)
    cases = [(ramp((n, 40)), ramp((40,), low=-n / 100)) for n in (1, 3, 90, 300)]
    wanted = [means(x, w) for x, w in cases]
    barrier = threading.Barrier(4)

    def work(seed: int) -> None:
        barrier.wait(60)
        for k in np.random.default_rng(seed).integers(0, len(cases), 60):
            assert_close(program(cases[k])[0], wanted[k], 1e-5, 1e-6, f"case {k}")

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, seed) for seed in range(4)]:
            future.result(60)


def test_programs_that_share_a_lease_run_again_and_again() -> None:
    """From the sixth run on a program is run as its lease was left, unless another program had it, or its memory is another one."""
    options = CPUOptions(threads=1, pool=ScratchPool(RunContext))
    sum_of = text_program(MEANS, opset=13, options=options)
    negated = text_program("(float[N] x) => (float[N] y) { y = Neg(x) }", options=options)
    for k in range(40):
        n = (3, 300)[k > 20] if k % 7 else 1  # other shapes, and then more scratch memory
        x, w = ramp((n, 40)), ramp((40,), low=-k - 1)
        assert_close(sum_of([x, w])[0], means(x, w), 1e-5, 1e-6, f"run {k}")
        if k % 4 == 3:
            np.testing.assert_array_equal(negated([w])[0], -w)
        if k == 30:
            sum_of.pool.trim()


class OfSomebody(np.ndarray):
    pass


def test_arrays_of_other_classes_come_between() -> None:
    program = text_program("(float[N] x, float[N] y) => (float[N] z) { z = Sub(x, y) }")
    for k in range(30):
        x, y = ramp((5,)), ramp((5,), low=-k - 1)
        given = y.view(OfSomebody) if k > 10 and k % 3 == 0 else y
        np.testing.assert_array_equal(program([x, given])[0], x - y)


# --- Shapes that are not as declared


def two_inputs() -> Program:
    return text_program("(float[N] x, float[N] y) => (float[N] z) { a = Exp(x) z = Mul(a, y) }")


def test_shapes_that_contradict_their_symbols_have_a_program_of_their_own() -> None:
    program = two_inputs()
    x, y = ramp((4,)), ramp((1,))
    for _ in range(2):
        np.testing.assert_allclose(program([x, y])[0], np.exp(x) * y, rtol=1e-6)
        np.testing.assert_allclose(program([x, x])[0], np.exp(x) * x, rtol=1e-6)
    assert bound(program) == 1
    with pytest.raises(ShapeInferenceError, match="Mul"):
        program([x, ramp((3,))])


def test_what_is_declared_a_scalar_may_be_anything_where_no_rank_counts() -> None:
    x, y = ramp((2, 3)), np.array(0.5, np.float32)
    program = text_program("(float x, float y) => (float z) { a = Add(x, y) z = Mul(a, x) }")
    for given in (np.array(2, np.float32), x, x[0]):
        np.testing.assert_array_equal(program([given, y])[0], (given + y) * given)
    with pytest.raises(InvalidArgument, match=r"'x': rank 2 came, expected float32\[\]"):
        text_program("(float x) => (float z) { a = ReduceSum(x) z = Neg(a) }")([x])


def test_dimensions_of_inputs_may_be_expressions() -> None:
    """As those of a partition in the middle of a graph are; a symbol of the model may be called as ours are."""
    n, other = symbol("n"), symbol("dim0")
    x, y = Value("x", TensorType("float32", (2 * n, other))), Value("y", TensorType("float32", (2 * n + 1,)))
    z, flat = Value("z"), [Value(name, TensorType("float32", None)) for name in ("a", "b")]
    axes = Value("axes", None, ints(-1))
    pairs = enumerate(zip((x, y), flat, strict=True))
    nodes = [Node("Reshape", [given, axes], [made], version=21, name=f"flat{k}") for k, (given, made) in pairs]
    join = Node("Concat", flat, [z], {"axis": 0}, version=21, name="join")
    program = Program([*nodes, join], [(x, Info(x.type)), (y, Info(y.type))], [z], rules(), CPUOptions(), {})
    for size in (1, 3):
        a, b = ramp((2 * size, 5)), ramp((2 * size + 1,))
        np.testing.assert_array_equal(program([a, b])[0], np.concatenate([a.reshape(-1), b]))


# --- Several segments


def test_contents_are_read_between_segments() -> None:
    text = """(float[N] x, int64 k) => (float[A] y) {
        axis = Constant<value_ints=[0]>() one = Constant<value_int=1>() more = Add(k, one) n = Unsqueeze(more, axis)
        v, i = TopK(x, n) y = Exp(v)
    }"""
    program = text_program(text)
    x = ramp((9,))
    for k in (2, 0, 8, 2):
        np.testing.assert_allclose(program([x, np.array(k)])[0], np.exp(np.sort(x)[::-1][: k + 1]), rtol=1e-6)
    with pytest.raises(InvalidArgument, match=r"TopK .*has the element 10; it should be from 0 to 9"):
        program([x, np.array(9)])
    assert tails(program) == []


def test_what_a_kernel_computes_may_be_a_shape() -> None:
    text = """(float[N] x, int64[M] parts) => (float[A,B] y) {
        axis = Constant<value_ints=[0]>() rows = ReduceMax<keepdims=1>(parts) rest = Constant<value_ints=[-1]>()
        shape = Concat<axis=0>(rows, rest) e = Exp(x) y = Reshape(e, shape)
    }"""
    program = text_program(text)
    x = ramp((12,))
    for rows in (3, 4, 12):
        np.testing.assert_allclose(program([x, ints(1, rows, 2)])[0], np.exp(x).reshape(rows, -1), rtol=1e-6)
    assert program.facts()["segments"] == 2


def test_steps_in_python_tell_sizes_of_what_follows() -> None:
    text = """(string[N,M] x, float[N,M] v) => (float[K] y, int64[2,K] where) {
        where = NonZero(x) t = Transpose(where) g = GatherND(v, t) y = Neg(g)
    }"""
    program = text_program(text)
    for seed in (1, 2):
        v = np.random.default_rng(seed).normal(size=(5, 6)).astype(np.float32)
        y, where = program([np.where(v > 0, "a", "").astype(object), v])
        np.testing.assert_array_equal(where, np.nonzero(v > 0))
        np.testing.assert_array_equal(y, -v[v > 0])
    assert program.facts()["python_steps"] == 1


def test_kernels_tell_sizes_of_what_follows() -> None:
    program = text_program("(float[N,M] x) => (int64[2,K] y) { where = NonZero(x) y = Neg(where) }")
    for seed in (1, 2):
        x = np.maximum(np.random.default_rng(seed).normal(size=(5, 6)), 0).astype(np.float32)
        np.testing.assert_array_equal(program([x])[0], -np.array(np.nonzero(x)))
    assert program.facts()["python_steps"] == 0


# --- The tail: lowered during the run


def test_a_rank_that_only_the_run_tells() -> None:
    program = text_program(
        "(float[N] x, int64[R] shape) => (float y) { r = Reshape(x, shape) e = Exp(r) y = ReduceMax<keepdims=0>(e) }"
    )
    x = ramp((12,))
    for shape in ((3, 4), (12,), (2, 3, 2), (4, 3), (3, 4)):
        np.testing.assert_allclose(program([x, ints(*shape)])[0], np.exp(x).max(), rtol=1e-6)
    [tail] = tails(program)
    assert len(tail.programs) == 3  # one a length of the shape


def test_an_input_of_any_rank() -> None:
    x, y = Value("x", TensorType("float32", None)), Value("y", TensorType("float32", None))
    program = Program([Node("Exp", [x], [y], version=21, name="e")], [(x, Info(x.type))], [y], rules(), CPUOptions(), {})
    for shape in ((), (3,), (2, 3), (4, 5)):
        np.testing.assert_allclose(program([ramp(shape)])[0], np.exp(ramp(shape)), rtol=1e-6)


def test_numbers_that_only_the_run_tells() -> None:
    text = """(float[N,M] x, float step, int64[1] axes) => (float[K] y) {
        s = ReduceSum<keepdims=0>(x, axes) zero = Constant<value_float=0.0>()
        ten = Constant<value_float=10.0>() r = Range(zero, ten, step) y = Concat<axis=0>(s, r)
    }"""
    program = text_program(text)
    x = ramp((3, 4))
    for step, axis in ((2.5, 0), (5.0, 1), (2.5, -2)):
        want = np.concatenate([x.sum(axis), np.arange(0, 10, step)]).astype(np.float32)
        np.testing.assert_allclose(program([x, np.array(step, np.float32), ints(axis)])[0], want, rtol=1e-5)


def test_what_was_computed_before_the_tail_is_handed_to_it() -> None:
    text = """(float[N] x, int64[R] shape) => (float y, float[N] early, int64[1] size) {
        early = Exp(x) r = Reshape(early, shape) size = Size(x) t = Transpose(r) s = Mul(t, t) y = ReduceSum<keepdims=0>(s)
    }"""
    program = text_program(text)
    x = ramp((6,))
    for shape in ((2, 3), (6,)):
        y, early, size = program([x, ints(*shape)])
        np.testing.assert_allclose(y, (np.exp(x) ** 2).sum(), rtol=1e-5)
        np.testing.assert_allclose(early, np.exp(x), rtol=1e-6)
        assert size.tolist() == 6


def test_the_tail_names_its_nodes_too() -> None:
    program = text_program("(float[N] x, int64[R] shape) => (float y) { y = Reshape(x, shape) }")
    with pytest.raises(InvalidArgument, match=r"Reshape .*: the shape \(6\) cannot become \(4, 2\)"):
        program([ramp((6,)), ints(4, 2)])


# --- Errors


def test_a_failing_kernel_names_its_node_and_the_program_goes_on() -> None:
    program = op_program("Gather", [ramp((3,)), np.zeros((2, 2), np.int64)], threads=2)
    bad = np.array([[0, 1], [2, 3]])
    for _ in range(2):
        with pytest.raises(RuntimeException, match=r"Gather 'node' \(CPUExecutionProvider\): index 3 at position 3 "):
            program([ramp((3,)), bad])
        np.testing.assert_array_equal(program([ramp((3,)), bad % 3])[0], ramp((3,))[bad % 3])


def test_a_failing_step_in_python_names_its_node() -> None:
    texts = np.array(["a", "b"], object)
    program = op_program("StringConcat", [texts, texts])

    def fail(*_: Any) -> list[Any]:
        raise ValueError("no such thing")

    for step in program.steps:
        if hasattr(step, "function"):
            step.function = fail
    with pytest.raises(RuntimeException, match=r"StringConcat 'node' \(CPUExecutionProvider\): no such thing"):
        program([texts, texts])


@pytest.mark.skipif(os.name != "posix", reason="there is no thread team on other systems")
@pytest.mark.parametrize(("threads", "rows", "loaded"), [(2, "N", True), (2, "9", False), (2, "99999", True), (1, "N", False)])
def test_what_workers_run_is_loaded_with_the_kernels_where_they_may_be_needed(threads: int, rows: str, loaded: bool) -> None:
    text = f"(float[{rows}] x) => (float[{rows}] y) {{ y = Neg(x) }}"
    with patch.object(Kernels, "load", autospec=True, side_effect=Kernels.load) as loading:
        text_program(text, threads=threads)
    [(_, specs)] = [call.args for call in loading.call_args_list]
    assert set(team.specs(2)).issubset(specs) == loaded


# --- Results of steps in Python

MATCHES = """(string[N] x) => (bool[N] b, bool[N] y) { b = RegexFullMatch<pattern = "a">(x) y = Not(b) }"""
TEXTS = np.array(["a", "b", "a"], object)


def patched(result: Any) -> Program:
    """A program whose step gives this, and not what lowering believes."""
    program = text_program(MATCHES)
    for step in program.steps:
        if hasattr(step, "function"):
            step.function = lambda *_: result
    return program


@pytest.mark.parametrize(
    ("result", "came"),
    [
        ([np.zeros(3, np.float32)], r"gave float32 \(3,\) for 'b', expected bool \(N\)"),
        ([np.zeros((3, 1), bool)], r"gave bool \(3, 1\) for 'b', expected bool \(N\)"),
        ([[True, False, True]], "gave list for 'b', expected bool"),
        ([], "gave 0 results, expected 1"),
    ],
    ids=["type", "rank", "no array", "too few"],
)
def test_a_result_is_of_the_type_and_rank_that_lowering_believes(result: Any, came: str) -> None:
    with pytest.raises(RuntimeException, match=r"RegexFullMatch .*\(CPUExecutionProvider\): it " + came):
        patched(result)([TEXTS])


def test_known_dimensions_are_compared() -> None:
    program = op_program("RegexFullMatch", [TEXTS], {"pattern": "a"}, fixed=True)
    for step in program.steps:
        if hasattr(step, "function"):
            step.function = lambda *_: [np.zeros(2, bool)]
    with pytest.raises(RuntimeException, match=r"gave bool \(2,\) for 'out0', expected bool \(3\)"):
        program([TEXTS])


@pytest.mark.parametrize("count", [2, 4, 0])
def test_open_dimensions_are_compared_before_a_kernel_reads(count: int) -> None:
    program = patched([np.zeros(count, bool)])
    with pytest.raises(InvalidArgument, match=rf"RegexFullMatch .*: its result 'b' has the shape \({count}\), expected \(3\)"):
        program([TEXTS])
    assert [array.shape for array in patched([np.zeros(3, bool)])([TEXTS])] == [(3,), (3,)]


def test_results_are_read_from_their_first_byte_on() -> None:
    b, y = patched([np.array([True, False, False, True, True])[::2]])([TEXTS])
    assert (b.tolist(), y.tolist()) == ([True, False, True], [False, True, False])


def test_a_brief_run_is_timed_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared between threads it may take less than 8 us, and would be taken for one that is not worth sharing."""
    attached, attach = [], Job.attach

    def note(job: Job, *arguments: Any) -> None:
        attached.append(arguments[3])
        attach(job, *arguments)

    monkeypatch.setattr(Job, "attach", note)
    x = np.ones((128, 768), np.float32)
    program = op_program("Neg", [x], fixed=True, threads=2)
    for _ in range(segment_run.TRIES):
        program([x])
    assert attached == [HOLD] * segment_run.TRIES
