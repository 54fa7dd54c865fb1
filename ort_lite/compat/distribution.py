"""The distribution "onnxruntime" that importlib.metadata finds if ort_lite is imported as onnxruntime.

Programs ask for it to learn whether onnxruntime is there, and which: transformers, optimum and sentence-transformers do.
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
    """No file of it is on disk: uninstalling, or listing its files, has nothing to work on."""

    @property
    def version(self) -> str:
        return RELEASE

    def read_text(self, filename: str) -> str | None:
        return _FILES.get(filename)

    def locate_file(self, path: str | PathLike[str]) -> Path:
        """Below the folder that holds ort_lite."""
        return Path(__file__).parents[2] / path


def asked_for(name: str | None) -> bool:
    """Return True if a search for distributions of this name, None for all, should find the stand-in."""
    return name is None or name.lower().replace("_", "-") == NAME
