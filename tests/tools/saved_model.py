"""Models in files, for tests of commands that read them."""

from pathlib import Path

import onnx
import onnx.parser


def save(path: Path, text: str) -> str:
    """Save a model that is written in ONNX's text format, and return its path."""
    onnx.save(onnx.parser.parse_model(text), path)
    return str(path)
