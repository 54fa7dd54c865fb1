"""The protocol over HTTP, as a Starlette application. Spec: KServe "Open Inference Protocol (V2)", HTTP/REST."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ort_lite_serve.limits import Limits, Refused
from ort_lite_serve.model import ServedModel
from ort_lite_serve.protocol import decode, encode
from ort_lite_serve.server import Server

HEADER = "Inference-Header-Content-Length"
BEGIN = "ort_lite.begin"
"""The key in a request's scope for the arrival of its first byte, by the clock of the event loop. `arrival.protocol` sets it."""
GONE = 499
"""The status, in the metrics, of an answer whose client has left."""


def application(server: Server) -> Starlette:
    """Return the application of a server, which starts and stops with it. Every Refused becomes an HTTP response."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        server.start()
        yield
        await server.stop()

    answers = {Refused: _refuse, HTTPException: _unknown}
    return Starlette(routes=_routes(server), lifespan=lifespan, exception_handlers=answers)


def _refuse(_: Request, error: Any) -> Response:
    headers = {"Retry-After": "1"} if error.status == 503 else {}
    return JSONResponse({"error": str(error)}, error.status, headers)


def _unknown(request: Request, error: Any) -> Response:
    """Answer a request for an unknown path or with an unsupported method."""
    return JSONResponse({"error": f"{request.method} {request.url.path}: {error.detail}"}, error.status_code, error.headers)


def _routes(server: Server) -> list[Route]:
    async def live(_: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(_: Request) -> Response:
        return JSONResponse({"ready": server.ready}, 200 if server.ready else 503)

    async def metadata(_: Request) -> Response:
        return JSONResponse(server.metadata())

    async def metrics(_: Request) -> Response:
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4")

    async def model(request: Request) -> Response:
        return JSONResponse(server.model(*_name_and_version(request)).metadata())

    async def model_ready(request: Request) -> Response:
        found = server.model(*_name_and_version(request))
        return JSONResponse({"name": found.name, "ready": server.ready}, 200 if server.ready else 503)

    async def infer(request: Request) -> Response:
        with server.handle_request(*_name_and_version(request)) as found:
            return await _infer(server, found, request)

    alone = {"/v2": metadata, "/v2/": metadata, "/v2/health/live": live, "/v2/health/ready": ready, "/metrics": metrics}
    named = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
    return [
        *(Route(path, handler) for path, handler in alone.items()),
        *(Route(path, model) for path in named),
        *(Route(f"{path}/ready", model_ready) for path in named),
        *(Route(f"{path}/infer", infer, methods=["POST"]) for path in named),
    ]


def _name_and_version(request: Request) -> tuple[str, str]:
    return request.path_params["name"], request.path_params.get("version", "")


async def _infer(server: Server, model: ServedModel, request: Request) -> Response:
    """Run a request. Raises Refused, also as soon as the client disconnects: a request that still waits is then dropped."""
    asked = decode(await _body(request, server.limits), request.headers.get(HEADER), server.limits)
    work = asyncio.ensure_future(server.infer(model, asked.inputs, [one.name for one in asked.outputs]))
    gone = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Refused(GONE, "the client went")
        body, length = encode(model.name, model.version, asked, work.result())
    finally:
        gone.cancel()
        work.cancel()
    headers = {} if length is None else {HEADER: str(length)}
    return Response(body, media_type="application/json" if length is None else "application/octet-stream", headers=headers)


async def _wait_for_disconnect(request: Request) -> None:
    """Wait until the client disconnects: no other message follows the body."""
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await request.receive()


async def _body(request: Request, limits: Limits) -> bytes:
    """Read the body of a request.

    Raises Refused as soon as it is too long, whatever its header says, and if it does not arrive in time.
    """
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise Refused(415, f"Content-Encoding {encoding}: this server takes requests as they are")
    _check_size(int(request.headers.get("content-length", 0)), limits)
    parts, size = [], 0
    until = request.scope.get(BEGIN, asyncio.get_running_loop().time()) + limits.seconds
    try:
        async with asyncio.timeout_at(until):
            async for part in request.stream():
                size += len(part)
                _check_size(size, limits)
                parts.append(part)
    except ClientDisconnect:
        raise Refused(GONE, "the client went") from None
    except TimeoutError:
        raise Refused(408, f"the request did not come within {limits.seconds:.3g} s") from None
    return b"".join(parts)


def _check_size(size: int, limits: Limits) -> None:
    if size > limits.request_bytes:
        raise Refused(413, f"the request has {size} bytes or more; this server takes {limits.request_bytes}")
