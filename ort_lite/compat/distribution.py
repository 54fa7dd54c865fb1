"""The "onnxruntime" distribution that importlib.metadata finds while ort_lite is imported as onnxruntime.

Programs such as transformers, optimum and sentence-transformers look it up to detect onnxruntime and its version.
"""

from importlib.metadata import Distribution
from os import PathLike
from pathlib import Path

from ort_lite.compat.release import RELEASE

NAME = "onnxruntime"
_FILES = {
    "METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {RELEASE}\nSummary: ort-lite in onnxruntime's place\n",
    "top_level.txt": f"{NAME}\n",
}


class StandIn(Distribution):
    """A distribution without files on disk, so that it can be neither uninstalled nor listed."""

    @property
    def version(self) -> str:
        """The version of onnxruntime that ort_lite stands in for."""
        return RELEASE

    def read_text(self, filename: str) -> str | None:
        """Return the contents of a metadata file, or None."""
        return _FILES.get(filename)

    def locate_file(self, path: str | PathLike[str]) -> Path:
        """Return a path below the folder that contains ort_lite."""
        return Path(__file__).parents[2] / path


def matches_name(name: str | None) -> bool:
    """Return True if a search for distributions of this name (None: all) should find the stand-in."""
    return name is None or name.lower().replace("_", "-") == NAME
