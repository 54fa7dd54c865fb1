"""Resize by scales and sizes, against onnx.reference."""

from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from tests.conformance.drawing import HOWS, SEEDS, How, Shape, drawn, numbers
from tests.conformance.random_models import check
from tests.cpu.check import reference

COORDINATES = ("half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric", "pytorch_half_pixel")
SIDES = st.integers(1, 6)


@st.composite
def resizes(draw: st.DrawFn) -> tuple[Shape, list[float] | list[int], dict[str, Any]]:
    """A shape; scales (floats) or sizes (ints) of the axes that are named; attributes."""
    rank = draw(st.sampled_from([3, 4, 4, 5]))
    shape = tuple(draw(SIDES) for _ in range(rank))
    mode = draw(st.sampled_from(["nearest", "linear", "cubic"] if rank == 4 else ["nearest", "linear"]))
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": draw(st.sampled_from(COORDINATES))}
    if mode == "nearest":
        modes = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        attributes["nearest_mode"] = draw(st.sampled_from(modes))
    if mode == "cubic":
        attributes.update(exclude_outside=draw(st.integers(0, 1)), cubic_coeff_a=draw(st.sampled_from([-0.75, -0.5])))
    if draw(st.booleans()):
        scales = st.sampled_from([0.5, 1.0, 1.5, 2.0, 2.5, 0.75])
        return shape, [1.0, 1.0, *(draw(scales) for _ in range(rank - 2))], attributes
    attributes["axes"] = list(range(2, rank)) if draw(st.booleans()) else list(range(2 - rank, 0))
    return shape, [draw(st.integers(1, 9)) for _ in range(rank - 2)], attributes


@drawn(40, case=resizes(), seed=SEEDS, how=HOWS)
def test_resize(case: tuple[Shape, list[float] | list[int], dict[str, Any]], seed: int, how: How) -> None:
    shape, to, attributes = case
    x = numbers(shape, "float32", seed)
    inputs = [x, None, np.array(to, np.float32)] if "axes" not in attributes else [x, None, None, np.array(to, np.int64)]
    known = attributes  # onnx.reference counts axes from the front alone
    if "axes" in attributes:
        known = {**attributes, "axes": [axis % len(shape) for axis in attributes["axes"]]}
    if attributes["coordinate_transformation_mode"] == "align_corners" and inputs[2] is not None:
        # The reference aligns corners with the length before it is rounded (decision 0076); sizes are rounded.
        sizes = np.floor(np.array(shape, np.float32) * inputs[2]).astype(np.int64)
        assume(sizes.all())
        [wanted] = reference("Resize", [x, None, None, sizes], known, 19, "", 1)
    else:
        [wanted] = reference("Resize", inputs, known, 19, "", 1)
    if attributes["coordinate_transformation_mode"] == "pytorch_half_pixel":
        assume(1 not in wanted.shape[2:])  # of one element, the reference has not the coordinate that the specification has
    check("Resize", inputs, [wanted], how, opset=19, rtol=1e-4, atol=1e-4, **attributes)
