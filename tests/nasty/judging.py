"""What a case is, how it may end, and tables of cases."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ort_lite.errors import OrtLiteError


class Case(NamedTuple):
    """`act()` returns pairs (what came, what the CPU provider gives), or nothing where it looks by itself.

    It must end so: rightly, or where there are `names` in an error of ort_lite that has each of these regular expressions.
    `either`: both will do. `warned` must be in a warning.
    """

    act: Any
    names: tuple[str, ...] = ()
    either: bool = False
    warned: str = ""


Table = dict[str, Case]


class Outcome(NamedTuple):
    """How a case ended: "right", "wrong", "error" (one of ort_lite's) or "foreign" (another one)."""

    kind: str
    text: str = ""
    warned: str = ""


def ended(case: Case) -> Outcome:
    """Runs a case, in this process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind, text = _acted(case)
    return Outcome(kind, text[:4000], "\n".join(str(each.message)[:400] for each in caught[:10]))


def _acted(case: Case) -> tuple[str, str]:
    try:
        for k, (came, wanted) in enumerate(case.act() or ()):
            difference = differs(came, wanted)
            if difference:
                return "wrong", f"result {k}: {difference}"
    except OrtLiteError as error:
        return "error", "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
    except BaseException as error:  # noqa: BLE001  what is no error of ours is an outcome too
        return "foreign", f"{type(error).__name__}: {error}"
    return "right", ""


def differs(came: Any, wanted: Any) -> str:
    """What is wrong with a result; "" for nothing."""
    if isinstance(wanted, list):
        if not isinstance(came, list) or len(came) != len(wanted):
            return f"{came!r}, wanted {wanted!r}"
        return next((text for one in zip(came, wanted, strict=True) if (text := differs(*one))), "")
    if not isinstance(came, np.ndarray):
        return "" if came is wanted is None else f"{came!r}, wanted {wanted!r}"
    if (came.dtype, came.shape) != (wanted.dtype, wanted.shape):
        return f"{came.dtype}{list(came.shape)}, wanted {wanted.dtype}{list(wanted.shape)}"
    return "" if np.array_equal(came, wanted, equal_nan=wanted.dtype.kind == "f") else f"{came!r}, wanted {wanted!r}"


def fault(case: Case, outcome: Outcome) -> str:
    """What is wrong with how a case ended; "" for nothing."""
    if case.warned and not re.search(case.warned, outcome.warned):
        return f"no warning has {case.warned!r}: {outcome}"
    if outcome.kind == "right":
        return "" if case.either or not case.names else f"no error came, expected one with {case.names}"
    if outcome.kind != "error" or not case.names:
        return f"{outcome.kind}: {outcome.text}"
    missing = [name for name in case.names if not re.search(name, outcome.text)]
    return f"the error lacks {missing}: {outcome.text}" if missing else ""


def table(entries: Iterable[tuple[str, Case]]) -> Table:
    """By name. Two of one name are a mistake."""
    made: Table = {}
    for name, case in entries:
        assert name not in made, name
        made[name] = case
    return made


def crossed(**sides: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every way to take one of each side, named after them."""
    for way in product(*(side.items() for side in sides.values())):
        yield "-".join(name for name, _ in way), tuple(value for _, value in way)
