"""A playground that is served, for tests: over the models of a folder, and asked as a browser asks."""

import json
import threading
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import onnx.parser

from ort_lite.tools.playground.playground import Playground
from ort_lite.tools.playground.server import PlaygroundServer
from tests.threads import join

CHAIN = '<ir_version: 10, opset_import: ["" : 21]> chain (float[N] x) => (float[N] y) { a = Relu(x) b = Exp(a) y = Sqrt(b) }'
ENDLESS = """<ir_version: 10, opset_import: ["" : 21]> endless (float[N] x) => (float[N] y) {
    trips = Constant<value = int64 {9223372036854775807}>()
    y = Loop (trips, , x) <body = step (int64 k, bool on, float[N] c) => (bool still, float[N] n) { still = Identity(on) n = Neg(c) }>
}"""


def write(path: Path, text: str = CHAIN) -> Path:
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path


def arguments(*models: Path, **given: Any) -> Namespace:
    first = {"models": [*map(str, models)], "providers": "CPUExecutionProvider", "level": "all", "threads": 0, "config": []}
    return Namespace(
        **first | {"feeds": None, "input": [], "value": [], "shape": [], "dim": [], "seed": 0, "creation_timeout": 0.0} | given
    )


@contextmanager
def served(*models: Path, page: str = "the page", **given: Any) -> Iterator[PlaygroundServer]:
    playground = Playground(arguments(*models, **given))
    with PlaygroundServer(playground, page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            join(thread)
            assert playground.close(20), "a job does not end"


def asked(
    server: PlaygroundServer,
    method: str,
    route: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    token: str = "",
) -> tuple[int, Any]:
    """Status and answer. A body that is no bytes is sent as JSON."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    kind = {} if body is None else {"Content-Type": "application/json"}
    try:
        connection.request(method, f"/{token or server.token}/{route}", data, {**kind, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if answer.headers.get_content_type() == "application/json" else text
    finally:
        connection.close()


def over(server: PlaygroundServer, seconds: float = 20) -> Any:
    """The job once it runs no more."""
    end = time.monotonic() + seconds
    while (job := asked(server, "GET", "job")[1])["state"] == "running":
        assert time.monotonic() < end, job
        time.sleep(0.01)
    return job
