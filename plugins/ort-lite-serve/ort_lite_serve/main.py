"""`ort-lite serve`: one process, HTTP by uvicorn and gRPC beside it, until SIGTERM or Ctrl-C; then what was taken is answered."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from ort_lite import InferenceSession, SessionOptions
from ort_lite.errors import InvalidArgument
from ort_lite_serve.grpc import grpc_server
from ort_lite_serve.http import application
from ort_lite_serve.limits import Batching, Limits
from ort_lite_serve.model import Model
from ort_lite_serve.server import Server

Say = Callable[[str], None]


def load(paths: Sequence[str], options: SessionOptions, providers: Sequence[Any] | None) -> list[Model]:
    """A model for each file, named after it, and of a folder those that are in it: NAME.onnx, or NAME/VERSION/model.onnx, of which the
    highest number counts. Raises InvalidArgument where there is none, or two have one name.
    """
    found: dict[str, Model] = {}
    for path in paths:
        for name, version, file in _files(Path(path)):
            if name in found:
                raise InvalidArgument(f"{file}: a model {name!r} is there already")
            found[name] = Model(name, InferenceSession(file, options, providers), version)
    return list(found.values())


def _files(path: Path) -> list[tuple[str, str, Path]]:
    """(name, version, file), by name."""
    if not path.is_dir():
        return [(path.stem, "1", path)]
    found = {file.stem: ("1", file) for file in path.glob("*.onnx")}
    for file in path.glob("*/*/model.onnx"):
        name, version = file.parent.parent.name, file.parent.name
        if version.isdecimal() and (name not in found or int(found[name][0]) < int(version)):
            found[name] = (version, file)
    if not found:
        raise InvalidArgument(f"{path}: neither NAME.onnx nor NAME/VERSION/model.onnx is in it")
    return [(name, version, file) for name, (version, file) in sorted(found.items())]


async def serve(server: Server, host: str, port: int, grpc_port: int | None, say: Say) -> None:
    """Until SIGTERM or SIGINT. `grpc_port` None: HTTP alone. `say` hears where it listens."""
    config = uvicorn.Config(application(server), host=host, port=port, log_level="warning", access_log=False)
    http = _Ready(config, server)
    beside = None
    if grpc_port is not None:
        beside, bound = grpc_server(server, f"{host}:{grpc_port}")
        await beside.start()
        say(f"gRPC on {host}:{bound}")
    http.say = lambda bound: say(f"HTTP on http://{host}:{bound}/v2, models: {', '.join(server.models)}")
    try:
        await http.serve()
    finally:
        if beside is not None:
            await beside.stop(server.limits.seconds)


class _Ready(uvicorn.Server):
    """Says when it listens, and is not ready any more as soon as it is to end."""

    say: Callable[[int], None]

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._server = server

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.say(self.servers[0].sockets[0].getsockname()[1])

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._server.ready = False
        super().handle_exit(sig, frame)


def run(
    models: Sequence[Model], limits: Limits, batching: Batching, host: str, port: int, grpc_port: int | None, say: Say
) -> None:
    """What the command does."""
    asyncio.run(serve(Server(models, limits, batching), host, port, grpc_port, say))
