"""Compare the server around ort_lite with the same server around onnxruntime, each under 8 connections of tritonclient, in turns.

From the repository's root: PYTHONPATH=. python plugins/ort-lite-serve/benchmarks/load.py [--model MODEL.onnx] [--seconds S]
[--trouble]
    [--max-batch N] [--calibrate FILE]

The default model is squeezenet with random weights. Each runtime gets one thread per run and two concurrent runs. A turn is
a fourth of --seconds, over HTTP and over gRPC. With --trouble, other clients send poisoned requests, disconnect and stall
all the time.

With --calibrate, only the server around ort_lite is measured, over HTTP with 1, 2, 4 and 8 connections, and then runs of
batches without a server. examples/scale_simulation.ipynb compares its predictions with the file. Linux only.
"""

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ort_lite.dtypes import from_ort_name, to_numpy
from ort_lite.tools.cli.benchmark.concurrent_load import PERCENTILES, ROUNDS, Load
from ort_lite.tools.cli.benchmark.machine_peaks import cores, cpu

CONNECTIONS = 8


class Runner(Protocol):
    """A runtime that a server is built around."""

    def open(self, path: str) -> Any:
        """Create a session, which has `get_inputs` and `get_outputs`."""

    def run(self, session: Any, feeds: Any, seconds: float) -> Any:
        """Run a session within a number of seconds."""


class OrtLite:
    """ort_lite with one thread per run."""

    def open(self, path: str) -> Any:
        """Create a session."""
        import ort_lite

        options = ort_lite.SessionOptions()
        options.intra_op_num_threads = 1
        return ort_lite.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(self, session: Any, feeds: Any, seconds: float) -> Any:
        """Run a session with the deadline."""
        return session.run(None, feeds, timeout=seconds)


class OnnxRuntime:
    """onnxruntime with one thread per run."""

    def open(self, path: str) -> Any:
        """Create a session."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(self, session: Any, feeds: Any, seconds: float) -> Any:
        """Run a session. onnxruntime has no deadlines."""
        return session.run(None, dict(feeds))


RUNNERS: dict[str, Runner] = {"ort_lite": OrtLite(), "onnxruntime": OnnxRuntime()}


def serve(name: str, path: str, max_batch: int) -> None:
    """Serve the model until SIGTERM. Called in the server's process."""
    import asyncio

    from ort_lite_serve import Batching, ServedModel, Server
    from ort_lite_serve.command import run

    runner = RUNNERS[name]
    session = runner.open(path)
    model = ServedModel("model", session, run=lambda feeds, seconds: runner.run(session, feeds, seconds))
    asyncio.run(
        run(Server([model], batching=Batching(max_batch=max_batch)), "127.0.0.1", 0, 0, lambda text: print(text, flush=True))
    )


