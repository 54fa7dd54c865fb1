"""What kernels say that they touch: the language, what a call has to look like, and the comparison with bytes."""

from typing import NamedTuple

import pytest

from ort_lite.native.extents import Reach, contract, extents, walk, within
from ort_lite.native.lang import OK, Ptr, Static, StaticInt, native
from ort_lite.shapes import Dim, evaluate, symbol

WIDE = 8


@native
@extents(x="n * m", y="walk(at, n, step)", z="parts * WIDE", w="given", v="m if kind == 'row' else 1")
def example(
    x: Ptr,
    y: Ptr,
    z: Ptr,
    w: Ptr,
    v: Ptr,
    n: int,
    m: int,
    at: int,
    step: int,
    factor: float,
    kind: Static,
    part: int,
    parts: int,
) -> int:
    """A kernel that is never compiled."""
    return OK


def reaches(*scalars: Dim | float, kind: str = "row", parts: int = 2) -> tuple[object, ...]:
    return contract(example).reaches(scalars, {"kind": kind}, parts)


def test_the_extents_of_a_call_follow_from_its_scalars() -> None:
    assert reaches(3, 4, 1, 2, 0.5) == (12, Reach(1, 6, 3), 16, None, 4)
    assert reaches(3, 4, 1, -2, 0.5, kind="one", parts=5) == (12, Reach(-3, 2, 3), 40, None, 1)


def test_open_sizes_give_expressions() -> None:
    n = symbol("n")
    x, y, *_ = reaches(n, 4, 0, 4, 0.5)
    assert x == n * 4
    assert y == Reach(0, n * 4 - 3, n)


@pytest.mark.parametrize(
    ("scalars", "message"),
    [
        ((3, 4, 1, 2), "4 scalars came, 5 are expected: n, m, at, step, factor"),
        ((3, 4, 1, 2, 0.5, 1), "6 scalars came"),
        ((3, 4, 1, 2, 5), "'factor' is 5 .int., expected a float"),
        ((3, 4.0, 1, 2, 0.5), "'m' is 4.0 .float., expected an integer"),
        ((3, 4, 1, 2, symbol("s")), "'factor' is s .Expr., expected a float"),
    ],
)
def test_a_call_that_does_not_fit_names_the_parameter(scalars: tuple[Dim | float, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        reaches(*scalars)


def test_a_kernel_without_extents_is_not_called() -> None:
    @native
    def silent(x: Ptr, n: int, part: int, parts: int) -> int:
        return OK

    with pytest.raises(TypeError, match="silent does not say what it touches"):
        contract(silent).reaches((3,), {}, 1)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"x": "n"}, r"its pointers are \['x', 'y'\]"),
        ({"y": "n", "x": "n"}, r"its pointers are \['x', 'y'\]"),
        ({"x": "n", "y": "n", "z": "n"}, r"its pointers are \['x', 'y'\]"),
        ({"x": "n", "y": "m"}, r"names 'm', which is no parameter"),
        ({"x": "n", "y": "part"}, r"names 'part'"),
        ({"x": "n", "y": "rows.steps"}, r"names 'rows', which is no parameter"),
    ],
    ids=["one is missing", "another order", "one too many", "unknown", "part", "no record"],
)
def test_a_declaration_that_does_not_fit_the_kernel_is_refused(texts: dict[str, str], message: str) -> None:
    def kernel(x: Ptr, y: Ptr, n: int, part: int, parts: int) -> int:
        return OK

    with pytest.raises(TypeError, match=message):
        contract(extents(**texts)(kernel))


class Rows(NamedTuple):
    n: int
    step: int
    lanes: StaticInt


class Factor(NamedTuple):
    step: float


@native
@extents(x="walk(0, rows.n, rows.step, rows.lanes, 1)", y="rows.n * rows.lanes")
def recorded(x: Ptr, y: Ptr, rows: Rows, factor: Factor, part: int, parts: int) -> int:
    """A kernel that is never compiled, with two records that share a name of a field."""
    return OK


def test_records_are_passed_whole_and_their_fields_are_scalars_and_statics() -> None:
    made = contract(recorded)
    assert made.scalars == (("rows.n", "i64"), ("rows.step", "i64"), ("factor.step", "f64"))
    scalars, statics = made.arrange({"rows": Rows(3, 10, 4), "factor": Factor(0.5)})
    assert (scalars, statics) == ((3, 10, 0.5), {"rows.lanes": 4})
    assert made.reaches(scalars, statics, 1) == (Reach(0, 24, 12), 12)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": Rows(3, 10, 4)}, "'factor' missing; it takes rows, factor"),
        ({"rows": Factor(0.5), "factor": Factor(0.5)}, "'rows' is Factor.step=0.5., expected a Rows"),
        ({"rows": Rows(3, 10, 4), "factor": Factor(1)}, None),
    ],
)
def test_a_record_that_does_not_fit_is_refused(given: dict[str, object], message: str | None) -> None:
    made = contract(recorded)
    if message is None:
        scalars, statics = made.arrange(given)
        with pytest.raises(TypeError, match=r"'factor.step' is 1 .int., expected a float"):
            made.reaches(scalars, statics, 1)
        return
    with pytest.raises(TypeError, match=message):
        made.arrange(given)


def test_within_numbers() -> None:
    assert within(3, 12, 4) == 1
    assert within(4, 12, 4) == 0
    assert within(walk(0, 3, 1), 12, 4) == 1
    assert within(walk(1, 3, 1), 12, 4) == 0
    assert within(walk(2, 3, -1), 12, 4) == 1
    assert within(walk(1, 3, -1), 12, 4) == 0
    assert within(walk(9, 0, 1), 12, 4) == 1, "no loop touches nothing"
    assert within(walk(0, -2, 1, -3, 1), 12, 4) == 0, "their product is six"
    assert within(walk(0, -2, 1, 0, 1), 12, 4) == 1
    n = symbol("n", signed=True)
    for step in (1, -9):
        assert evaluate(within(walk(0, n, step, -3, 1), 12, 4), {"n": -2}) == 0, "as numbers, so symbols"


def test_equal_expressions_leave_nothing_to_be_looked_at() -> None:
    n, m = symbol("n"), symbol("m")
    assert within(n * m, n * m * 4, 4) == 1
    assert within(walk(0, n, m, m, 1), n * m * 4, 4) == 1
    assert within(walk(0, n, 1, m, n), m * n * 4, 4) == 1


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("m", [0, 1, 3])
def test_what_is_open_is_decided_by_the_sizes(n: int, m: int) -> None:
    sizes = {"n": n, "m": m, "s": -1}
    a, b, s = symbol("n"), symbol("m"), symbol("s", signed=True)
    for extent, touched in [
        (a * b, range(n * m)),
        (walk(a - 1, a, s), range(n)),
        (walk(0, a, b), [i * m for i in range(n)]),
        (walk(2, a, 1, b, 0), [2 + i for i in range(n) for _ in range(m)]),
    ]:
        for elements in (0, 1, 4, 9):
            wanted = all(0 <= at < elements for at in touched)
            decided = within(extent, symbol("bytes"), 4)
            assert bool(evaluate(decided, {**sizes, "bytes": 4 * elements})) >= wanted, (extent, elements)
            if isinstance(extent, Reach) or len(touched):
                assert bool(evaluate(decided, {**sizes, "bytes": 4 * elements})) <= wanted, (extent, elements)
