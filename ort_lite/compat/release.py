"""Which release of onnxruntime ort_lite stands in for, in the forms in which programs ask for it."""

from typing import SupportsIndex

from ort_lite._version import __version__

RELEASE = "1.31.1"
"""The release of onnxruntime whose interface is followed."""


class ReleaseText(str):
    """A version whose local part says who is there, "1.31.1+ort.lite.0.1.0"; split at dots it is the release alone.

    Programs take a version apart by `split(".")` and `int`, as onnxruntime's own tools do. Its releases have no local part, and
    packaging.version compares what comes before it.
    """

    __slots__ = ()

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return (self.partition("+")[0] if sep == "." else str(self)).split(sep, maxsplit)


SERVED = ReleaseText(f"{RELEASE}+ort.lite.{__version__}")
"""What `onnxruntime.__version__` is where ort_lite is imported as onnxruntime."""
