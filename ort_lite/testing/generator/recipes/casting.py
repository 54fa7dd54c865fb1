"""Cast, CastLike and BitCast."""

from collections.abc import Sequence
from random import Random

from ort_lite.dtypes import FLOATS, Array, to_onnx
from ort_lite.testing.generator.arrays import Contents, among, between, is_float, is_integer, limits, numbers, texts
from ort_lite.testing.generator.arrays import special as special_numbers
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe


@recipe("Cast")
def cast(draw: Draw) -> NodeProposal:
    """Draw an operand whose elements the target type can hold."""
    target = draw.output_kind(0)
    return call([_castable(draw, target)], to=to_onnx(target), saturate=_saturate(draw), round_mode=_round_mode(draw))


@recipe("CastLike")
def cast_like(draw: Draw) -> NodeProposal:
    """Draw an operand, and another one that supplies the target type."""
    source = _castable(draw, draw.kind(1))
    like = draw.value(1, open_shape=True)
    return call([source, like.name], saturate=_saturate(draw), round_mode=_round_mode(draw))


def _saturate(draw: Draw) -> int | None:
    return draw.maybe(draw.integer(0, 1)) if draw.has_attribute("saturate") else None


def _round_mode(draw: Draw) -> str | None:
    return draw.maybe(draw.choice(["up", "down", "nearest"])) if draw.has_attribute("round_mode") else None


def _castable(draw: Draw, target: str) -> str:
    """Return an operand whose elements the target type can hold at least roughly, because ONNX leaves others undefined."""
    source = draw.kind(0)
    contents = cast_contents(source, target, draw.draft.special)
    if contents is None:
        return draw.value(0, open_shape=True).name
    return draw.tensor(0, draw.shape(), contents)


def cast_contents(source: str, target: str, special: bool) -> Contents | None:
    """Return contents of the source type for which a Cast to the target type is defined, or None if all are."""
    if source == "string":
        return None if target == "string" else numerals(target, special)
    if target == "string":
        if is_integer(source) or source == "bool":
            return between(-99, 99)
        return special_numbers if special else numbers
    if target == "float8_e8m0fnu" or source == "float8_e8m0fnu":
        return among(0.25, 0.5, 1, 2) if "float8_e8m0fnu" in (source, target) and is_float(source) else between(1, 3)
    if is_integer(target) and is_float(source):
        least, most = limits(target)
        return between(max(least, -100), min(most, 100))
    if target.startswith(("float4", "float6")) and is_float(source):
        return between(-4, 4)  # no bits for NaN
    return None


def numerals(target: str, special: bool) -> Contents:
    """Return contents that are texts of numbers: "-7" and, for floats, "2.5", "1e2" or, if `special`, "NaN"."""
    least = limits(target)[0] if is_integer(target) else -8
    most = limits(target)[1] if is_integer(target) else 8
    spelled = [str(n) for n in range(max(least, -8), min(most, 8) + 1)]
    if target in FLOATS:
        spelled += ["2.5", "-0.75", "1e2", "-5E-1", "+3", *(("NaN", "INF", "-INF") if special else ())]
    if target == "bool":
        spelled = ["0", "1"]

    def contents(rng: Random, shape: Sequence[int], dtype: str) -> Array:
        return texts(shape, lambda: rng.choice(spelled))

    return contents


@recipe("BitCast")
def bit_cast(draw: Draw) -> NodeProposal:
    """Draw an operand of a type with as many bits as the target. Only 0 and 1 become bool."""
    target = draw.output_kind(0)
    if target == "bool" and draw.kind(0) != "bool":  # of another byte than 0 and 1, no bool comes
        return call([draw.tensor(0, draw.shape(), among(0, 1))], to=to_onnx(target))
    return call([draw.value(0, open_shape=True).name], to=to_onnx(target))
