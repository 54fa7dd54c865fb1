"""Runs a case through the public session, in all the ways a model may bring it."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx

from ort_lite import GraphOptimizationLevel, InferenceSession, SessionOptions
from ort_lite.dtypes import from_numpy
from tests.conformance.versions.cases import Case, Input, Maybe, Right
from tests.conformance.versions.models import FIXED, OPEN, UNNAMED, converted, model, names
from tests.conformance.versions.oracles import expected, is_onnxruntime
from tests.conformance.versions.registry import EXCEPTIONS, matching
from tests.conformance.versions.schemas import Key, OpSchema, follows, formal, main_types, main_variable, schemas
from tests.cpu.check import assert_close

ALL, NONE = GraphOptimizationLevel.ORT_ENABLE_ALL, GraphOptimizationLevel.ORT_DISABLE_ALL
HALVES = {"float16": 2e-3, "bfloat16": 1.6e-2}
"""At least this much for a result of such a type: two units in its last place."""
DOUBLE = 1e-4
"""Where an oracle computes in float64, results of float64 must be this much closer than those of float32."""


def keys(first: str, last: str) -> list[Key]:
    """The versions of all operators whose names begin with a letter from `first` to `last`."""
    return [key for key in schemas() if first <= key[1][0] <= last]


def label(key: Key) -> str:
    """How a test is named after a version."""
    domain, op_type, version = key
    return f"{domain}{'.' if domain else ''}{op_type}-{version}"


def check_version(key: Key) -> None:
    """Checks all cases of a version; there must be one, or a reason why there is none."""
    steps = plan(key)
    assert bool(steps) != (key in EXCEPTIONS), f"{label(key)}: {'no' if not steps else 'an exception, and a'} case"
    for one, dtype in steps:
        check(key, one, dtype)


def plan(key: Key) -> list[tuple[Case, str | None]]:
    """The cases of a version and the element types they run in; None: the case's own."""
    schema, steps, rotated = schemas()[key], [], False
    allowed = main_types(schema)
    for one in matching(key):
        own = own_type(one, schema)
        if own is not None and allowed and own not in allowed:
            continue
        wanted: Sequence[str] = (() if rotated else allowed) if one.types is None else one.types
        rotated = rotated or one.types is None
        if own is None:
            wanted = ()  # no input has the main type
        steps += [(one, None), *((one, dtype) for dtype in wanted if dtype != own and dtype in allowed)]
    return steps


def own_type(case: Case, schema: OpSchema) -> str | None:
    """The element type of the inputs of the main type variable; None: there are none."""
    return next((kind for k, value in enumerate(case.inputs) if follows(schema, k) and (kind := _element(value))), None)


def produced_types(key: Key, case: Case) -> set[str]:
    """The element types of the outputs that have the main type, of an operator whose inputs do not."""
    schema = schemas()[key]
    named = [formal(schema.outputs, k) for k, there in enumerate(case.outputs) if there]
    main = main_variable(schema)
    wanted = zip(named, expected(case, schema, None), strict=True)
    return {kind for one, value in wanted if one is not None and one.type_str == main and (kind := _element(value))}


def check(key: Key, case: Case, dtype: str | None) -> None:
    """Compares the outputs of the case in `dtype` with those expected: element types, shapes, values."""
    schema = schemas()[key]
    inputs, wanted = converted(case, schema, dtype), expected(case, schema, dtype)
    variants = _variants(case, dtype, schema.since_version)
    double = (dtype or own_type(case, schema)) == "float64" and not is_onnxruntime(case)
    closer = DOUBLE if double else 1.0
    shown = None if any(value is None for value in wanted) else [one.like if isinstance(one, Right) else one for one in wanted]
    certain = all(map(_tells_its_type, wanted))
    for number, (level, dims, constants) in enumerate(variants):
        proto = model(case, schema, inputs, dims, constants, shown)
        if not number:
            onnx.checker.check_model(proto)
        for info in () if certain else proto.graph.output:
            info.ClearField("type")
        feeds = {name: _fed(inputs[k]) for k, name in enumerate(names(case)) if name and k not in constants}
        session = InferenceSession(proto.SerializeToString(), _options(level), providers=["CPUExecutionProvider"])
        got = session.run(None, feeds)
        what = f"{key[1]}-{key[2]} {case} as {dtype or 'is'}, {level.name}, {dims}"
        for index, (value, want) in enumerate(zip(got, wanted, strict=True)):
            _compare(value, want, case, closer, f"{what}, output {index}")


def _tells_its_type(value: Any) -> bool:
    """Whether the type of an output is that of the value: a map's numbers are Python's, and a Right has the case's own type."""
    if isinstance(value, Right):
        return isinstance(value.like, Maybe)
    return not (isinstance(value, list) and any(isinstance(one, dict) for one in value))


def _variants(case: Case, dtype: str | None, version: int) -> list[tuple[GraphOptimizationLevel, str, Sequence[int]]]:
    """In its own type a case runs with and without optimisations, in further types with them.

    Cases take turns at what else there is: dimensions that are open, without a name or fixed, initialisers or inputs. In further
    types there is one way to bring the constants: each kernel costs half a second in each type.
    """
    if dtype is not None:
        return [(ALL, OPEN, case.constants)]
    turn = (len(case.inputs) + sum(map(len, case.attributes)) + version) % 2
    return [(ALL, FIXED, case.constants), (NONE, UNNAMED, ())] if turn else [(ALL, OPEN, ()), (NONE, FIXED, case.constants)]


@cache
def _options(level: GraphOptimizationLevel) -> SessionOptions:
    options = SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    return options


def _compare(got: Any, want: Any, case: Case, closer: float, what: str) -> None:
    if isinstance(want, Right):
        assert want.test(got), f"{what}: {got}"
    elif want is None:
        assert got is None, f"{what}: {got}, expected nothing"
    elif isinstance(want, (list, dict)):
        assert type(got) is type(want) and len(got) == len(want), f"{what}: {got}, expected {want}"
        keys = list(want) if isinstance(want, dict) else range(len(want))
        assert not isinstance(want, dict) or list(got) == keys, f"{what}: keys {list(got)}, expected {keys}"
        for key in keys:
            _compare(got[key], want[key], case, closer, f"{what}[{key}]")
    else:
        want = np.asarray(want)
        least = HALVES.get(str(want.dtype), 0.0)
        closer = closer if want.dtype == np.float64 else 1.0
        assert_close(got, want, max(case.rtol * closer, least), max(case.atol * closer, least / 8), what)


def _fed(value: Input) -> Any:
    return value.value if isinstance(value, Maybe) else value


def _element(value: Input | Right) -> str | None:
    if isinstance(value, (Maybe, Right)):
        return _element(value.like)
    if isinstance(value, list):
        return _element(value[0]) if value else None
    return from_numpy(value.dtype) if isinstance(value, np.ndarray) else None
