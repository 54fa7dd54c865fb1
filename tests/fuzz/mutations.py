"""What is done to a draft. Each mutation draws from a generator, changes the draft and says what it did, or returns None."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, helper

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Maybe
from tests.conformance.versions.models import FIXED, OPEN, UNNAMED, convert
from tests.conformance.versions.schemas import OpSchema, schemas
from tests.fuzz.drafts import MOST_ELEMENTS, UNRANKED, Draft
from tests.fuzz.seeds import seeds

Mutation = Callable[[Random, Draft], str | None]

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
HUGE = (INT64_MAX, INT64_MIN, 2**62, -(2**62), 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**40, 65536)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, math.nan, math.inf, -math.inf, 3.4e38, 1e-38, 1e30, -1e30, 2.0**31, 2.0**63)
TYPES = (
    "float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool",
    "string", "complex64", "complex128", "int4", "uint4", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
NONSENSE = ("", "x", "\u00e9\U0001f600", "a" * 300)
LAYOUTS = ("columns", "backwards", "strided", "unaligned")
BETWEEN = ("Relu", "Neg", "Identity", "Transpose", "Add", "Mul", "Abs", "Sigmoid", "Flatten", "Shape", "Tanh")


def number(rng: Random, sizes: Sequence[int]) -> int:
    """One at which things happen: near a dimension, near zero, or beyond all bounds."""
    n = rng.choice(sizes)
    if rng.random() < 0.2:
        return rng.choice(HUGE)
    return rng.choice((-1, 0, 1, 2, n - 1, n, n + 1, -n, -n - 1, 2 * n, -2, 3))


@cache
def words() -> list[str]:
    """All texts among the attributes of all cases, each a mode of some operator, and some that are none."""
    values = [value for own in seeds().values() for seed in own for value in seed.case.attributes.values()]
    texts = {item for value in values for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)}
    return [*NONSENSE, *sorted(texts - set(NONSENSE))]


# --- Arrays
def some_array(rng: Random, draft: Draft, kinds: str = "") -> Any:
    """(place, array) of one whose element type is of one of the kinds; None: there is none."""
    found = [(at, array) for at, array in draft.arrays() if not kinds or array.dtype.kind in kinds]
    return rng.choice(found) if found else None


def steer(rng: Random, draft: Draft) -> str | None:
    """Integers that are axes, indices, lengths, shapes or splits point elsewhere."""
    chosen = some_array(rng, draft, "iu")
    if chosen is None or not chosen[1].size:
        return None
    at, array = chosen
    made, sizes = array.copy(), [*draft.sizes(), array.size]
    info = np.iinfo(array.dtype)
    told = []
    for _ in range(rng.choice((1, 1, 1, 2, made.size))):
        where, value = rng.randrange(made.size), number(rng, sizes)
        value = value if info.min <= value <= info.max else rng.choice((info.min, info.max))
        made.reshape(-1)[where] = value
        told.append(f"[{where}] = {value}")
    draft.put(at, made)
    return f"input {at[0]}{', '.join(told[:4])}"


def special_floats(rng: Random, draft: Draft) -> str | None:
    chosen = some_array(rng, draft, "fV")
    if chosen is None or not chosen[1].size:
        return None
    at, array = chosen
    made = array.copy()
    value = rng.choice(FLOATS)
    with np.errstate(all="ignore"):
        for _ in range(rng.choice((1, 1, 3))):
            made.reshape(-1)[rng.randrange(made.size)] = np.float64(value).astype(np.float32).astype(array.dtype)
    draft.put(at, made)
    return f"input {at[0]} holds {value}"


def other_texts(rng: Random, draft: Draft) -> str | None:
    chosen = some_array(rng, draft, "O")
    if chosen is None or not chosen[1].size:
        return None
    at, array = chosen
    made = array.copy()
    made.reshape(-1)[rng.randrange(made.size)] = word = rng.choice(words())
    draft.put(at, made)
    return f"input {at[0]} holds {word!r:.20}"


def dimension(rng: Random, draft: Draft) -> str | None:
    """One axis gets longer, shorter, 1 or 0."""
    chosen = some_array(rng, draft)
    if chosen is None or not chosen[1].ndim:
        return None
    at, array = chosen
    axis = rng.randrange(array.ndim)
    n = array.shape[axis]
    wanted = rng.choice((0, 1, max(n - 1, 0), n + 1, n + 1, 2 * n, n + 7, 17, 33, rng.choice(draft.sizes())))
    if wanted == n:
        return None
    draft.put(at, resized(array, axis, wanted))
    return f"input {at[0]} has {wanted} for {n} on axis {axis}"


def resized(array: Array, axis: int, wanted: int) -> Array:
    """Elements repeat from the start; of an empty axis nothing can, so they are zeros, or empty texts."""
    if array.shape[axis] == 0:
        shape = (*array.shape[:axis], wanted, *array.shape[axis + 1 :])
        return np.full(shape, "", object) if array.dtype == object else np.zeros(shape, array.dtype)
    made: Array = np.take(array, np.arange(wanted) % array.shape[axis], axis=axis)
    return made


def rank(rng: Random, draft: Draft) -> str | None:
    chosen = some_array(rng, draft)
    if chosen is None:
        return None
    at, array = chosen
    way = rng.choice(("longer", "longer", "shorter", "flat", "scalar", "merged", "much longer"))
    if way == "longer":
        array = np.expand_dims(array, rng.randrange(array.ndim + 1))
    elif way == "much longer":
        array = array.reshape(*array.shape, *(1,) * rng.choice((2, 5, 9)))
    elif way == "shorter" and array.ndim and array.shape[0]:
        array = np.asarray(array[0])
    elif way == "flat":
        array = array.reshape(-1)
    elif way == "scalar" and array.size:
        array = np.asarray(array.reshape(-1)[0], array.dtype).reshape(())
    elif way == "merged" and array.ndim > 1:
        array = array.reshape(-1, *array.shape[2:]) if array.size else array
    else:
        return None
    draft.put(at, array)
    return f"input {at[0]} has shape {array.shape}"


def element_type(rng: Random, draft: Draft) -> str | None:
    chosen = some_array(rng, draft)
    if chosen is None:
        return None
    at, array = chosen
    wanted = rng.choice(TYPES)
    made = convert(array, wanted)
    if not isinstance(made, np.ndarray):
        return None
    draft.put(at, made)
    return f"input {at[0]} is {wanted}"


def shape_of_another(rng: Random, draft: Draft) -> str | None:
    """An operand takes the place of another one, or is a second time there."""
    given = [k for k, value in enumerate(draft.inputs) if value is not None]
    if len(given) < 2:
        return None
    a, b = rng.sample(given, 2)
    if rng.random() < 0.5:
        draft.inputs[a], draft.inputs[b] = draft.inputs[b], draft.inputs[a]
        return f"inputs {a} and {b} exchanged"
    if draft.twins:
        return None
    low, high = sorted((a, b))
    draft.inputs[high] = draft.inputs[low]
    draft.twins[high] = low
    return f"input {high} is input {low}"


# --- Operands
def leave_out(rng: Random, draft: Draft) -> str | None:
    given = [k for k, value in enumerate(draft.inputs) if value is not None and k not in draft.twins.values()]
    if not given:
        return None
    k = rng.choice(given)
    draft.twins.pop(k, None)
    if k == len(draft.inputs) - 1 and rng.random() < 0.5:
        del draft.inputs[k], draft.dims[k]
    else:
        draft.inputs[k] = None
    return f"input {k} left out"


def one_more(rng: Random, draft: Draft) -> str | None:
    """An operand behind the last, or in the place of one that is left out: another one's array, or a number."""
    given = [array for _, array in draft.arrays()]
    free = [k for k, value in enumerate(draft.inputs) if value is None]
    k = rng.choice([*free, len(draft.inputs)])
    sizes = draft.sizes()
    made: Any = rng.choice([*given, np.array([number(rng, sizes)]), np.array(1.0, np.float32), np.array(number(rng, sizes))])
    if k == len(draft.inputs):
        draft.inputs.append(made)
        draft.dims.append(OPEN)
    else:
        draft.inputs[k] = made
    return f"input {k} is new: {made.dtype} {made.shape}"


