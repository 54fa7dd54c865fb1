"""Operators of ai.onnx.ml that look up keys, and operators on maps."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.testing.generator.draft import Known, Rejected, element_of, type_of
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.ml_features import ML, WORDS, floats, whole_numbers

_LISTS = {"float32": "float", "int64": "int64", "string": "string"}
"""Element types of which an attribute may be a list, and how its name says so."""
_INTEGER_KEYS = (-4, 12)


def _column(draw: Draw, dtype: str, count: int) -> list[Any]:
    """Return distinct values of a type."""
    if dtype == "string":
        return draw.rng.sample(WORDS, count)
    if dtype.startswith("float"):
        numbers = draw.rng.sample([n / 4 for n in range(-12, 13)], count)
        return [float("nan"), *numbers[1:]] if count and draw.chance(0.15) else numbers
    return draw.rng.sample(range(*_INTEGER_KEYS), count)


def _tensor(values: list[Any], dtype: str) -> Array:
    return np.array(values, to_numpy(dtype))


def _look_up(draw: Draw, dtype: str, keys: list[Any]) -> str:
    """Return an operand of which about half of the elements are keys."""
    if draw.chance(0.3):
        return draw.value(0, high=4, open_shape=True).name
    shape = draw.shape(0, 3)
    array = np.empty(shape, to_numpy(dtype))
    others = _column(draw, dtype, 4)
    for at in np.ndindex(*shape):
        array[at] = draw.choice(keys if keys and draw.chance(0.6) else others)
    return draw.array(array)


@recipe("LabelEncoder", domain=ML)
def label_encoder(draw: Draw) -> NodeProposal:
    """Draw keys, values and an operand. A key may occur twice."""
    source, target = draw.kind(0), draw.output_kind(0)
    if draw.version < 2:
        return _number_words(draw, source, target)
    count = draw.integer(1, 5)
    keys, values, [default] = (_column(draw, dtype, n) for dtype, n in ((source, count), (target, count), (target, 1)))
    if draw.chance(0.1):  # of equal keys the first counts
        keys, values = [*keys, keys[0]], [*values, default]
    attributes: dict[str, Any] = {}
    for name, dtype, column in (("keys", source, keys), ("values", target, values)):
        listed = dtype in _LISTS and (draw.version < 4 or draw.chance(0.5))
        attributes[f"{name}_{_LISTS[dtype]}s" if listed else f"{name}_tensor"] = column if listed else _tensor(column, dtype)
    if draw.chance(0.7):
        tensor = "values_tensor" in attributes
        attributes["default_tensor" if tensor else f"default_{_LISTS[target]}"] = (
            _tensor([default], target) if tensor else default
        )
    return call([_look_up(draw, source, keys)], **attributes)


def _number_words(draw: Draw, source: str, target: str) -> NodeProposal:
    """Draw LabelEncoder-1, which numbers strings from 0."""
    if source == target:
        raise Rejected(f"LabelEncoder-1 encodes strings as integers or back, not {source} as {target}")
    words = draw.rng.sample(WORDS, draw.integer(1, 5))
    keys = words if source == "string" else list(range(len(words)))
    return call(
        [_look_up(draw, source, keys)],
        classes_strings=words,
        default_int64=draw.maybe(draw.integer(-9, 9)),
        default_string=draw.maybe("other"),
    )


@recipe("CategoryMapper", domain=ML)
def category_mapper(draw: Draw) -> NodeProposal:
    """Draw a table of strings and integers, and an operand of either type."""
    source, target = draw.kind(0), draw.output_kind(0)
    if source == target:
        raise Rejected(f"CategoryMapper maps strings to integers or back, not {source} to {target}")
    words = draw.rng.sample(WORDS, draw.integer(1, 5))
    numbers = whole_numbers(draw, len(words))
    return call(
        [_look_up(draw, source, words if source == "string" else numbers)],
        cats_strings=words,
        cats_int64s=numbers,
        default_int64=draw.maybe(draw.integer(-9, 9)),
        default_string=draw.maybe("other"),
    )


# --- Maps
def _feed(draw: Draw, contents: Mapping[Any, Any], kind: str) -> Known:
    if draw.draft.outer is not None:
        raise Rejected(f"a body feeds no {kind}")
    return draw.draft.feed(dict(contents), type_of(kind))


def _value_of(draw: Draw, dtype: str) -> Any:
    if dtype == "string":
        return draw.choice(WORDS)
    return draw.integer(-9, 9) if dtype == "int64" else floats(draw, 1)[0]


def _map_kind(draw: Draw, usual: str, kinds: list[str]) -> str:
    """Return the kind of the map. The target varies it, or the type of the result, which is that of the map's values."""
    own, result = draw.kind(0), draw.output_kind(0)
    if own != usual or own.endswith(f",{result})"):
        return own
    return draw.choice([kind for kind in kinds if kind.endswith(f",{result})")])


@recipe("DictVectorizer", domain=ML)
def dict_vectorizer(draw: Draw) -> NodeProposal:
    """Draw a map and a vocabulary that share some keys."""
    kind = _map_kind(draw, min(draw.schema.types["T1"]), sorted(draw.schema.types["T1"]))
    key, value = element_of(kind).split(",")
    words: list[Any] = _column(draw, key, draw.integer(1, 5))
    keys = {*draw.rng.sample(words, draw.integer(1, len(words))), *_column(draw, key, 2)}
    contents = {one: _value_of(draw, value) for one in sorted(keys)}
    name = "string_vocabulary" if key == "string" else "int64_vocabulary"
    return call([_feed(draw, contents, kind).name], **{name: words})


@recipe("CastMap", domain=ML)
def cast_map(draw: Draw) -> NodeProposal:
    """Draw a map. Keys of a sparse one are positions; texts that are cast to numbers spell numbers."""
    kind, result = draw.kind(0), draw.output_kind(0)
    sparse, width = draw.chance(0.5), draw.integer(1, 8)
    keys = draw.rng.sample(range(0 if sparse else -4, 12), draw.integer(1, 5))
    spelled = ("1", "-7", "0") if result == "int64" else ("1.5", "7", "-0.25", "1e3")
    texts = spelled if result != "string" else WORDS
    contents = {key: draw.choice(texts) if kind.endswith("string)") else floats(draw, 1, -9, 9)[0] for key in keys}
    return call(
        [_feed(draw, contents, kind).name],
        cast_to={"float32": draw.maybe("TO_FLOAT"), "int64": "TO_INT64", "string": "TO_STRING"}[result],
        map_form="SPARSE" if sparse else draw.maybe("DENSE"),
        max_map=width if sparse else draw.maybe(width),
    )


@recipe("ZipMap", domain=ML)
def zip_map(draw: Draw) -> NodeProposal:
    """Draw rows, and one label for each column."""
    x = draw.value(0, low=1, high=2, least=1)
    count = x.sizes[-1]
    if count > len(WORDS):
        count = draw.integer(1, 5)
        x = draw.draft.lookup(draw.tensor(0, (draw.integer(1, 4), count)))
    if draw.output_kind(0) == "seq(map(string,float32))":
        return call([x.name], classlabels_strings=draw.rng.sample(WORDS, count))
    return call([x.name], classlabels_int64s=whole_numbers(draw, count))
