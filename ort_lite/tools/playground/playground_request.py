"""Requests of the playground's page. They are JSON that anybody may have written: each is valid, or rejected with one sentence."""

import json
from argparse import Namespace
from collections.abc import Collection, Mapping
from typing import Any

from ort_lite.errors import InvalidArgument, hint
from ort_lite.record import Record
from ort_lite.tools.cli.arguments import LEVELS

LONGEST = 3600.0
"""Seconds that a run may be given."""
_TEXT = 10_000
"""Characters of one value."""
_MANY = 256
"""Entries of one list."""


class PlaygroundRequest(Record):
    """A request: a model by name, its providers in order, and the feeds of a run. `run` is False to view the partitions only."""

    model: str
    providers: tuple[str, ...]
    level: str = "all"
    threads: int = 0
    config: tuple[str, ...] = ()
    run: bool = False
    shapes: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    seed: int = 0
    timeout: float = 60.0

    def arguments(self) -> Namespace:
        """Return the request as arguments of the command line."""
        return Namespace(
            providers=",".join(self.providers),
            level=self.level,
            threads=self.threads,
            config=self.config,
            feeds=None,
            input=(),
            shape=self.shapes,
            value=self.values,
            dim=self.dims,
            seed=self.seed,
        )


def parse_request(body: bytes, models: Collection[str], providers: Collection[str]) -> PlaygroundRequest:
    """Parse a request. Raises InvalidArgument that names the field, what it holds and what was expected."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:  # the second of lists in lists in lists
        raise InvalidArgument(f"the request is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise InvalidArgument("the request is no JSON object")
    unknown = [name for name in given if name not in PlaygroundRequest.__match_args__]
    if unknown:
        raise InvalidArgument(
            f"{unknown[0][:80]!r}: no field of a request{hint(unknown[0][:80], PlaygroundRequest.__match_args__)}"
        )
    return PlaygroundRequest(
        model=_one_of(given, "model", models),
        providers=tuple(_check_choice(name, "providers", providers) for name in _texts(given, "providers")),
        level=_one_of({"level": "all"} | given, "level", LEVELS),
        threads=int(_number(given, "threads", 0, 1024)),
        config=_texts(given, "config"),
        run=given.get("run") is True,
        shapes=_texts(given, "shapes"),
        values=_texts(given, "values"),
        dims=_texts(given, "dims"),
        seed=int(_number(given, "seed", 0, 2**32 - 1)),
        timeout=_number({"timeout": 60.0} | given, "timeout", 0.001, LONGEST),
    )


def _one_of(given: Mapping[str, Any], field: str, known: Collection[str]) -> str:
    return _check_choice(given.get(field), field, known)


def _check_choice(value: Any, field: str, known: Collection[str]) -> str:
    if not isinstance(value, str) or value not in known:
        shown = repr(value)[:80]
        raise InvalidArgument(f"{field}: {shown} is none of those here{hint(str(value)[:80], known)}")
    return value


def _texts(given: Mapping[str, Any], field: str) -> tuple[str, ...]:
    found = given.get(field, [])
    if not isinstance(found, list) or len(found) > _MANY or not all(isinstance(v, str) and len(v) <= _TEXT for v in found):
        raise InvalidArgument(f"{field}: expected a list of at most {_MANY} strings of at most {_TEXT} characters")
    return tuple(found)


def _number(given: Mapping[str, Any], field: str, least: float, most: float) -> float:
    found = given.get(field, least)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not least <= found <= most:
        raise InvalidArgument(f"{field}: {str(found)[:80]}, expected a number from {least:g} to {most:g}")
    return found
