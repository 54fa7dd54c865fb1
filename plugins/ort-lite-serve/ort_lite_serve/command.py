"""The command `ort-lite serve`: HTTP by uvicorn and gRPC in one process, until SIGTERM or Ctrl-C. Answers all accepted requests."""

import asyncio
import signal
import socket
from argparse import Namespace
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from math import ceil
from typing import Any

import uvicorn

from ort_lite.errors import InvalidArgument
from ort_lite_serve.arrival import protocol
from ort_lite_serve.folders import Open, load
from ort_lite_serve.grpc import grpc_server
from ort_lite_serve.http import application
from ort_lite_serve.limits import Batching, Limits
from ort_lite_serve.server import Server

Say = Callable[[str], None]


def serve(arguments: Namespace, open_session: Open, say: Say) -> None:
    """Serve the models that the arguments of `ort-lite serve` name.

    Raises InvalidArgument and OSError if they cannot be served.
    """
    limits = Limits(request_bytes=arguments.max_request_mb << 20, queue=arguments.queue, seconds=arguments.timeout)
    batching = Batching(max_batch=arguments.max_batch, max_wait=arguments.max_wait_ms / 1000, workers=arguments.workers)
    for name in ("max_request_mb", "queue", "timeout", "max_batch", "workers"):
        if getattr(arguments, name) <= 0:
            raise InvalidArgument(f"--{name.replace('_', '-')} {getattr(arguments, name)}: expected more than 0")
    server = Server(load(arguments.models, open_session), limits, batching)
    asyncio.run(run(server, arguments.host, arguments.port, None if arguments.no_grpc else arguments.grpc_port, say))


async def run(server: Server, host: str, port: int, grpc_port: int | None, say: Say) -> None:
    """Serve until SIGTERM or SIGINT.

    A port of 0 is any free port; without `grpc_port` there is HTTP alone. Calls `say` with each address. Raises OSError if
    an address is in use.
    """
    listening = _listen(host, port)
    http = _Http(server)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, http.end)
    beside = None
    if grpc_port is not None:
        beside, bound = _grpc(server, _address(host, grpc_port))
        await beside.start()
        say(f"gRPC on {_address(host, bound)}")
    say(f"HTTP on http://{_address(host, listening.getsockname()[1])}/v2, models: {', '.join(server.models)}")
    await http.serve([listening])
    if beside is not None:
        await beside.stop(1)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket of protocol IPPROTO_TCP: over others, asyncio delays what it sends by 40 ms."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen()
    except OSError as error:
        made.close()
        raise OSError(f"HTTP cannot listen on {_address(host, port)}: {error}") from None
    return made


def _grpc(server: Server, address: str) -> Any:
    try:
        return grpc_server(server, address)
    except RuntimeError as error:
        raise OSError(f"gRPC cannot listen on {address}: {error}") from None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Http(uvicorn.Server):
    """A uvicorn server without signal handlers of its own: signals stop HTTP and gRPC together."""

    should_exit: bool

    def __init__(self, server: Server) -> None:
        self._server = server
        patience = ceil(2 * server.limits.seconds) + 1  # for clients that do not read their answer
        limits: dict[str, Any] = {"limit_concurrency": server.limits.connections, "timeout_graceful_shutdown": patience}
        limits["http"] = protocol(server.limits.seconds)
        super().__init__(uvicorn.Config(application(server), log_level="warning", access_log=False, ws="none", **limits))

    def capture_signals(self) -> AbstractContextManager[None]:
        return nullcontext()

    def end(self) -> None:
        """Stop once accepted requests are answered. The second call stops at once."""
        self._server.ready = False
        self.force_exit = self.should_exit
        self.should_exit = True
