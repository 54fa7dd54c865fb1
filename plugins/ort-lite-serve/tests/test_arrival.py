"""Requests that arrive slowly: a byte at a time, for ever. Each ends when the server's time for a request is over."""

import http.client
import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Running

SECONDS = 0.5
"""Of the server `hasty`."""
PAUSE = 0.05
"""Between two bytes: far less than any one read may wait."""


def trickle(address: str, first: bytes, rest: Iterator[bytes], most: float) -> tuple[float, bytes]:
    """Seconds until the server ended the connection, and what it answered."""
    host, port = address.split(":")
    begin, answer = time.monotonic(), b""
    with socket.create_connection((host, int(port)), timeout=PAUSE) as connection, suppress(ConnectionError):
        connection.sendall(first)
        while time.monotonic() - begin < most:
            with suppress(TimeoutError):
                part = connection.recv(1000)
                if not part:
                    break
                answer += part
            connection.sendall(next(rest))
    return time.monotonic() - begin, answer


def same(part: bytes) -> Iterator[bytes]:
    while True:
        yield part


HEAD = b"POST /v2/models/double/infer HTTP/1.1\r\nHost: a\r\n"
SLOW: dict[str, tuple[bytes, bytes]] = {
    "nothing": (b"", b""),
    "empty lines": (b"", b"\r\n"),
    "a line": (b"POST /", b"a"),
    "heads": (HEAD, b"a: b\r\n"),
    "a body": (HEAD + b"Content-Length: 1000\r\n\r\n", b" "),
    "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "a body of what is not there": (b"POST /v3 HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n", b" "),
}


@pytest.mark.parametrize("case", SLOW)
def test_a_request_has_a_time_to_arrive(case: str, hasty: "Running") -> None:
    first, rest = SLOW[case]
    spent, _ = trickle(hasty.http, first, same(rest), 10)
    assert spent < SECONDS + 2.5


def test_a_slow_body_is_told_why(hasty: "Running") -> None:
    _, answer = trickle(hasty.http, SLOW["a body"][0], same(b" "), 10)
    assert b" 408 " in answer and b"did not come within 0.5 s" in answer


def test_the_second_request_of_a_connection_has_its_own_time(hasty: "Running") -> None:
    host, port = hasty.http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    for _ in range(2):
        connection.request("GET", "/v2/health/live")
        assert connection.getresponse().read()
        time.sleep(SECONDS + 1.2)
    connection.close()
    spent, _ = trickle(hasty.http, b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\nGET /", same(b"a"), 10)
    assert spent < SECONDS + 2.5


def test_a_head_is_not_longer_than_a_request_needs(common_server: "Running") -> None:
    spent, answer = trickle(common_server.http, HEAD + b"a: " + b"b" * 500_000, same(b"b"), 5)
    assert spent < 4 and b" 400 " in answer


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name: bytes, value: bytes) -> bytes:
    """A header as HPACK writes one that no table holds."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


FIELDS = b"".join(
    field(*pair)
    for pair in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/inference.GRPCInferenceService/ModelInfer"),
        (b":authority", b"a"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
)
OPEN = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
MESSAGE = frame(0, 0, 1, b"\0" + struct.pack(">I", 100_000))
"""The head of a message of 100,000 bytes."""


def test_a_grpc_message_has_a_time_to_arrive(hasty: "Running") -> None:
    host, port = hasty.grpc.split(":")
    begin = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=PAUSE) as connection:
        connection.sendall(OPEN + frame(1, 4, 1, FIELDS) + MESSAGE)
        ended = False
        while not ended and time.monotonic() - begin < 10:
            with suppress(TimeoutError):
                ended = any(kind == 3 or (kind == 1 and flags & 1) for kind, flags in frames(connection.recv(4000)))
            connection.sendall(frame(0, 0, 1, b"a"))
    assert ended and time.monotonic() - begin < SECONDS + 2.5


def frames(data: bytes) -> Iterator[tuple[int, int]]:
    """Kinds and flags of the frames in a packet."""
    while len(data) >= 9:
        length = int.from_bytes(data[:3], "big")
        yield data[3], data[4]
        data = data[9 + length :]


def test_grpc_requests_are_answered_as_before(hasty: "Running") -> None:
    host, port = hasty.http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}]}
    connection.request("POST", "/v2/models/double/infer", json.dumps(body))
    assert json.loads(connection.getresponse().read())["outputs"][0]["data"] == [2, 4, 6]
    connection.close()