@contextmanager
def server(name: str, path: str, max_batch: int) -> Iterator[dict[str, str]]:
    """Start a server in its own process. Yields its addresses by protocol, and its `pid`."""
    command = [sys.executable, __file__, "--serve", name, "--model", path, "--max-batch", str(max_batch)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        grpc, http_line = process.stdout.readline(), process.stdout.readline()
        try:
            yield {"grpc": grpc.split()[-1], "http": http_line.split("//")[1].split("/")[0], "pid": str(process.pid)}
        finally:
            process.terminate()


def call(protocol: str, address: str, feed: np.ndarray[Any, Any], name: str) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Open a connection. Returns a function that sends a request and waits for the answer, and one that closes the connection."""
    from ort_lite_serve.tensors import datatype_of
    from tritonclient import grpc
    from tritonclient import http as web

    module: Any = grpc if protocol == "grpc" else web
    client = module.InferenceServerClient(address)
    given = module.InferInput(name, [*feed.shape], datatype_of(feed))
    given.set_data_from_numpy(feed)
    return lambda: client.infer("model", [given]), client.close


def apply_load(
    protocol: str, address: str, feed: np.ndarray[Any, Any], name: str, seconds: float, connections: int = CONNECTIONS
) -> tuple[list[float], float]:
    """Put a server under load. Returns the seconds of each request, and of the whole."""
    times: list[list[float]] = [[] for _ in range(connections)]
    begin = time.perf_counter()

    def work(mine: list[float]) -> None:
        ask, close = call(protocol, address, feed, name)
        while (start := time.perf_counter()) < begin + seconds:
            ask()
            mine.append(time.perf_counter() - start)
        close()

    threads = [threading.Thread(target=work, args=(mine,)) for mine in times]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [seconds for mine in times for seconds in mine], time.perf_counter() - begin


@contextmanager
def trouble(address: str, wanted: bool) -> Iterator[None]:
    """Meanwhile send huge shapes, disconnect early and leave bodies unfinished, 20 of each per second."""
    over = threading.Event()
    host, port = address.split(":")
    head = f"POST /v2/models/model/infer HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000\r\n\r\n{{".encode()

    def make() -> None:
        stalled = [socket.create_connection((host, int(port))) for _ in range(8)]
        for one in stalled:
            one.sendall(head)
        while not over.wait(0.05):
            poisoned = http.client.HTTPConnection(host, int(port), timeout=10)
            poisoned.request(
                "POST", "/v2/models/model/infer", '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1e9]}]}'
            )
            assert poisoned.getresponse().status == 400
            poisoned.close()
            with socket.create_connection((host, int(port))) as gone:
                gone.sendall(head)
        for one in stalled:
            one.close()

    thread = threading.Thread(target=make)
    if wanted:
        thread.start()
    yield
    over.set()
    if wanted:
        thread.join()


def input_of(path: str) -> tuple[str, np.ndarray[Any, Any]]:
    """Return the name of the model's only input, and random values for it."""
    import ort_lite

    (arg,) = ort_lite.InferenceSession(path).get_inputs()
    shape = [d if isinstance(d, int) else 1 for d in arg.shape]
    return arg.name, (16 * np.random.default_rng(0).random(shape)).astype(to_numpy(from_ort_name(arg.type)))


def compare(path: str, seconds: float, troubled: bool, max_batch: int) -> None:
    """Measure both servers and print percentiles, throughput and their ratios."""
    name_of_input, feed = input_of(path)
    with server("ort_lite", path, max_batch) as ours, server("onnxruntime", path, max_batch) as theirs:
        addresses = {"ort_lite": ours, "onnxruntime": theirs}
        for protocol in ("http", "grpc"):
            for one in addresses.values():  # warm-up: compiles kernels and starts threads
                apply_load(protocol, one[protocol], feed, name_of_input, 0.5)
            found: dict[str, list[tuple[list[float], float]]] = {name: [] for name in addresses}
            for _ in range(ROUNDS):
                for name, one in addresses.items():
                    with trouble(one["http"], troubled):
                        found[name].append(apply_load(protocol, one[protocol], feed, name_of_input, seconds / ROUNDS))
            show(protocol, {name: merge(turns) for name, turns in found.items()})


def calibrate(path: str, seconds: float, max_batch: int) -> dict[str, Any]:
    """Measure what a request costs the server, its runs and the clients, and what each number of connections gets; in seconds.

    A turn is a fourth of `seconds`; the numbers of connections take turns.
    """
    name, feed = input_of(path)
    turns: dict[int, list[tuple[list[float], float]]] = {count: [] for count in (1, 2, 4, 8)}
    spent = {count: np.zeros(4) for count in turns}
    with server("ort_lite", path, max_batch) as one:
        apply_load("http", one["http"], feed, name, 1.0)
        for _ in range(ROUNDS):
            for count, mine in turns.items():
                before = costs(one)
                mine.append(apply_load("http", one["http"], feed, name, seconds / ROUNDS, count))
                spent[count] += costs(one) - before
    model, features = cpu()
    machine = {"cpu": model, "features": features, "cores": cores(), "model": Path(path).stem, "workers": 2}
    rows = [figures(merge(turns[count], count), spent[count]) for count in turns]
    return {**machine, "connections": rows, "batches": batches(path)}


def batches(path: str) -> dict[int, float]:
    """Return the seconds of a run without a server, by number of rows."""
    from tests.benchmarks.scale import batch_seconds

    with tempfile.TemporaryDirectory() as folder:
        found = batch_seconds(Path(path).read_bytes(), Path(folder))
    return {count: round(seconds, 6) for count, seconds in found.items()}


def costs(one: dict[str, str]) -> np.ndarray[Any, Any]:
    """Return the totals so far: CPU seconds of the server and of this process, seconds of runs, and number of runs."""
    ticks = Path(f"/proc/{one['pid']}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
    with urllib.request.urlopen(f"http://{one['http']}/metrics") as answer:
        text = answer.read().decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    runs = [float(lines.get(f'ort_lite_run_seconds_{what}{{model="model"}}', 0)) for what in ("sum", "count")]
    return np.array([sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), time.process_time(), *runs])


def figures(load: Load, spent: np.ndarray[Any, Any]) -> dict[str, float]:
    """Return the figures by name, per request or per run."""
    count, (server_cpu, client_cpu, run_seconds, runs) = len(load.times), spent
    found = {f"p{share}": load.percentile(share) for share in PERCENTILES}
    return {
        "connections": load.callers,
        "requests": count,
        "throughput": round(load.throughput, 2),
        **{name: round(value, 6) for name, value in found.items()},
        "mean": round(sum(load.times) / count, 6),
        "run": round(run_seconds / runs, 6),
        "server_cpu": round(server_cpu / count, 6),
        "client_cpu": round(client_cpu / count, 6),
    }


def merge(turns: list[tuple[list[float], float]], connections: int = CONNECTIONS) -> Load:
    """Merge the measurements of several turns."""
    times = sorted(seconds for mine, _ in turns for seconds in mine)
    return Load(connections, tuple(times), sum(whole for _, whole in turns))


def show(protocol: str, loads: dict[str, Load]) -> None:
    """Print the loads and the ratios of ort_lite to onnxruntime."""
    for name, load in loads.items():
        print(f"{protocol} {name:12} {load}")
    ours, theirs = loads["ort_lite"], loads["onnxruntime"]
    ratios = ", ".join(f"p{share} {ours.percentile(share) / theirs.percentile(share):.3f}" for share in PERCENTILES)
    print(f"{protocol} ort_lite / onnxruntime: throughput {ours.throughput / theirs.throughput:.3f}, {ratios}")


def main() -> None:
    """Run the benchmark that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--trouble", action="store_true")
    parser.add_argument("--max-batch", type=int, default=1)
    parser.add_argument("--calibrate", type=Path)
    parser.add_argument("--serve")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.model, arguments.max_batch)
        return
    print(
        f"{cpu()[0]}, {CONNECTIONS} connections, batches of {arguments.max_batch}{', with trouble' if arguments.trouble else ''}"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.model or str(Path(folder) / "squeezenet.onnx")
        if not arguments.model:
            from tests.models.light_models import randomised

            Path(path).write_bytes(randomised("squeezenet"))
        if arguments.calibrate:
            found = calibrate(path, arguments.seconds, arguments.max_batch)
            arguments.calibrate.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        else:
            compare(path, arguments.seconds, arguments.trouble, arguments.max_batch)


if __name__ == "__main__":
    main()
