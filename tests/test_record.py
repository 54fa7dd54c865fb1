"""Records are to their users what frozen dataclasses with slots are."""

import copy
import pickle
from typing import Any

import pytest

from ort_lite.record import FEW, Record, field


class Point(Record):
    """A place."""

    x: int
    y: int = 2
    names: list[str] = field(default_factory=list)


class Other(Record):
    x: int
    y: int = 2


class Named(Other):
    name: str = ""


class Cell(Record, frozen=False):
    value: int


class Identity(Record, eq=False):
    value: int


class Doubled(Record):
    value: int

    def __init__(self, value: int) -> None:
        object.__setattr__(self, "value", 2 * value)


def test_fields_are_given_by_position_or_name_and_have_defaults() -> None:
    made = [Point(1), Point(x=1), Point(1, 2), Point(1, y=2, names=[])]
    assert [(point.x, point.y, point.names) for point in made] == [(1, 2, [])] * 4


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((), {}, "missing.*'x'"),
        ((1, 2, [], 4), {}, "positional"),
        ((1,), {"z": 3}, "'z'"),
        ((1,), {"x": 1}, "'x'"),
        ((), {"z": 1}, "'z'|'x'"),
    ],
)
def test_wrong_fields_are_an_error(values: tuple[Any, ...], named: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Point(*values, **named)


def test_the_first_records_of_a_class_and_later_ones_are_made_alike() -> None:
    class Later(Point):
        more: tuple[int, ...] = ()

    made = [Later(1, names=["a"], more=(k,)) for k in range(2 * FEW)]
    assert made == [Later(1, 2, ["a"], (k,)) for k in range(2 * FEW)]
    wrongs: list[tuple[Any, ...]] = [(), (1, 2, [], (), 5)]
    for wrong in wrongs:
        with pytest.raises(TypeError):
            Later(*wrong)


def test_a_default_before_a_field_without_one_is_an_error_where_the_class_is_defined() -> None:
    with pytest.raises(TypeError, match="Mixed: a field with a default comes before one without"):
        exec("class Mixed(Record):\n x: int = 1\n y: int", {"Record": Record})  # mypy would find it too


def test_a_factory_makes_a_default_for_each_record() -> None:
    first, second = Point(1), Point(1)
    first.names.append("a")
    assert second.names == []


def test_records_of_one_class_with_equal_fields_are_equal() -> None:
    assert Other(1) == Other(1, 2) != Other(1, 3)
    assert len({Other(1), Other(1, 2), Other(1, 3)}) == 2
    assert Other(1) != Named(1)
    assert Other(1) != (1, 2)


def test_a_subclass_has_the_fields_of_both() -> None:
    Other(1)  # its constructor is made first, and is not the subclass's
    assert repr(Named(1, name="n")) == "Named(x=1, y=2, name='n')"


def test_fields_cannot_be_set_or_deleted() -> None:
    other: Any = Other(1)
    with pytest.raises(AttributeError, match=r"Other.x cannot be set"):
        other.x = 2
    with pytest.raises(AttributeError, match=r"Other.x cannot be deleted"):
        del other.x
    with pytest.raises(AttributeError):
        other.z = 2


def test_fields_of_a_record_that_is_not_frozen_can_be_set() -> None:
    cell: Any = Cell(1)
    cell.value = 3
    assert cell.value == 3
    assert cell != Cell(3)
    assert len({cell, Cell(3)}) == 2
    with pytest.raises(AttributeError):
        cell.other = 2


def test_a_record_may_be_equal_to_itself_alone() -> None:
    one: Any = Identity(1)
    assert one == one and one != Identity(1)
    with pytest.raises(AttributeError):
        one.value = 2


def test_replace_makes_a_changed_copy() -> None:
    assert Other(1).replace(y=5) == Other(1, 5)
    with pytest.raises(TypeError, match="'z'"):
        Other(1).replace(z=5)


@pytest.mark.parametrize("record", [Other(1), Named(1, name="n"), Doubled(2)], ids=repr)
def test_a_record_can_be_pickled_and_copied(record: Record) -> None:
    assert pickle.loads(pickle.dumps(record)) == copy.copy(record) == copy.deepcopy(record) == record


def test_records_match_patterns_by_position() -> None:
    match Named(1, 2, "n"):
        case Named(x, _, name):
            assert (x, name) == (1, "n")


def test_a_class_may_have_its_own_constructor() -> None:
    assert Doubled(2).value == 4
    assert not hasattr(Doubled(2), "__dict__")