def constant_or_fed(rng: Random, draft: Draft) -> str | None:
    if not draft.inputs:
        return None
    if rng.random() < 0.2:
        everything = [k for k, value in enumerate(draft.inputs) if isinstance(value, np.ndarray)]
        draft.constants = [] if draft.constants else everything
        return f"constants are {draft.constants}"
    k = rng.randrange(len(draft.inputs))
    if isinstance(draft.inputs[k], Maybe):
        return None
    draft.constants = [c for c in draft.constants if c != k] if k in draft.constants else [*draft.constants, k]
    return f"constants are {draft.constants}"


def outputs(rng: Random, draft: Draft) -> str | None:
    schema = schemas().get(draft.key)
    most = len(schema.outputs) if schema is not None else 3
    if rng.random() < 0.4 and len(draft.outputs) > 1:
        k = rng.randrange(len(draft.outputs))
        draft.outputs[k] = not draft.outputs[k]
    elif len(draft.outputs) < most or rng.random() < 0.2:
        draft.outputs.append(True)
    elif len(draft.outputs) > 1:
        draft.outputs.pop()
    else:
        return None
    return f"outputs are {[int(named) for named in draft.outputs]}" if any(draft.outputs) else None


def declared_dims(rng: Random, draft: Draft) -> str | None:
    fed = draft.fed()
    if not fed:
        return None
    k = rng.choice(fed)
    value = draft.inputs[k]
    if rng.random() < 0.15 and isinstance(value, np.ndarray) and value.ndim:
        shape = list(value.shape)
        shape[rng.randrange(value.ndim)] = rng.choice((0, 1, 2, 5, 1000))
        draft.declared[k], draft.dims[k] = tuple(shape), rng.choice((FIXED, OPEN))
        return f"input {k} declares {shape}"
    draft.dims[k] = rng.choice((OPEN, FIXED, UNNAMED, UNRANKED))
    return f"input {k} declares {draft.dims[k]}"


