"""The protocol's gRPC service behind Ray Serve's proxy, which passes requests on as bytes.

The proxy and the deploying process know no message types; the replica decodes and encodes messages.
"""

from typing import Any, Never

import grpc
from ort_lite_serve import Server

METHODS = ("ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata", "ModelInfer")


def add_service(servicer: Any, server: Any) -> None:
    """Add the service without message types, which Serve would pickle, unlike `add_GRPCInferenceServiceServicer_to_server`."""
    handlers = {name: grpc.unary_unary_rpc_method_handler(getattr(servicer, name)) for name in METHODS}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("inference.GRPCInferenceService", handlers),))


class Called:
    """The service methods that Serve calls in a replica, with a request's bytes and Serve's context."""

    def __init__(self, server: Server) -> None:
        from open_inference.grpc import protocol
        from ort_lite_serve.grpc import Service

        self._service, self._protocol = Service(server), protocol

    async def ServerLive(self, request: bytes, grpc_context: Any) -> Any:
        """Answer that the server is live."""
        return await self._answer("ServerLive", request, grpc_context)

    async def ServerReady(self, request: bytes, grpc_context: Any) -> Any:
        """Answer whether all models are ready."""
        return await self._answer("ServerReady", request, grpc_context)

    async def ServerMetadata(self, request: bytes, grpc_context: Any) -> Any:
        """Describe the server."""
        return await self._answer("ServerMetadata", request, grpc_context)

    async def ModelReady(self, request: bytes, grpc_context: Any) -> Any:
        """Answer whether a model is ready."""
        return await self._answer("ModelReady", request, grpc_context)

    async def ModelMetadata(self, request: bytes, grpc_context: Any) -> Any:
        """Describe a model."""
        return await self._answer("ModelMetadata", request, grpc_context)

    async def ModelInfer(self, request: bytes, grpc_context: Any) -> Any:
        """Run a model."""
        return await self._answer("ModelInfer", request, grpc_context)

    async def _answer(self, method: str, request: bytes, context: Any) -> Any:
        message = getattr(self._protocol, f"{method}Request").FromString(request)
        return await getattr(self._service, method)(message, _Context(context))


class _Context:
    """A context that aborts as Serve expects: set the code, then raise."""

    def __init__(self, context: Any) -> None:
        self._context = context

    async def abort(self, code: grpc.StatusCode, details: str) -> Never:
        self._context.set_code(code)
        self._context.set_details(details)
        raise RuntimeError(details)
