"""Session options and sessions from command-line arguments."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.compat.ort_options import SessionOptions
from ort_lite.errors import InvalidArgument
from ort_lite.options.options import GraphOptimizationLevel
from ort_lite.tools.cli.pairs import pairs

_LEVELS = {
    "disable": GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def options(arguments: Namespace) -> SessionOptions:
    """Return the session options that the arguments ask for."""
    made = SessionOptions()
    if arguments.threads < 0:
        raise InvalidArgument(f"--threads {arguments.threads}: expected 0 (the provider's choice) or more")
    made.intra_op_num_threads = arguments.threads
    made.graph_optimization_level = _LEVELS[arguments.level]
    made.creation_timeout = arguments.creation_timeout
    for key, value in pairs(arguments.config, "--config"):
        made.add_session_config_entry(key, value)
    return made


def providers(arguments: Namespace) -> list[str] | None:
    """Return the providers of --providers; None if it is absent."""
    return [name.strip() for name in arguments.providers.split(",")] if arguments.providers else None


def model_paths(given: Sequence[str]) -> Iterator[str]:
    """Yield the models that are named, and those in folders, sorted. Raises InvalidArgument for a folder without a model."""
    for path in given:
        if not Path(path).is_dir():
            yield path
            continue
        found = sorted(Path(path).rglob("*.onnx"))
        if not found:
            raise InvalidArgument(f"{path}: no file in it ends in .onnx")
        yield from map(str, found)


def session(arguments: Namespace, model: str | bytes, changed: SessionOptions | None = None) -> InferenceSession:
    """Create the session that the arguments ask for. `changed` are its options if a command sets more than the arguments do."""
    made = options(arguments) if changed is None else changed
    return InferenceSession(model, made, providers=providers(arguments))