def other_shapes_later(rng: Random, draft: Draft) -> str | None:
    """A second run of the session brings an input in another size."""
    later = draft.copied()
    told = dimension(rng, later)
    if told is None or later.size() > MOST_ELEMENTS:
        return None
    draft.later = later.feeds()
    return f"then {told}"


def layout(rng: Random, draft: Draft) -> str | None:
    fed = draft.fed()
    if not fed:
        return None
    k = rng.choice(fed)
    draft.layouts[k] = rng.choice(LAYOUTS)
    return f"feed {k} is {draft.layouts[k]}"


def opset(rng: Random, draft: Draft) -> str | None:
    draft.opset = rng.choice((1, 6, 7, 9, 10, 11, 12, 13, 18, 21, 26, draft.opset - 1, draft.opset + 1, 0, 1000))
    draft.comparable = False  # another version may mean something else
    return f"opset {draft.opset}"


# --- Attributes
_CHANGEABLE = (int, float, str, bytes, list, tuple, np.ndarray)


def change_attribute(rng: Random, draft: Draft) -> str | None:
    names = [name for name, value in draft.attributes.items() if isinstance(value, _CHANGEABLE)]
    if not names:
        return None
    name = rng.choice(names)
    made = changed(rng, draft, draft.attributes[name])
    if made is None:
        return None
    draft.attributes[name] = made
    return f"{name} = {made!r:.80}"


def changed(rng: Random, draft: Draft, value: Any) -> Any:
    """Another value of the same kind; None where nothing comes to mind."""
    if isinstance(value, bool | int):
        return rng.choice((int(value) + 1, int(value) - 1, -int(value), number(rng, draft.sizes()), number(rng, draft.sizes())))
    if isinstance(value, float):
        return rng.choice((*FLOATS, -value, 2 * value))
    if isinstance(value, str | bytes):
        return rng.choice(words())
    if isinstance(value, np.ndarray):
        longer = np.resize(value, value.size + 1)
        return rng.choice((value.reshape(-1)[:0], value.reshape(1, *value.shape), longer, convert(value, "int64")))
    return changed_list(rng, draft, list(value))


def changed_list(rng: Random, draft: Draft, items: list[Any]) -> list[Any] | None:
    """An element changed, or two exchanged; or shorter, longer, empty, all one value."""
    if not all(isinstance(item, int | float | str) for item in items):
        return None
    way = rng.random()
    if not items or way < 0.1:
        return [*items, changed(rng, draft, items[0]) if items else 1]
    if way < 0.2:
        return items[:-1]
    if way < 0.25:
        return rng.choice(([], items * 2, [items[0]] * len(items)))
    if way < 0.35:
        return [changed(rng, draft, items[0])] * len(items)
    if way < 0.5:
        a, b = rng.randrange(len(items)), rng.randrange(len(items))
        items[a] = items[b]
        return items
    where = rng.randrange(len(items))
    items[where] = changed(rng, draft, items[where])
    return items


def drop_attribute(rng: Random, draft: Draft) -> str | None:
    if not draft.attributes:
        return None
    name = rng.choice(list(draft.attributes))
    del draft.attributes[name]
    return f"{name} dropped"


def add_attribute(rng: Random, draft: Draft) -> str | None:
    """One that the schema knows, with a value of its type."""
    schema = schemas().get(draft.key)
    absent = [] if schema is None else [one for name, one in sorted(schema.attributes.items()) if name not in draft.attributes]
    absent = [one for one in absent if _kind(one) in _MAKERS]
    if not absent:
        return None
    one = rng.choice(absent)
    value = _MAKERS[_kind(one)](rng, draft)
    if _kind(one) == "STRING" and rng.random() < 0.3:
        value = one.default_value.s.decode()
    draft.attributes[one.name] = value
    return f"{one.name} = {value!r:.80}"


