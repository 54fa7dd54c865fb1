from hypothesis import given
from hypothesis import strategies as st

from ort_lite.memory.planning.free_list import FreeList, MemoryActiveBlock, MemoryFreeBlock
from tests.memory.problems import Problem, disjoint, first_fit, problems


def test_spec_4_12_a_fit_is_split_into_pad_slot_and_rest() -> None:
    arena = FreeList(200)
    arena.place(10, end_op=9)
    assert arena.place(20, end_op=5, alignment=64) == 64
    assert arena.free == [MemoryFreeBlock(10, 54), MemoryFreeBlock(84, 116)]
    assert sorted(arena.active) == [MemoryActiveBlock(5, 64, 20), MemoryActiveBlock(9, 0, 10)]


@given(problems(most=20), st.integers(0, 100), st.integers(0, 3))
def test_spec_4_12_any_sequence_is_disjoint_and_first_fit(problem: Problem, capacity: int, power: int) -> None:
    order = sorted(range(len(problem.size)), key=lambda i: problem.start[i])
    arena, offsets = FreeList(capacity), [-1] * len(order)
    for i in order:
        arena.advance(problem.start[i])
        offset = arena.place(problem.size[i], problem.end[i] - 1, 1 << power)
        offsets[i] = -1 if offset is None else offset
    assert offsets == first_fit(problem, order, [1 << power] * len(order), capacity)
    rows = zip(offsets, problem.size, problem.start, problem.end, strict=True)
    assert disjoint((offset, offset + size, start, end) for offset, size, start, end in rows if offset >= 0)
