"""Run one runtime in this process, as told by lines of JSON on standard input.

    python -m tests.benchmarks.zoo.worker ort_lite|onnxruntime|openvino

Besides the commands of tests/benchmarks/compare/worker.py, each answered by one line:

    {"outputs": "feeds.npz", "to": "outputs.npz"}   {}: the open session ran on other feeds, and its outputs are in the file
    {"plain": "feeds.npz", "to": "outputs.npz"}     {}: the same without any optimization (onnxruntime alone)
    {"work": 2}                                     {"seconds": 0.01}: the roofline of a run with 2 threads (ort_lite alone)
    {"version": ""}                                 {"version": "1.32.0"}
"""

import sys
from functools import partial
from typing import Any

import numpy as np

from tests.benchmarks.compare.worker import Command, RunFeeds, Timer, feeds_of, serve


class Runtime(Timer):
    """A runtime by the name of its module. Idle threads of onnxruntime sleep: its neighbors have the cores meanwhile."""

    def __init__(self, name: str) -> None:
        super().__init__(self._create)
        self.name, self.model = name, ""
        self.session: Any = None

    def _create(self, model: str, threads: int) -> RunFeeds:
        from ort_lite.tools.cli.benchmark.rivals import rival

        if self.name != "ort_lite":
            run = rival(self.name).create(model, threads, spin=False)
            return lambda feeds: run(dict(feeds))
        from ort_lite import InferenceSession, SessionOptions

        options = SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        self.session = InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return partial(self.session.run, None)

    def open(self, command: dict[str, Any]) -> dict[str, Any]:
        """Release the session before, then create another one and run it."""
        self.session, self.model = None, command["open"]
        return super().open(command)

    def outputs(self, command: dict[str, Any]) -> dict[str, Any]:
        """Save the outputs for the feeds of a file."""
        assert self.run is not None
        np.savez(command["to"], *map(np.asarray, self.run(feeds_of(command["outputs"]))))
        return {}

    def plain(self, command: dict[str, Any]) -> dict[str, Any]:
        """Save the outputs of a new session that optimizes nothing."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(self.model, options, providers=["CPUExecutionProvider"])
        np.savez(command["to"], *session.run(None, feeds_of(command["plain"])))
        return {}

    def work(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return the roofline of the open session."""
        from tests.benchmarks.zoo.roofline import roofline

        return {"seconds": roofline(self.session, self.feeds, command["work"])}

    def version(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return the version of the runtime."""
        import ort_lite
        from ort_lite.tools.cli.benchmark.rivals import rival

        return {"version": ort_lite.__version__ if self.name == "ort_lite" else rival(self.name).version}

    def commands(self) -> dict[str, Command]:
        """Return the commands by name."""
        return super().commands() | {
            "outputs": self.outputs,
            "plain": self.plain,
            "work": self.work,
            "version": self.version,
        }


if __name__ == "__main__":
    serve(Runtime(sys.argv[1]).commands())
