"""The source of a session's kernels: their target, and whether missing ones may be compiled."""

from collections.abc import Iterable, Sequence

from ort_lite.native import loader
from ort_lite.native.cpu import Target
from ort_lite.native.missing import BACKGROUND, WAIT, compiler_lacks
from ort_lite.native.spec import Spec
from ort_lite.record import Record


class Kernels(Record):
    """The kernels of one program, or of one call. `compile`: see `missing.OPTION`."""

    target: Target
    compile: str = WAIT

    @property
    def all_come(self) -> bool:
        """Return True if every kernel will be available: missing ones are compiled, and waited for."""
        return self.compile == WAIT and not compiler_lacks()

    def load(self, specs: Sequence[Spec]) -> list[int]:
        """See `loader.load`."""
        return loader.load(specs, self.target, self.compile)

    def has_kernel(self, spec: Spec) -> bool:
        """Return True if it is available without compiling."""
        return loader.is_available(spec, self.target)

    def hold(self, generic: Iterable[Spec]) -> bool:
        """Return True if all of these are available, as replacements of one that is not."""
        return all(map(self.has_kernel, generic))

    def leave(self, spec: Spec) -> None:
        """Says that it was done without once, at no loss: it is compiled behind what is waited for."""
        if self.all_come:
            loader.leave(spec, self.target)
        else:
            self.want([spec])

    def want(self, specs: Sequence[Spec]) -> None:
        """Says what the program has done without: the next session shall have it, where that is the option."""
        if specs and self.compile == BACKGROUND and not compiler_lacks():
            from ort_lite.native import background

            background.want(specs, self.target)
