"""What the kit draws itself, run by the provider and by the CPU provider: the smallest failure of each operator is shown."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ort_lite.testing.checks.tries import made, ran, told
from ort_lite.testing.drawing.sketch import Sketch
from ort_lite.testing.kit import Finding, Kit

NAMED = 2
"""Other failures of the same operators that are named."""


def attributes(kit: Kit) -> list[Finding]:
    """Each operator with every attribute varied: the result is that of the CPU provider, type and shape included."""
    return _of_kind(kit, "attributes")


def numbers(kit: Kit) -> list[Finding]:
    """NaN, infinities, zeros, denormals and large numbers come out as they do of the CPU provider."""
    return _of_kind(kit, "numbers")


def graphs(kit: Kit) -> list[Finding]:
    """A few nodes that a device may fuse or lay out anew: with other readers in the middle, values read twice, constants."""
    return _of_kind(kit, "graphs")


def sizes(kit: Kit) -> list[Finding]:
    """One session serves other sizes in each run, of any dimension, and those that it had before."""
    return _of_kind(kit, "sizes")


def _of_kind(kit: Kit, kind: str) -> list[Finding]:
    failed: defaultdict[tuple[str, ...], list[tuple[Sketch, str]]] = defaultdict(list)
    deviated: set[str] = set()
    for sketch in kit.drawn:
        if sketch.kind == kind and (text := _failure(kit, sketch, deviated)) is not None:
            failed[sketch.operators].append((sketch, text))
    return [*(_smallest(kit, kind, several) for several in failed.values()), *_mended(kit, kind, deviated)]


def _failure(kit: Kit, sketch: Sketch, deviated: set[str]) -> str | None:
    """What is wrong with the first run that is; None too where the CPU provider does not run it.

    Operators that deviate as is known are added to `deviated`.
    """
    wanted = made(partial(kit.drawings.wanted, sketch))
    if isinstance(wanted, Exception):
        return None
    session: Any = made(partial(kit.session, sketch.model))
    if isinstance(session, Exception):
        return f"it claims {', '.join(kit.takes(sketch))}, and then: {told(session)}"
    for k, (feed, right) in enumerate(zip(sketch.feeds, wanted, strict=True)):
        with np.errstate(all="ignore"):  # of what overflows, NumPy in a provider warns; ONNX does not
            got = ran(session, feed)
        text = told(got) if isinstance(got, Exception) else _difference(kit, sketch, feed, got, right, deviated)
        if text is not None:
            return text if len(sketch.feeds) == 1 else f"run {k + 1}: {text}"
    return None


def _difference(
    kit: Kit, sketch: Sketch, feed: Mapping[str, Any], got: list[Any], right: list[Any], deviated: set[str]
) -> str | None:
    """What differs in elements at which the provider is not known to deviate."""
    text, operator = kit.differs(got, right), sketch.operators[0]
    known = kit.known.get(sketch.kind, {}).get(operator) if len(sketch.rows) == 1 else None
    if text is None or known is None:
        return text
    other = kit.differs(known.without(sketch, feed, got, right), right)
    if other != text:
        deviated.add(operator)
    return other


def _mended(kit: Kit, kind: str, deviated: Collection[str]) -> Iterator[Finding]:
    """Known deviations that no sketch shows. Of a kit that looks at one sketch, or at other operators, nobody knows."""
    if kit.drawings.case:
        return
    for operator, known in kit.known.get(kind, {}).items():
        if operator not in deviated and (kit.operators is None or operator in kit.operators):
            yield Finding(kind, operator, f"{known.reason}: known, but no drawn model shows it; take it off the list")


def _smallest(kit: Kit, kind: str, failed: list[tuple[Sketch, str]]) -> Finding:
    (sketch, text), *others = sorted(failed, key=lambda pair: pair[0].size)
    if others:
        named = "; ".join(other.name for other, _ in others[:NAMED])
        more = len(others) - NAMED
        text += f" (and so does {named}{f'; {more} more' if more > 0 else ''})"
    return Finding(kind, sketch.name, text, kit.to_see(kind, sketch))
