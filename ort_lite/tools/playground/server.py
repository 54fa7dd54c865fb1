"""The HTTP server of the playground. It listens on this machine only, requires the token in its address, and limits requests.

Below /TOKEN/, GET returns the page, `about` (the choices), `job` (its progress) and `job/result`. POST to `job` starts a job
(`ort_lite.tools.playground.playground_request`), with 409 while another one runs. DELETE of `job` cancels it.
"""

import io
import json
import secrets
import socket
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import Any

from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.tools.playground.jobs import Busy
from ort_lite.tools.playground.playground import Playground

LOOPBACK = "127.0.0.1"
LARGEST = 1 << 20
"""Bytes of a request's body."""
PATIENCE = 10.0
"""Seconds that a request may take to come in, from the time when the server is ready for it."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the rest is in the page, which is one without a playground, too
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Content-Type-Options": "nosniff",
}


class RefusedRequest(Exception):
    """A request that is answered with an error: the status and a sentence."""

    def __init__(self, status: HTTPStatus, said: str) -> None:
        super().__init__(said)
        self.status = status


class PlaygroundServer(ThreadingHTTPServer):
    """The server. It listens once created; `serve_forever` answers. `port` 0 picks a free port. Raises OSError if the port is
    taken.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = False

    def __init__(self, playground: Playground, page: str, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), Handler)
        self.playground, self.page = playground, page.encode()
        self.token = secrets.token_urlsafe(24)
        self.hosts = frozenset(f"{host}:{self.server_port}" for host in (LOOPBACK, "localhost"))

    @property
    def address(self) -> str:
        """Return the address of the page, with its token."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that a browser closed, and report all other errors."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class DeadlineReader(io.RawIOBase):
    """A reader of a socket with one deadline for all reads together, however few bytes each returns."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._until = connection, 0.0

    def begin(self, seconds: float) -> None:
        """Start the clock."""
        self._until = monotonic() + seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has arrived. Raises TimeoutError after the deadline."""
        left = self._until - monotonic()
        if left <= 0:
            raise TimeoutError("the request did not arrive in time")
        before = self._connection.gettimeout()
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(before)


class Handler(BaseHTTPRequestHandler):
    """The handler of one connection."""

    server: PlaygroundServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "ort-lite", ""
    timeout = PATIENCE

    def setup(self) -> None:
        """Prepare the connection, with a reader that limits how long a request may take to arrive."""
        super().setup()
        self.rfile.close()
        self._arrival = DeadlineReader(self.connection)
        self.rfile = io.BufferedReader(self._arrival)

    def handle_one_request(self) -> None:
        """Handle a request. If it does not arrive in time, the connection ends."""
        self._arrival.begin(PATIENCE)
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer a request for the page, its choices or the state of the job."""
        self._answer({"": self._page, "about": self._about, "job": self._job, "job/result": self._result})

    def do_POST(self) -> None:
        """Start a job."""
        self._answer({"job": self._start})

    def do_DELETE(self) -> None:
        """Cancel the job."""
        self._answer({"job": self._end})

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing, because a line would contain the token."""

    # Who may ask

    def _answer(self, routes: dict[str, Callable[[], tuple[HTTPStatus, Any]]]) -> None:
        try:
            route = self._route()
            if route not in routes:
                raise RefusedRequest(HTTPStatus.NOT_FOUND, "there is nothing at this address")
            status, answer = routes[route]()
        except RefusedRequest as error:
            self.close_connection = True  # a body that nobody read may be on its way
            status, answer = error.status, {"error": str(error)}
        except Busy as error:
            status, answer = HTTPStatus.CONFLICT, {"error": str(error)}
        except InvalidArgument as error:
            status, answer = HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except RuntimeException as error:  # no thread can start
            status, answer = HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}
        self._send(status, answer)

    def _route(self) -> str:
        """Return the path behind the token. Requests for another host name are rejected, as DNS rebinding would cause them."""
        if self.headers.get("Host", "") not in self.server.hosts:
            raise RefusedRequest(HTTPStatus.MISDIRECTED_REQUEST, "this server answers to the name of this machine alone")
        origin = self.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in self.server.hosts:
            raise RefusedRequest(HTTPStatus.FORBIDDEN, "this server answers to its own page alone")
        token, _, route = self.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            raise RefusedRequest(HTTPStatus.FORBIDDEN, "the address lacks its token: take it whole, as the command printed it")
        return route

    def _body(self) -> bytes:
        if self.headers.get_content_type() != "application/json":
            raise RefusedRequest(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()):
            raise RefusedRequest(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        if len(length) > 20 or int(length) > LARGEST:
            raise RefusedRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {LARGEST} bytes")
        return self.rfile.read(int(length))

    # What is answered

    def _page(self) -> tuple[HTTPStatus, Any]:
        return HTTPStatus.OK, self.server.page

    def _about(self) -> tuple[HTTPStatus, Any]:
        return HTTPStatus.OK, self.server.playground.about()

    def _job(self) -> tuple[HTTPStatus, Any]:
        job = self.server.playground.job()
        return HTTPStatus.OK, None if job is None else job.as_dict()

    def _result(self) -> tuple[HTTPStatus, Any]:
        job = self.server.playground.job()
        if job is None or job.state != "done":
            raise RefusedRequest(HTTPStatus.NOT_FOUND, "nothing is done yet")
        return HTTPStatus.OK, job.result

    def _start(self) -> tuple[HTTPStatus, Any]:
        return HTTPStatus.ACCEPTED, self.server.playground.start(self._body())

    def _end(self) -> tuple[HTTPStatus, Any]:
        if (job := self.server.playground.job()) is not None:
            job.end()
        return self._job()

    def _send(self, status: HTTPStatus, answer: Any) -> None:
        page = isinstance(answer, bytes)
        body = answer if page else json.dumps(answer, allow_nan=False).encode()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{'text/html' if page else 'application/json'}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
