"""The nature of an operator, as its schema states it: costs, partitioning, verification and transforms read it there."""

from functools import cache
from typing import Any

from ort_lite.record import Record


class Traits(Record):
    """The traits of an operator. One that states none computes every element of its results, each from all inputs."""

    moves: bool = False
    """The results are elements of the inputs, or constant: there is no arithmetic."""
    free: bool = False
    """A run spends no time on it: the result is a view, or is known before."""
    picks: bool = False
    """It reads as much of its first input as it writes."""
    exact: bool = False
    """Its results have no rounding of their own: all implementations compute the same bits."""
    elementwise: bool = False
    """Each element of the result comes from one element of the first input; other inputs are scalars. Transposes move behind it."""
    broadcasts: bool = False
    """Each element of the result comes from an element of each input; inputs are broadcast. Transposes move behind it."""
    operations: str = "1"
    """Operations for each element of the greatest output, or a formula of `ort_lite.partition.cost.work`: "convolution(1)"."""
    host: tuple[int, ...] = ()
    """Inputs that an accelerator's kernel reads on the host."""
    shape: bool = False
    """It reads the shape of its input, and no element."""
    random: tuple[int, ...] | None = None
    """It draws random numbers if these inputs are there; None: it never does."""
    image: bool = False
    """The first input and the first output are images, (N, C, H, W); other operands have no layout."""
    quantizes: bool = False
    dequantizes: bool = False
    unchecked: bool = False
    """Attributes that the schema does not have are ignored with a warning, as in onnxruntime."""
    typed: str | None = None
    """This attribute gives the element type of the result where a node has it; "": something always does."""


@cache
def parse_traits(text: str) -> Traits:
    """Read what stands behind `;` in a schema: `moves picks`, `operations=4`, `host=1,2`. Raises TypeError for unknown traits."""
    pairs = (word.partition("=") for word in text.split())
    return Traits(**{name: _read(name, value) for name, _, value in pairs})


def _read(name: str, value: str) -> Any:
    if name in ("host", "random"):
        return tuple(int(place) for place in value.split(",") if place)
    return value if name in ("operations", "typed") else True
