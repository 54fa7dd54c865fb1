import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ort_lite.errors import InvalidArgument
from ort_lite.memory.planning.lifetimes import TensorLifetime, alias_classes

OPS = st.integers(-1, 30)


@st.composite
def lifetimes(draw: st.DrawFn, name: str = "x") -> TensorLifetime:
    first, last = sorted((draw(OPS), draw(OPS)))
    return TensorLifetime(name, first, last)


def span(lifetime: TensorLifetime) -> tuple[int, int]:
    return lifetime.start_op, lifetime.end_op


@given(lifetimes(), st.lists(OPS))
def test_spec_4_3_adding_operators_spans_them_all_inclusively(lifetime: TensorLifetime, ops: list[int]) -> None:
    covered = [*span(lifetime), *ops]
    for op in ops:
        lifetime.add_op(op)
    assert span(lifetime) == (min(covered), max(covered))


@given(lifetimes("a"), lifetimes("b"), lifetimes("c"))
def test_spec_4_3_merging_is_commutative_associative_and_idempotent(
    a: TensorLifetime, b: TensorLifetime, c: TensorLifetime
) -> None:
    def merged(first: TensorLifetime, *others: TensorLifetime) -> TensorLifetime:
        result = copy.copy(first)
        for other in others:
            result.merge(other)
        return result

    assert span(merged(a, b)) == span(merged(b, a)) == (min(a.start_op, b.start_op), max(a.end_op, b.end_op))
    assert merged(merged(a, b), c) == merged(a, merged(b, c))
    assert merged(a, a) == a == merged(a)
    assert merged(a, b).tensor_id == "a"


def test_a_lifetime_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="'x': start_op 5 comes after end_op 4"):
        TensorLifetime("x", 5, 4)


# --- Aliases
def table(**spans: tuple[int, int]) -> dict[str, TensorLifetime]:
    return {name: TensorLifetime(name, *span) for name, span in spans.items()}


def test_tensors_without_alias_stay_alone_in_their_order() -> None:
    classes = alias_classes({"b": 2, "a": 1}, table(a=(0, 1), b=(2, 3)))
    assert [(c.members, c.size, span(c.lifetime)) for c in classes] == [(("b",), 2, (2, 3)), (("a",), 1, (0, 1))]


def test_a_class_has_the_largest_size_and_the_merged_lifetime() -> None:
    given_lifetimes = table(x=(0, 2), y=(5, 7), z=(1, 1))
    (only,) = alias_classes({"x": 4, "y": 16, "z": 8}, given_lifetimes, [("y", "x"), ("z", "y")])
    assert (only.members, only.size, span(only.lifetime)) == (("x", "y", "z"), 16, (0, 7))
    assert only.lifetime.tensor_id == "x"
    assert given_lifetimes == table(x=(0, 2), y=(5, 7), z=(1, 1))


@given(st.integers(1, 9), st.lists(st.lists(st.integers(0, 8), max_size=4), max_size=6))
def test_classes_are_what_the_groups_connect(n: int, groups: list[list[int]]) -> None:
    edges = [[i % n for i in group] for group in groups]
    component = list(range(n))
    for _ in range(n):
        for group in edges:
            for i in group:
                component = [component[group[0]] if c == component[i] else c for c in component]
    expected = [tuple(str(i) for i in range(n) if component[i] == c) for c in dict.fromkeys(component)]
    names = {str(i): 1 for i in range(n)}
    classes = alias_classes(names, table(**dict.fromkeys(names, (0, 0))), [[str(i) for i in g] for g in edges])
    assert [c.members for c in classes] == expected


@pytest.mark.parametrize(("groups", "message"), [([("x", "q")], "'q' has no size"), ([], "'x' has no lifetime")])
def test_an_unknown_tensor_is_named(groups: list[tuple[str, ...]], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        alias_classes({"x": 1}, {}, groups)