def _kind(attribute: OpSchema.Attribute) -> str:
    return str(attribute.type).rpartition(".")[2]


def _ints(rng: Random, draft: Draft) -> list[int]:
    ranks = [array.ndim for _, array in draft.arrays()] or [1]
    length = rng.choice((0, 1, 2, rng.choice(ranks), 2 * max(ranks), max(max(ranks) - 2, 0), 2 * max(max(ranks) - 2, 0)))
    sizes = draft.sizes()
    if rng.random() < 0.6:
        return [rng.choice((0, 1, 1, 2, 3)) for _ in range(length)]
    return [number(rng, sizes) for _ in range(length)]


_MAKERS: dict[str, Callable[[Random, Draft], Any]] = {
    "INT": lambda rng, draft: rng.choice((0, 1, number(rng, draft.sizes()))),
    "INTS": _ints,
    "FLOAT": lambda rng, _: rng.choice(FLOATS),
    "FLOATS": lambda rng, _: [rng.choice(FLOATS) for _ in range(rng.choice((0, 1, 2, 3, 8)))],
    "STRING": lambda rng, _: rng.choice(words()),
    "STRINGS": lambda rng, _: [rng.choice(words()) for _ in range(rng.choice((0, 1, 2, 3)))],
}


def change_body(rng: Random, draft: Draft) -> str | None:
    """A graph among the attributes, or among those of its nodes, has other results, inputs or operators."""
    bodies = sorted(name for name, value in draft.attributes.items() if isinstance(value, GraphProto))
    if not bodies:
        return None
    name = rng.choice(bodies)
    whole = GraphProto()
    whole.CopyFrom(draft.attributes[name])
    draft.attributes[name] = whole
    inner = [one.g for node in whole.node for one in node.attribute if one.type == AttributeProto.GRAPH]
    told = change_graph(rng, rng.choice([whole, whole, *inner]))
    return None if told is None else f"{name}: {told}"


def change_graph(rng: Random, graph: GraphProto) -> str | None:
    values = [*(value.name for value in graph.input), *(name for node in graph.node for name in node.output)]
    way = rng.randrange(6)
    if way == 0 and graph.output:
        graph.output.pop(rng.randrange(len(graph.output)))
        return "one result less"
    if way == 1 and graph.output:
        graph.output.add().CopyFrom(rng.choice(graph.output))
        return "a result twice"
    if way == 2 and graph.output and values:
        rng.choice(graph.output).name = name = rng.choice(values)
        return f"{name} is a result"
    if way == 3 and graph.input:
        value = rng.choice(graph.input)
        value.type.CopyFrom(
            helper.make_tensor_type_proto(rng.choice((1, 6, 7, 9, 11)), rng.choice((None, [], [2], [2, 3], ["n"])))
        )
        return f"{value.name} declares {value.type}"
    if way == 4 and graph.input:
        graph.input.pop(rng.randrange(len(graph.input)))
        return "one input less"
    if way == 5 and graph.node:
        node = rng.choice(graph.node)
        node.op_type = rng.choice(("Identity", "Neg", "Shape", "Cast", "Not", "Flatten", "ReduceSum", "Size", "Unsqueeze"))
        return f"{node.output[0]} is computed by {node.op_type}"
    return None


def wrong_kind(rng: Random, draft: Draft) -> str | None:
    """An attribute of another kind, or one that nobody knows."""
    name = rng.choice([*draft.attributes, "unknown"])
    if isinstance(draft.attributes.get(name), int | float | str | list | None):
        draft.attributes[name] = rng.choice((1, 1.5, "text", [1, 2], [1.5], ["text"], np.ones(3, np.float32)))
        return f"{name} = {draft.attributes[name]!r:.40}"
    return None


MUTATIONS: dict[Mutation, int] = {
    steer: 24,
    dimension: 18,
    rank: 9,
    change_attribute: 20,
    add_attribute: 9,
    drop_attribute: 3,
    wrong_kind: 2,
    change_body: 20,
    special_floats: 4,
    other_texts: 2,
    element_type: 3,
    shape_of_another: 4,
    leave_out: 4,
    one_more: 4,
    constant_or_fed: 9,
    outputs: 4,
    declared_dims: 5,
    layout: 3,
    opset: 2,
    other_shapes_later: 6,
}
"""How often each is drawn, in relation to the others."""
