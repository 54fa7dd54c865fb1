"""From arguments to options, sessions and feeds."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import FLOATS, from_ort_name, to_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.options.options import GraphOptimizationLevel, SessionOptions
from ort_lite.session.metadata import NodeArg
from ort_lite.session.session import InferenceSession

_LEVELS = {
    "disable": GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def options(arguments: Namespace) -> SessionOptions:
    made = SessionOptions()
    made.intra_op_num_threads = arguments.threads
    made.graph_optimization_level = _LEVELS[arguments.level]
    for key, value in _pairs(arguments.config, "--config"):
        made.add_session_config_entry(key, value)
    return made


def providers(arguments: Namespace) -> list[str] | None:
    return [name.strip() for name in arguments.providers.split(",")] if arguments.providers else None


def session(arguments: Namespace, model: str | bytes) -> InferenceSession:
    return InferenceSession(model, options(arguments), providers=providers(arguments))


def feeds(arguments: Namespace, inputs: Sequence[NodeArg], sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Those of the file, and random ones for inputs that it lacks. `sizes`: of free dimensions for which there is no --dim."""
    given: dict[str, Any] = {}
    if arguments.feeds:
        with np.load(arguments.feeds) as data:
            given = dict(data)
    dims = {**(sizes or {}), **dims_of(arguments)}
    rng = np.random.default_rng(arguments.seed)
    return {arg.name: given[arg.name] if arg.name in given else random(arg, dims, rng) for arg in inputs}


def dims_of(arguments: Namespace) -> dict[str, int]:
    return {name: _size(name, value) for name, value in _pairs(arguments.dim, "--dim")}


def random(arg: NodeArg, dims: dict[str, int], rng: np.random.Generator) -> Any:
    """Floats are normally distributed, integers 0 or 1, so that they are indices of nearly anything."""
    if not arg.type.startswith("tensor("):
        raise InvalidArgument(f"input {arg.name!r} is {arg.type}: only tensors are made up; give it in --feeds")
    shape = [dim if isinstance(dim, int) else dims.get(dim or "", 1) for dim in arg.shape]
    dtype = from_ort_name(arg.type)
    if dtype == "string":
        return np.full(shape, "text", object)
    if dtype in FLOATS:
        return rng.standard_normal(shape).astype(to_numpy(dtype))
    return rng.integers(0, 2, shape).astype(to_numpy(dtype))


def _pairs(texts: Sequence[str], option: str) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidArgument(f"{option} {text}: expected NAME=VALUE")
        pairs.append((name, value))
    return pairs


def _size(name: str, value: str) -> int:
    if not value.isdecimal():
        raise InvalidArgument(f"--dim {name}={value}: expected a number")
    return int(value)
