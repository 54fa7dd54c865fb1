"""The ports by operator.

A port takes the inputs and the attributes that the node has, and returns one result or a tuple. Floats come in float64, but to
operators of other domains than ONNX's own, which have no schema there, as they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from ort_lite.dtypes import Array

Move = Callable[[Array], Array]
Function = Callable[..., Any]
NEWEST = 1 << 30


class Port(NamedTuple):
    """The definition of an operator for the opsets `since` to `until`."""

    function: Function
    since: int
    until: int


_PORTS: dict[tuple[str, str], list[Port]] = {}
_move: ContextVar[Move | None] = ContextVar("move", default=None)


@contextmanager
def moved_steps(move: Move) -> Iterator[None]:
    """Within this context, `move` changes what ports pass through `rounded`."""
    token = _move.set(move)
    try:
        yield
    finally:
        _move.reset(token)


def rounded(x: Array) -> Array:
    """Return a result of a step inside of an operator, which implementations round: it moves where conditioning is measured."""
    move = _move.get()
    return x if move is None else move(x)


def port(*operators: str, domain: str = "", since: int = 1, until: int = NEWEST) -> Callable[[Function], Function]:
    """Register a function as the definition of operators."""

    def register(function: Function) -> Function:
        for op_type in operators:
            _PORTS.setdefault((domain, op_type), []).append(Port(function, since, until))
        return function

    return register


def find_port(domain: str, op_type: str, opset: int) -> Function | None:
    """Look the definition of an operator up; None: the reference has it."""
    ports = _PORTS.get((domain, op_type), ())
    return next((one.function for one in ports if one.since <= opset <= one.until), None)
