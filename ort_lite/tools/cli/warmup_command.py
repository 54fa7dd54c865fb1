"""`ort-lite warmup MODEL.onnx|FOLDER ...`: run each model once, so that its kernels are in the cache."""

import time
from argparse import Namespace
from typing import Any

from ort_lite.errors import format_error
from ort_lite.native.loader import finish
from ort_lite.native.progress import Reported, piece
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.exit_status import ExitStatus
from ort_lite.tools.cli.feed_arguments import feeds_of
from ort_lite.tools.cli.printing import many, print_json, print_text

_TARGET = "ort_lite.target"


def main(arguments: Namespace) -> int:
    """Run `ort-lite warmup`. Returns MODEL if a model failed; the others are warm all the same."""
    paths = list(session_arguments.model_paths(arguments.models))
    entries = arguments.config
    results = []
    for target in arguments.target or [""]:
        arguments.config = [*entries, f"{_TARGET}={target}"] if target else entries
        for path in paths:
            result = _warm(arguments, path, target, len(paths) == 1)
            results.append(result)
            if not arguments.json:
                print_text(_line(result))
    if arguments.json:
        print_json("warmup", {"models": results})
    return ExitStatus.MODEL if any("error" in result for result in results) else ExitStatus.DONE


def _warm(arguments: Namespace, path: str, target: str, known: bool) -> dict[str, Any]:
    """Warm up one model and describe the outcome. An error does not stop the other models. `known`: see `feeds_of`."""
    result: dict[str, Any] = {"model": path, **({"target": target} if target else {})}
    start = time.perf_counter()
    with piece(Reported()) as seen:
        try:
            with session_arguments.session(arguments, path) as session:
                session.run(None, feeds_of(arguments, session.get_inputs(), known=known))
            finish()
        except Exception as error:  # noqa: BLE001  is told, with the model's name
            result["error"] = format_error(error)
    return result | {"seconds": time.perf_counter() - start, "kernels": seen.done}


def _line(result: dict[str, Any]) -> str:
    where = f"{result['model']}{' for ' + result['target'] if 'target' in result else ''}"
    compiled = f"{many(result['kernels'], 'kernel')} compiled"
    if "error" in result:
        return f"{where}: {result['error'].splitlines()[0]} ({compiled})"
    return f"{where}: warm after {result['seconds']:.2f} s, {compiled}"
