"""Orders of operators that keep less alive."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ort_lite_cpu.program.schedule import peak_of, reorder


def test_a_branch_is_finished_before_the_next_one_begins() -> None:
    # x -> three branches, each large and then small, which meet at the end; given is all the large ones first
    uses = [["x"], ["x", "a"], ["x", "b"], ["x", "c"], ["a", "a2"], ["b", "b2"], ["c", "c2"], ["a2", "b2", "c2", "y"]]
    sizes = {"x": 1, "a": 100, "b": 100, "c": 100, "a2": 1, "b2": 1, "c2": 1, "y": 1}
    order = reorder(uses, sizes)
    assert order == [0, 1, 4, 2, 5, 3, 6, 7]
    assert (peak_of(range(8), uses, sizes), peak_of(order, uses, sizes)) == (301, 103)


def test_where_nothing_is_gained_the_order_stays() -> None:
    assert reorder([["a"], ["a", "b"], ["b", "c"]], {"a": 4, "b": 4, "c": 4}) is None
    assert reorder([], {}) is None


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), max_size=14),
    st.lists(st.integers(0, 50), min_size=10, max_size=10),
)
def test_orders_are_complete_keep_the_users_of_a_tensor_in_order_and_lower_the_peak(
    uses: list[list[int]], sizes: list[int]
) -> None:
    known = dict(enumerate(sizes))
    order = reorder(uses, known)
    if order is None:
        return
    assert sorted(order) == list(range(len(uses)))
    assert peak_of(order, uses, known) < peak_of(range(len(uses)), uses, known)
    place = {k: time for time, k in enumerate(order)}
    for tensor in range(10):
        users = [k for k, own in enumerate(uses) if tensor in own]
        assert all(place[a] < place[b] for a, b in pairwise(users))
