"""The work behind a request: the document of `ort-lite view` and the result of a run."""

import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.feed_arguments import dims_of, feeds_of, lengths
from ort_lite.tools.cli.run_command import summary, text_of
from ort_lite.tools.playground.jobs import PlaygroundJob
from ort_lite.tools.playground.playground_request import PlaygroundRequest


def run_request(job: PlaygroundJob, request: PlaygroundRequest, path: Path, given: Namespace) -> dict[str, Any]:
    """Return {"document", "inputs", "outputs"}. The session is closed afterwards.

    `given` holds input files for any of the models, and the timeout of session creation.
    """
    own = {name: getattr(given, name) for name in ("feeds", "input", "creation_timeout")}
    arguments = Namespace(**vars(request.arguments()) | own)
    job.say("Loading, transforming, partitioning.")
    with session_arguments.session(arguments, str(path)) as session:
        inputs = [{"name": arg.name, "type": arg.type, "shape": [*arg.shape]} for arg in session.get_inputs()]
        feeds = _feeds(arguments, session) if request.run else None
        outputs = None if feeds is None else _run(job, request, session, feeds)
        job.say("Collecting what the page shows." if feeds is None else "Running again, for what each node takes.")
        document = session.view(feeds).document
        job.say("Closing.")
        return {"document": document, "inputs": inputs, "outputs": outputs, "model": request.model}


def _feeds(arguments: Namespace, session: InferenceSession) -> dict[str, Any]:
    """Return the feeds. Names that are not inputs of this model belong to other models and are ignored."""
    inputs = session.get_inputs()
    return feeds_of(arguments, inputs, lengths(inputs, dims_of(arguments)), known=False)


def _run(job: PlaygroundJob, request: PlaygroundRequest, session: InferenceSession, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Run the model once, cancellably. Returns the milliseconds, and one row per output."""
    job.say(f"Running on {', '.join(session.get_providers())}.")
    start = time.perf_counter()
    results = session.run(None, feeds, job.run_options, timeout=request.timeout)
    seconds = time.perf_counter() - start
    found = zip(session.get_outputs(), results, strict=True)
    return {"milliseconds": seconds * 1e3, "rows": [{"output": arg.name, **_texts(summary(one))} for arg, one in found]}


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    """Replace NaN and infinities, which JSON does not have, by texts."""
    return {name: text_of(value) for name, value in row.items()}
