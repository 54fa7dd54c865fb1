"""plan_offsets: the session's planner for the buffers of a provider."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ort_lite.errors import InvalidArgument, InvalidPlan
from ort_lite.memory.planning.block_kernels import Blocks
from ort_lite.memory.planning.offsets import BufferRequest, Offsets, plan_offsets
from ort_lite.memory.planning.planner import PLANNERS, MemoryPlanner
from tests.memory.problems import Problem, disjoint, problems

every_planner = pytest.mark.parametrize("planner", [None, *PLANNERS.values()])


def requests(problem: Problem) -> list[BufferRequest]:
    return [
        BufferRequest(size, start, end - 1) for size, start, end in zip(problem.size, problem.start, problem.end, strict=True)
    ]


@every_planner
@given(problem=problems(), alignment=st.sampled_from([1, 16, 24]))
def test_buffers_in_use_at_once_share_no_byte(problem: Problem, alignment: int, planner: MemoryPlanner | None) -> None:
    plan = plan_offsets(requests(problem), alignment, planner)
    spans = [
        (offset, offset + size, start, end)
        for offset, size, start, end in zip(plan.offsets, problem.size, problem.start, problem.end, strict=True)
    ]
    assert disjoint(spans)
    assert all(offset % alignment == 0 for offset in plan.offsets)
    assert all(top <= plan.total for _, top, _, _ in spans)
    assert problem.most_alive() <= plan.lower_bound <= plan.total


def test_a_chain_needs_two_buffers() -> None:
    chain = [BufferRequest(1000, step, step + 1) for step in range(10)]
    assert plan_offsets(chain) == Offsets((0, 1024) * 5, 2048, 2048)


def test_no_buffers_need_no_memory() -> None:
    assert plan_offsets([]) == Offsets((), 0, 0)


@pytest.mark.parametrize(
    ("wrong", "alignment", "message"),
    [
        ((-1, 0, 0), 256, "request 1 has -1 bytes from step 0 to 0"),
        ((1, 2, 1), 256, "request 1 has 1 bytes from step 2 to 1"),
        (((1 << 62) + 1, 0, 0), 256, "request 1 has 4611686018427387905 bytes"),
        ((1, 0, 0), 0, "alignment 0, expected 1 or more"),
    ],
)
def test_impossible_requests_are_named(wrong: tuple[int, int, int], alignment: int, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        plan_offsets([BufferRequest(1, 0, 0), BufferRequest(*wrong)], alignment)


@pytest.mark.parametrize(("answer", "message"), [(0, "memory planner 'careless'"), (-1, "no place .* for request 0")])
def test_a_wrong_planner_is_found(answer: int, message: str) -> None:
    class Careless(MemoryPlanner):
        name = "careless"

        def pack(self, blocks: Blocks, capacity: int = 0) -> list[int]:
            return [answer] * blocks.n

    with pytest.raises(InvalidPlan, match=message):
        plan_offsets([BufferRequest(8, 0, 1), BufferRequest(8, 1, 2)], 8, Careless())
