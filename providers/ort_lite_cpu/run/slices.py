"""Long instructions in slices: a run that somebody may end looks between two of them.

The parts of a call are fixed by its numbers `part` and `parts` alone, so a call of `parts` parts may be one of many more, a few of
them at a time: as rounds, between which `loop.execute` looks at its halt. A kernel counts the parts of all rounds; what is called is
`sliced`, which tells it so. Memory of which each part has its own stays that of a round: each slice has a descriptor, in which such
operands begin as much earlier as the parts before it are in number.
"""

from ort_lite.native.lang import load64
from ort_lite.native.spec import Spec
from ort_lite_cpu.run.atomics import call

# What `sliced` is given: int64s.
ENTRY, EACH, PARTS, FIRST, STRIDE, WORDS = range(6)
"""The kernel's entry; parts of a round; parts of all rounds; address of the first slice's descriptor; bytes from one to the next."""


def sliced(record: int, memory: int, part: int, parts: int) -> int:
    """Calls a kernel for one of the parts of all its slices. Returns its status."""
    number = part // load64(record + 8 * EACH)
    descriptor = load64(record + 8 * FIRST) + number * load64(record + 8 * STRIDE)
    status: int = call(load64(record + 8 * ENTRY), descriptor, memory, part, load64(record + 8 * PARTS))
    return status


SLICED = Spec.plain(sliced, "i64(i64,i64,i64,i64)")
