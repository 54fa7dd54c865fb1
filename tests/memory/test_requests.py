from typing import Any

import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.memory.planning.requests import ArenaRole, MemoryConstraint, Platform, TensorRequest, align_up


def test_spec_4_1_the_roles_and_their_values() -> None:
    assert {role: role.value for role in ArenaRole} == {
        ArenaRole.scratch: "scratch",
        ArenaRole.persistent: "persistent",
        ArenaRole.constant: "constant",
    }


@pytest.mark.parametrize(
    ("arena", "platform", "dtype", "hint", "base", "slot"),
    [
        (None, 1, 1, 1, 16, 1),
        (None, 8, 1, 1, 16, 8),
        (None, 8, 16, 1, 16, 16),
        (None, 8, 4, 64, 16, 64),
        (None, 32, 4, 1, 16, 32),
        (64, 16, 1, 1, 64, 64),
        (64, 16, 8, 32, 64, 64),
        (8, 16, 1, 1, 16, 16),
        (4, 2, 4, 1, 4, 4),
    ],
)
def test_spec_4_6_alignment_of_bases_and_slots(
    arena: int | None, platform: int, dtype: int, hint: int, base: int, slot: int
) -> None:
    constraint, device = MemoryConstraint("cpu", arena_alignment=arena), Platform(min_alignment=platform)
    assert (constraint.base_alignment(device), constraint.slot_alignment(device, dtype, hint)) == (base, slot)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_size": -1}, "max_size -1, expected 0 or more"),
        ({"arena_alignment": 0}, "arena_alignment 0, expected a power of two"),
        ({"arena_alignment": 24}, "arena_alignment 24, expected a power of two"),
        ({"arena_alignment": -8}, "arena_alignment -8, expected a power of two"),
    ],
)
def test_spec_4_6_unsound_constraints_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"'dtcm': {message}"):
        MemoryConstraint("dtcm", **options)


def test_a_tensor_that_needs_more_than_the_user_asks_for_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"arena_alignment 4 \(platform: 2\), a tensor needs 8; raise"):
        MemoryConstraint("dtcm", arena_alignment=4).slot_alignment(Platform(min_alignment=2), dtype_alignment=8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"min_alignment": 12}, "min_alignment 12"), ({"writable": ("cpu",), "read_only": ("cpu",)}, "named twice")],
)
def test_unsound_platforms_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Platform(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": -4}, "size -4, expected 0"),
        ({"size": 2**62 + 1}, "size 4611686018427387905"),
        ({"size": 4, "dtype_alignment": 3}, "dtype_alignment 3"),
        ({"size": 4, "alignment_hint": 0}, "alignment_hint 0"),
    ],
)
def test_unsound_tensors_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"'x': {message}"):
        TensorRequest("x", **arguments)


@pytest.mark.parametrize(
    ("value", "alignment", "expected"), [(0, 8, 0), (1, 8, 8), (8, 8, 8), (9, 3, 9), (2**62 - 1, 16, 2**62)]
)
def test_rounding_up(value: int, alignment: int, expected: int) -> None:
    assert align_up(value, alignment) == expected
