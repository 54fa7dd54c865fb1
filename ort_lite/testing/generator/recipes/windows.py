"""Windows of convolutions and pools: kernels, strides, dilations and pads that fit the sizes they slide over."""

from collections.abc import Sequence
from typing import Any

from ort_lite.record import Record
from ort_lite.testing.generator.arrays import Contents, numbers
from ort_lite.testing.generator.draft import Known, Rejected
from ort_lite.testing.generator.draw import Draw

SAME = ("SAME_UPPER", "SAME_LOWER")


class KernelWindow(Record):
    """A kernel that slides over axes. `pads` has the pads before each axis, then those after each."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    auto_pad: str

    @property
    def rank(self) -> int:
        """Return the number of spatial axes."""
        return len(self.kernel)

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the number of elements from the first to the last one that the kernel reads, along each axis."""
        return tuple((size - 1) * dilation + 1 for size, dilation in zip(self.kernel, self.dilations, strict=True))

    def counts(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the number of windows of a convolution along each axis."""
        if self.auto_pad in SAME:
            return tuple(-(-size // stride) for size, stride in zip(sizes, self.strides, strict=True))
        return tuple(
            (size + self.pads[k] + self.pads[self.rank + k] - self.extents[k]) // self.strides[k] + 1
            for k, size in enumerate(sizes)
        )

    def attributes(self, draw: Draw, dilations: bool = True) -> dict[str, Any]:
        """Return the attributes except kernel_shape. Those with their default value are sometimes left out."""
        padded = self.auto_pad in ("", "NOTSET")
        return {
            "strides": unless_default(draw, list(self.strides), [1] * self.rank),
            "dilations": unless_default(draw, list(self.dilations), [1] * self.rank) if dilations else None,
            "pads": unless_default(draw, list(self.pads), [0] * 2 * self.rank) if padded else None,
            "auto_pad": self.auto_pad or None,
        }


def unless_default(draw: Draw, value: Any, default: Any) -> Any:
    """Return the value of an attribute, or None half of the time if it is the default."""
    return None if value == default and draw.chance(0.5) else value


def image(draw: Draw, index: int = 0, low: int = 3, high: int = 5, least: int = 1) -> Known:
    """Return an operand `(N, C, ...)` with `low` to `high` axes. Only the batch may be empty; each spatial size is at least
    `least`.
    """
    known, kind = draw.take_operand(index), draw.kind(index)
    if known is not None and known.kind == kind and _is_image(known, low, high, least):
        return known
    if known is not None:
        raise Rejected(f"{known.name} is no image")
    fitting = [one for one in draw.visible() if one.kind == kind and _is_image(one, low, high, least)]
    if fitting and draw.chance(0.7):
        return draw.choice(fitting[-4:])
    rank = draw.integer(low, min(high, 4)) if draw.chance(0.8) else draw.integer(low, high)
    most = {3: 12, 4: 8}.get(rank, 5)
    sizes = [max(least, draw.integer(1, most)) for _ in range(rank - 2)]
    shape = (draw.size(3), draw.choice([1, 2, 3, 4, 4, 6, 8]), *sizes)
    return draw.draft.lookup(draw.tensor(index, shape))


def _is_image(known: Known, low: int, high: int, least: int) -> bool:
    if known.shape is None or not low <= known.rank <= high or known.shape[1] == 0:
        return False
    return all(size >= least for size in known.shape[2:])


def weight(draw: Draw, index: int, shape: Sequence[int], contents: Contents | None = None) -> str:
    """Return an operand that is usually constant, as weights are, and finite unless it is an earlier value."""
    if draw.chance(0.1):
        return draw.tensor(index, shape, contents)
    return draw.tensor(index, shape, contents or numbers, draw.chance(0.8))


def window(draw: Draw, sizes: Sequence[int], pooling: bool, dilated: bool = True, automatic: bool = True) -> KernelWindow:
    """Return a window that fits into `sizes`. Pads of a pool are smaller than its window; those of a convolution may be negative."""
    rank = len(sizes)
    alike = draw.chance(0.4)

    def each(values: Sequence[int]) -> list[int]:
        first = draw.choice(values)
        return [first if alike else draw.choice(values) for _ in range(rank)]

    kernel, strides = each([1, 2, 3, 3, 4, 5]), each([1, 1, 1, 2, 2, 3, 4])
    dilations = each([1, 1, 2, 3]) if dilated and draw.chance(0.4) else [1] * rank
    auto_pad = draw.choice(["", "", "", "NOTSET", "VALID", *SAME]) if automatic else ""
    pads = [0] * 2 * rank
    for k, size in enumerate(sizes):
        kernel[k], pads[k], pads[rank + k] = _fitting(draw, size, kernel[k], dilations[k], auto_pad in ("", "NOTSET"), pooling)
        # Pools pad for the kernel without its dilation, which then takes windows away.
        lost = (kernel[k] - 1) * (dilations[k] - 1)
        if pooling and auto_pad in SAME and -(-size // strides[k]) - -(-lost // strides[k]) < 1:
            kernel[k] = 1
    return KernelWindow(tuple(kernel), tuple(strides), tuple(dilations), tuple(pads), auto_pad)


def _fitting(draw: Draw, size: int, kernel: int, dilation: int, padded: bool, pooling: bool) -> tuple[int, int, int]:
    """Return the kernel size and the pads along one axis, with an extent of at most the padded size."""
    if size < 1:
        raise Rejected("a window walks over an empty axis")
    before, after = 0, 0
    if padded and draw.chance(0.5):
        most = min((kernel - 1) * dilation, 4) if pooling else 3
        least = -1 if not pooling and size > 3 and draw.chance(0.04) else 0
        before, after = draw.integer(least, most), draw.integer(least, most)
    while (kernel - 1) * dilation + 1 > size + before + after:
        kernel -= 1
    reach = (kernel - 1) * dilation
    return (kernel, min(before, reach), min(after, reach)) if pooling else (kernel, before, after)
