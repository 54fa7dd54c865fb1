"""What lowering makes of nodes: which instructions, over which buffers."""

import numpy as np
import pytest

from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Node, TensorType, Value
from ort_lite.inference import Info
from ort_lite.shapes import symbol
from ort_lite_cpu.lowering.lowered import Instruction
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program.program import Program
from tests.cpu.check import ints, ramp, rules, text_program


def kernels(program: Program) -> list[str]:
    """Names of the kernels, in order; generated ones are called elementwise."""
    specs = [item.spec for item in program.lowered.items if isinstance(item, Instruction)]
    return [spec.name.split(".")[-1].split("<")[0].split("_")[0] for spec in specs]


# --- What costs nothing


def test_shape_arithmetic_vanishes() -> None:
    text = """(float[N,C,H,W] x) => (float[A,B] y) {
        s = Shape(x) zero = Constant<value_int=0>() n = Gather(s, zero) axis = Constant<value_ints=[0]>()
        first = Unsqueeze(n, axis) rest = Constant<value_ints=[-1]>() target = Concat<axis=0>(first, rest)
        r = Reshape(x, target) y = Neg(r)
    }"""
    program = text_program(text)
    assert kernels(program) == ["elementwise"]
    for shape in ((2, 3, 4, 5), (1, 7, 1, 2)):
        np.testing.assert_array_equal(program([ramp(shape)])[0], -ramp(shape).reshape(shape[0], -1))


def test_views_share_memory() -> None:
    text = """(float[2,3,4] x) => (float[A,B] y) {
        e = Exp(x) a = Constant<value_ints=[6,4]>() f = Reshape(e, a) u = Flatten<axis=1>(f) axis = Constant<value_ints=[0]>()
        q = Unsqueeze(u, axis) s = Squeeze(q, axis) y = Neg(s)
    }"""
    program = text_program(text, fusion=False)
    assert kernels(program) == ["elementwise", "elementwise"]
    np.testing.assert_allclose(program([ramp((2, 3, 4))])[0], -np.exp(ramp((2, 3, 4))).reshape(6, 4), rtol=1e-6)


def test_contents_become_memory_where_a_kernel_reads_them() -> None:
    program = text_program("(float[A,B,C,D,E,F,G,H,I] x) => (int64[K] y) { y = Shape(x) }")
    assert program([np.zeros((1, 2, 3, 4, 1, 2, 3, 1, 2), np.float32)])[0].tolist() == [1, 2, 3, 4, 1, 2, 3, 1, 2]
    empty = text_program("(float x) => (int64[K] y) { y = Shape(x) }")
    assert empty([np.zeros((), np.float32)])[0].shape == (0,)


def test_contents_that_are_numbers_are_constants() -> None:
    program = text_program("(int64[4] i) => (int64[A] y) { a = Constant<value_ints=[5,6,7]>() y = Gather(a, i) }")
    assert kernels(program) == ["gather"]
    assert program([ints(2, 0, 1, -1)])[0].tolist() == [7, 5, 6, 7]


# --- Made once


def test_a_storage_order_is_made_once_for_all_readers() -> None:
    text = """(float[N,C,H,W] x) => (float[A,B,D,E] y, float[F,G,J,K] z) {
        y = LpPool<kernel_shape=[2,2]>(x) z = LpPool<kernel_shape=[2,2], strides=[2,2]>(x)
    }"""
    names = kernels(text_program(text))
    assert names.count("swap") == 3  # x once to channels last, both results back
    assert names.count("pool") == 2


def test_a_type_is_made_once_for_all_readers() -> None:
    text = """(int32[M,N] x) => (int32[A] y, int32[B] z) {
        y = ReduceMean<axes=[0], keepdims=0>(x) z = ReduceMean<axes=[1], keepdims=0>(x)
    }"""
    program = text_program(text, opset=13)
    names = kernels(program)
    assert names.count("elementwise") == 3  # to float64 once, both results back
    x = ramp((3, 4), "int32")
    assert [array.tolist() for array in program([x])] == [np.trunc(x.mean(axis)).tolist() for axis in (0, 1)]


# --- Outputs


def test_outputs_are_arrays_of_their_own() -> None:
    text = """(float[N,M] x) => (float[N,M] same, float[K] flat, float[N,M] e, float[N,M] twice, float[2] c) {
        same = Identity(x) all = Constant<value_ints=[-1]>() flat = Reshape(x, all) e = Exp(x) twice = Identity(e)
        c = Constant<value_floats=[1.0,2.0]>()
    }"""
    program = text_program(text)
    x = ramp((2, 3))
    for _ in range(2):
        outputs = program([x])
        for a, b in ((outputs[0], x), (outputs[1], x.reshape(-1)), (outputs[2], np.exp(x)), (outputs[3], np.exp(x))):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        assert outputs[4].tolist() == [1, 2]
        for k, output in enumerate(outputs):
            assert output.flags.writeable
            assert not np.shares_memory(output, x)
            assert not any(np.shares_memory(output, other) for other in outputs[k + 1 :])
            output[...] = 0


def test_a_step_outside_of_segments_sees_the_shape_of_its_input() -> None:
    """NonZero is one; its input is a view of memory that another reader sees in another shape."""
    text = """(float[N,M] x) => (int64[2,K] y, float[A] z) {
        e = Floor(x) all = Constant<value_ints=[-1]>() f = Reshape(e, all) two = Constant<value_ints=[2,-1]>()
        m = Reshape(e, two) y = NonZero(m) z = Neg(f)
    }"""
    program = text_program(text)
    x = ramp((3, 4), low=0)
    y, z = program([x])
    np.testing.assert_array_equal(y, np.nonzero(np.floor(x).reshape(2, 6)))
    np.testing.assert_array_equal(z, -np.floor(x).reshape(-1))


# --- What cannot be lowered


def test_an_operator_without_a_kernel_is_named() -> None:
    x, y = (Value(name, TensorType("float32", (symbol("n"),))) for name in "xy")
    node = Node("Odd", [x], [y], domain="some.domain", version=21, name="odd")
    with pytest.raises(NotSupported, match=r"Odd 'odd' \(CPUExecutionProvider\): no kernel for some.domain.Odd"):
        Program([node], [(x, Info(x.type))], [y], rules(), CPUOptions(), {})


def test_a_shape_operand_of_many_elements_is_declined() -> None:
    with pytest.raises(NotSupported, match=r"Reshape .*: shape operand 's' has 65 elements"):
        text_program("(float[N] x, int64[65] s) => (float[A] y) { y = Reshape(x, s) }")


# --- More axes than the loops of a copy


@pytest.mark.parametrize("rank", [6, 7, 9])
def test_copies_of_any_rank(rank: int) -> None:
    dims = ",".join(f"D{k}" for k in range(rank))
    perm = [*range(rank - 1, -1, -2), *range(rank - 2, -1, -2)]
    text = f"(float[{dims}] x) => (float[{dims}] y) {{ y = Transpose<perm={perm}>(x) }}"
    program = text_program(text)
    for last in (2, 5):
        x = ramp((2,) * (rank - 1) + (last,))
        np.testing.assert_array_equal(program([x])[0], x.transpose(perm))
