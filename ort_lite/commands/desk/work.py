"""From a Wish to what the page shows: the document of `ort-lite view`, and what a run gave."""

import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ort_lite.commands import model
from ort_lite.commands.desk.jobs import Job
from ort_lite.commands.desk.wish import Wish
from ort_lite.commands.feeds import feeds_of
from ort_lite.commands.run import summary
from ort_lite.session.session import InferenceSession


def done(job: Job, wish: Wish, path: Path, given: Namespace) -> dict[str, Any]:
    """{"document", "inputs", "outputs"}; the session is closed again. `given` has files for the inputs of any model."""
    arguments = Namespace(**vars(wish.arguments()) | {"feeds": given.feeds, "input": given.input})
    job.say("Loading, transforming, partitioning.")
    with model.session(arguments, str(path)) as session:
        inputs = [{"name": arg.name, "type": arg.type, "shape": [*arg.shape]} for arg in session.get_inputs()]
        outputs = _run(job, wish, session, arguments) if wish.run else None
        job.say("Collecting what the page shows.")
        return {"document": session.view().document, "inputs": inputs, "outputs": outputs, "model": wish.model}


def _run(job: Job, wish: Wish, session: InferenceSession, arguments: Namespace) -> dict[str, Any]:
    """One run, the first: milliseconds, and a row for each output."""
    feeds = feeds_of(arguments, session.get_inputs(), known=False)
    job.say(f"Running on {', '.join(session.get_providers())}.")
    start = time.perf_counter()
    results = session.run(None, feeds, job.run_options, timeout=wish.timeout)
    seconds = time.perf_counter() - start
    found = zip(session.get_outputs(), results, strict=True)
    return {"milliseconds": seconds * 1e3, "rows": [{"output": arg.name, **_texts(summary(one))} for arg, one in found]}


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    """JSON has no NaN."""
    return {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in row.items()}
