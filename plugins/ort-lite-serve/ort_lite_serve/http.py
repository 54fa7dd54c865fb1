"""The protocol over HTTP, as a Starlette application. Spec: KServe "Open Inference Protocol (V2)", HTTP/REST."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ort_lite_serve.limits import Refused
from ort_lite_serve.protocol import decode, encode
from ort_lite_serve.server import Server

HEADER = "Inference-Header-Content-Length"
Handler = Callable[[Request], Awaitable[Response]]


def application(server: Server) -> Starlette:
    """Starts the server with it, and stops it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        server.start()
        yield
        await server.stop()

    return Starlette(routes=_routes(server), lifespan=lifespan)


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
        return JSONResponse(server.model(*_named(request)).metadata())

    async def model_ready(request: Request) -> Response:
        found = server.model(*_named(request))
        return JSONResponse({"name": found.name, "ready": server.ready}, 200 if server.ready else 503)

    async def infer(request: Request) -> Response:
        return await _infer(server, request)

    named = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
    return [
        Route("/v2", _told(metadata)),
        Route("/v2/", _told(metadata)),
        Route("/v2/health/live", _told(live)),
        Route("/v2/health/ready", _told(ready)),
        Route("/metrics", _told(metrics)),
        *(Route(path, _told(model)) for path in named),
        *(Route(f"{path}/ready", _told(model_ready)) for path in named),
        *(Route(f"{path}/infer", _told(infer), methods=["POST"]) for path in named),
    ]


def _named(request: Request) -> tuple[str, str]:
    return request.path_params["name"], request.path_params.get("version", "")


def _told(handler: Handler) -> Handler:
    """What is refused is an answer."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as error:
            headers = {"Retry-After": "1"} if error.status == 503 else {}
            return JSONResponse({"error": str(error)}, error.status, headers)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it

    return handle


async def _infer(server: Server, request: Request) -> Response:
    name, version = _named(request)
    model = server.model(name, version)
    asked = decode(await _body(request, server), request.headers.get(HEADER), server.limits)
    work = asyncio.ensure_future(server.infer(name, version, asked.inputs, [one.name for one in asked.outputs]))
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
        body, length = encode(name, model.version, asked, work.result())
    finally:
        gone.cancel()
        work.cancel()
    headers = {} if length is None else {HEADER: str(length)}
    return Response(body, media_type="application/json" if length is None else "application/octet-stream", headers=headers)


async def _gone(request: Request) -> None:
    """Ends when the client does: behind the body there is nothing else to hear of."""
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await request.receive()


async def _body(request: Request, server: Server) -> bytes:
    """Raises Refused as soon as it is too long, whatever its header says."""
    most = server.limits.request_bytes
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise Refused(415, f"Content-Encoding {encoding}: this server takes requests as they are")
    said = request.headers.get("content-length", "0")
    parts, size = [], int(said) if said.isdecimal() else 0
    if size > most:
        raise Refused(413, f"the request has {size} bytes; this server takes {most}")
    size = 0
    try:
        async with asyncio.timeout(server.limits.seconds):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise Refused(413, f"the request has more than {most} bytes")
                parts.append(part)
    except TimeoutError:
        raise Refused(408, f"the request did not come within {server.limits.seconds:.3g} s") from None
    return b"".join(parts)
