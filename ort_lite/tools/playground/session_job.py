"""The work for a request: the document of `ort-lite view`, and the outcome of a run."""

import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.feed_arguments import dims_of, feeds_of, lengths
from ort_lite.tools.cli.run_command import summary
from ort_lite.tools.playground.jobs import PlaygroundJob
from ort_lite.tools.playground.wish import Wish


def run_request(job: PlaygroundJob, wish: Wish, path: Path, given: Namespace) -> dict[str, Any]:
    """{"document", "inputs", "outputs"}; the session is closed again.

    `given` has files for the inputs of any model, and the timeout of creations.
    """
    own = {name: getattr(given, name) for name in ("feeds", "input", "creation_timeout")}
    arguments = Namespace(**vars(wish.arguments()) | own)
    job.say("Loading, transforming, partitioning.")
    with session_arguments.session(arguments, str(path)) as session:
        inputs = [{"name": arg.name, "type": arg.type, "shape": [*arg.shape]} for arg in session.get_inputs()]
        feeds = _feeds(arguments, session) if wish.run else None
        outputs = None if feeds is None else _run(job, wish, session, feeds)
        job.say("Collecting what the page shows." if feeds is None else "Running again, for what each node takes.")
        document = session.view(feeds).document
        job.say("Closing.")
        return {"document": document, "inputs": inputs, "outputs": outputs, "model": wish.model}


def _feeds(arguments: Namespace, session: InferenceSession) -> dict[str, Any]:
    """Names of inputs that the model does not have are those of other models of the desk."""
    inputs = session.get_inputs()
    return feeds_of(arguments, inputs, lengths(inputs, dims_of(arguments)), known=False)


def _run(job: PlaygroundJob, wish: Wish, session: InferenceSession, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """One run, the first, which can be ended: milliseconds, and a row for each output."""
    job.say(f"Running on {', '.join(session.get_providers())}.")
    start = time.perf_counter()
    results = session.run(None, feeds, job.run_options, timeout=wish.timeout)
    seconds = time.perf_counter() - start
    found = zip(session.get_outputs(), results, strict=True)
    return {"milliseconds": seconds * 1e3, "rows": [{"output": arg.name, **_texts(summary(one))} for arg, one in found]}


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    """JSON has no NaN."""
    return {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in row.items()}
