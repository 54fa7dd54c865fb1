"""Models that the kit draws itself: operators with each attribute varied, odd numbers, other sizes, nodes that devices fuse.

Nothing is random: the same sketches with the same numbers in every process.
"""

from collections.abc import Callable, Collection, Iterator
from functools import cache

from ort_lite.testing.drawing import arrangement, elementwise, images, products, several
from ort_lite.testing.drawing.sketch import Sketch

FAMILIES: tuple[Callable[[], Iterator[Sketch]], ...] = (
    images.conv,
    images.conv_transpose,
    images.pools,
    images.global_pools,
    images.normalisations,
    images.resizes,
    products.gemm,
    products.matmul,
    products.integers,
    elementwise.binary,
    elementwise.unary,
    elementwise.odd_numbers,
    elementwise.casts,
    arrangement.along_an_axis,
    arrangement.reductions,
    arrangement.moves,
    arrangement.older,
    several.fused,
    several.read_twice,
    several.networks,
)
KINDS = ("attributes", "numbers", "graphs", "sizes")


def sketches(operators: Collection[str] | None = None) -> tuple[Sketch, ...]:
    """All of them, or those of these operators alone. They are drawn once a process, in half a second, for all kits."""
    return tuple(s for s in _drawn() if operators is None or set(s.operators) <= set(operators))


@cache
def _drawn() -> tuple[Sketch, ...]:
    return tuple(sketch for family in FAMILIES for sketch in family())
