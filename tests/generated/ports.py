"""Operators by their definition, where onnx.reference lacks them or has another version of them.

A port takes the inputs and the attributes that the node has, and returns one result or a tuple. Floats come in float64.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array

Function = Callable[..., Any]
NEWEST = 1 << 30


class Port(NamedTuple):
    """The definition of the versions `since` to `until` of an operator."""

    function: Function
    since: int
    until: int


_PORTS: dict[tuple[str, str], list[Port]] = {}


def port(*operators: str, domain: str = "", since: int = 1, until: int = NEWEST) -> Callable[[Function], Function]:
    """Register a function as the definition of operators."""

    def register(function: Function) -> Function:
        for op_type in operators:
            _PORTS.setdefault((domain, op_type), []).append(Port(function, since, until))
        return function

    return register


def find_port(domain: str, op_type: str, version: int) -> Function | None:
    """Look the definition of a version of an operator up; None: the reference has it."""
    ports = _PORTS.get((domain, op_type), ())
    return next((one.function for one in ports if one.since <= version <= one.until), None)


def _rows(x: Array, axis: int) -> tuple[Array, tuple[int, ...]]:
    """Before version 13, the axes from `axis` on are one."""
    if not -x.ndim <= axis < max(x.ndim, 1):
        raise ValueError(f"axis {axis} of rank {x.ndim}")
    split = axis % x.ndim if x.ndim else 0
    return x.reshape(int(np.prod(x.shape[:split])), int(np.prod(x.shape[split:]))), x.shape


@port("Softmax", until=12)
def softmax_of_rows(x: Array, axis: int = 1) -> Array:
    rows, shape = _rows(x, axis)
    powers = np.exp(rows - rows.max(1, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(1, keepdims=True)).reshape(shape)


@port("LogSoftmax", until=12)
def log_softmax_of_rows(x: Array, axis: int = 1) -> Array:
    rows, shape = _rows(x, axis)
    shifted = rows - rows.max(1, keepdims=True, initial=-np.inf)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True))).reshape(shape)


@port("Hardmax", until=12)
def hardmax_of_rows(x: Array, axis: int = 1) -> Array:
    rows, shape = _rows(x, axis)
    found = np.zeros_like(rows)
    if rows.size:
        found[np.arange(len(rows)), rows.argmax(1)] = 1
    return found.reshape(shape)
