"""Faults to plant into a copy of the sources: each changes a result that a valid model can show."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
KINDS = ("axis", "rounding", "operand", "nan", "edge", "alias")
"""Off by one in an axis, wrong rounding, a swapped operand, a lost NaN, an edge left out, memory or a result wrongly shared."""


class Fault(NamedTuple):
    """An edit of a file: `new` in the place of `old`, which occurs once. Models are steered at operators, or at transforms."""

    name: str
    kind: str
    file: str
    old: str
    new: str
    operators: tuple[str, ...] = ()
    transforms: tuple[str, ...] = ()

    def plant(self, root: Path) -> str:
        """Edit the file below `root`, and return its former text. Raises ValueError unless `old` occurs once in it."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: the text to replace occurs {text.count(self.old)} times in {self.file}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        return text


def catalogue() -> tuple[Fault, ...]:
    """All faults."""
    from tests.generated.kernel_edge_faults import KERNEL_EDGE_FAULTS
    from tests.generated.kernel_faults import KERNEL_FAULTS
    from tests.generated.transform_faults import TRANSFORM_FAULTS

    return (*KERNEL_FAULTS, *KERNEL_EDGE_FAULTS, *TRANSFORM_FAULTS)
