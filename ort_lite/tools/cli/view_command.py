"""`ort-lite view MODEL.onnx`: write an HTML page that shows a model at each stage, from the file to the compiled partitions."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.errors import InvalidArgument, OrtLiteError
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.feed_arguments import dims_of, feeds_of, lengths
from ort_lite.tools.cli.printing import print_text
from ort_lite.tools.view.view_result import View

GIVEN = ("feeds", "input", "value", "shape", "dim")


def main(arguments: Namespace) -> None:
    """Write the page and print the names of its files, one per line; with --json, print the document instead."""
    view = _view(arguments)
    written = [view.annotate(arguments.model, arguments.annotate)] if arguments.annotate else []
    if arguments.json:
        print_text(view.to_json())
        return
    stem = Path(arguments.model).stem
    if arguments.format == "html":
        written.insert(0, view.save(arguments.output or f"{stem}.html"))
    else:
        written.insert(0, view.save_model_explorer(arguments.output or f"{stem}.json"))
    for path in written:
        print_text(path)


def _view(arguments: Namespace) -> View:
    if arguments.profile and not Path(arguments.profile).is_file():
        raise InvalidArgument(f"--profile {arguments.profile}: No such file")
    with ExitStack() as opened:
        session = opened.enter_context(session_arguments.session(arguments, arguments.model))
        other: InferenceSession | None = None
        if arguments.compare:
            again = Namespace(**{**vars(arguments), "providers": arguments.compare})
            other = opened.enter_context(session_arguments.session(again, arguments.model))
        if arguments.profile or arguments.no_run:
            shown: View = session.view(other=other, profile=arguments.profile)
            return shown
        return _run(arguments, session, other)


def _run(arguments: Namespace, session: InferenceSession, other: InferenceSession | None) -> View:
    """Run the model for the timeline. A model that fails on generated inputs is shown without one."""
    try:
        view: View = session.view(_feeds(arguments, session), other=other)
    except OrtLiteError as error:
        if any(getattr(arguments, name) for name in GIVEN):
            raise
        first = str(error).splitlines()[0]
        why = f"not run, since inputs that are made up do not do ({first}); --feeds gives others"
        sys.stderr.write(f"ort-lite view: {why}\n")
        view = session.view(other=other)
    return view


def _feeds(arguments: Namespace, session: InferenceSession) -> Mapping[str, Any]:
    inputs = session.get_inputs()
    return feeds_of(arguments, inputs, lengths(inputs, dims_of(arguments)))
