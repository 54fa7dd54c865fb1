"""The protocol over gRPC, with its published messages. Spec: KServe "Open Inference Protocol (V2)", gRPC."""

from collections.abc import Mapping
from math import prod
from typing import Any

import grpc
from open_inference.grpc import protocol as pb
from open_inference.grpc.service import GRPCInferenceServiceServicer, add_GRPCInferenceServiceServicer_to_server

from ort_lite.dtypes import Array
from ort_lite_serve.arrival import TimedCalls
from ort_lite_serve.limits import Limits, Refused
from ort_lite_serve.model import ServedModel
from ort_lite_serve.server import Server
from ort_lite_serve.tensors import datatype_of, dtype_of, from_bytes, from_list, shape_of, text_of, to_bytes

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_FIELDS = {
    "bool": "bool_contents",
    "int8": "int_contents",
    "int16": "int_contents",
    "int32": "int_contents",
    "int64": "int64_contents",
    "uint8": "uint_contents",
    "uint16": "uint_contents",
    "uint32": "uint_contents",
    "uint64": "uint64_contents",
    "float32": "fp32_contents",
    "float64": "fp64_contents",
    "string": "bytes_contents",
}
"""The field with a tensor's elements if they are not raw."""


def grpc_server(server: Server, address: str) -> tuple[grpc.aio.Server, int]:
    """Create a gRPC server, not yet started. Returns it with its port. Raises RuntimeError if the address is in use."""
    most, seconds = server.limits.request_bytes, server.limits.seconds
    options = [
        ("grpc.max_receive_message_length", most),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", int(seconds * 1000)),
        ("grpc.max_connection_idle_ms", int(seconds * 2000)),  # also for connections whose calls never begin
    ]
    arrival = [TimedCalls(seconds)]
    made = grpc.aio.server(options=options, maximum_concurrent_rpcs=server.limits.connections, interceptors=arrival)
    add_GRPCInferenceServiceServicer_to_server(Service(server), made)
    return made, made.add_insecure_port(address)


class Service(GRPCInferenceServiceServicer):
    """The gRPC service of a server. Its contexts need only `abort`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def ServerLive(self, request: Any, context: Any) -> Any:
        """Answer that the server is live."""
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(self, request: Any, context: Any) -> Any:
        """Answer whether all models are ready."""
        return pb.ServerReadyResponse(ready=self._server.ready)

    async def ModelReady(self, request: Any, context: Any) -> Any:
        """Answer whether a model is ready."""
        await self._call(context, self._server.model, request.name, request.version)
        return pb.ModelReadyResponse(ready=self._server.ready)

    async def ServerMetadata(self, request: Any, context: Any) -> Any:
        """Describe the server."""
        return pb.ServerMetadataResponse(**self._server.metadata())

    async def ModelMetadata(self, request: Any, context: Any) -> Any:
        """Describe a model."""
        model = await self._call(context, self._server.model, request.name, request.version)
        return pb.ModelMetadataResponse(**model.metadata())

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        """Run a model."""
        try:
            with self._server.handle_request(request.model_name, request.model_version) as model:
                inputs = decode(request, self._server.limits)
                results = await self._server.infer(model, inputs, [output.name for output in request.outputs])
                return encode(model, request.id, results)
        except Refused as error:
            await context.abort(_CODES.get(error.status, grpc.StatusCode.UNKNOWN), str(error))

    async def _call(self, context: Any, call: Any, *given: Any) -> Any:
        try:
            return call(*given)
        except Refused as error:
            await context.abort(_CODES.get(error.status, grpc.StatusCode.UNKNOWN), str(error))


def decode(request: Any, limits: Limits) -> dict[str, Array]:
    """Decode the inputs of a request. Raises Refused if they are invalid."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise Refused(400, f"{len(raw)} raw_input_contents for {len(request.inputs)} inputs")
    found: dict[str, Array] = {}
    for place, one in enumerate(request.inputs):
        if one.name in found:
            raise Refused(400, f"input {one.name!r} is given twice")
        dtype = dtype_of(one.name, one.datatype)
        shape = shape_of(one.name, [*one.shape], limits.texts if dtype == "string" else limits.elements)
        found[one.name] = from_bytes(one.name, raw[place], dtype, shape) if raw else _contents(one, dtype, shape)
    return found


def _contents(one: Any, dtype: str, shape: tuple[int, ...]) -> Array:
    if dtype not in _FIELDS:
        raise Refused(400, f"input {one.name!r}: {one.datatype} comes in raw_input_contents alone")
    field = getattr(one.contents, _FIELDS[dtype])
    if len(field) != prod(shape):  # checked before each element becomes an object
        raise Refused(400, f"input {one.name!r}: {len(field)} elements came for the shape {[*shape]}, expected {prod(shape)}")
    given = [*field]
    if dtype == "string":
        given = [text_of(one.name, text) for text in given]
    return from_list(one.name, given, dtype, shape)


def encode(model: ServedModel, id: str, results: Mapping[str, Array]) -> Any:
    """Encode results as the protocol's response."""
    outputs = [
        pb.ModelInferResponse.InferOutputTensor(name=name, datatype=datatype_of(array), shape=array.shape)
        for name, array in results.items()
    ]
    raw = [to_bytes(array) for array in results.values()]
    return pb.ModelInferResponse(
        model_name=model.name, model_version=model.version, id=id, outputs=outputs, raw_output_contents=raw
    )
