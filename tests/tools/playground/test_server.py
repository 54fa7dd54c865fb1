"""Who may ask the server of a playground for what: its token, its host, its methods, sizes, and the models that it was given."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from ort_lite.tools.playground.server import LARGEST, PlaygroundServer
from tests.tools.playground.served import ENDLESS, asked, over, served, write

CPU = ["CPUExecutionProvider"]
WISH = {"model": "chain.onnx", "providers": CPU}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlaygroundServer]:
    outside = tmp_path_factory.mktemp("outside")
    folder = tmp_path_factory.mktemp("models")
    write(folder / "chain.onnx")
    write(folder / "endless.onnx", ENDLESS)
    (folder / "nested").mkdir()
    write(folder / "nested" / "chain.onnx")
    (folder / "broken.onnx").write_bytes(b"no model")
    (folder / "notes.txt").write_text("no model", encoding="utf-8")
    (folder / "leads-outside.onnx").symlink_to(write(outside / "secret.onnx"))
    with served(folder) as made:
        yield made


@pytest.mark.parametrize(
    "begin",
    [
        "",
        "GET /",
        "POST /{token}/job HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n",
        "POST /{token}/job HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
    ],
)
def test_a_request_that_trickles_in_ends(server: PlaygroundServer, begin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte comes before any one read has waited for long."""
    monkeypatch.setattr("ort_lite.tools.playground.server.PATIENCE", 0.3)
    start = monotonic()
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=0.05) as connection, suppress(ConnectionError):
        connection.sendall(begin.format(token=server.token, port=server.server_port).encode())
        while monotonic() - start < 10:
            with suppress(TimeoutError):
                if not connection.recv(100):
                    break
            connection.sendall(b"a")
    assert monotonic() - start < 3


def test_it_listens_on_this_machine_alone(server: PlaygroundServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/{server.token}/"


def test_tokens_are_long_and_of_one_server(server: PlaygroundServer, tmp_path: Path) -> None:
    with served(write(tmp_path / "chain.onnx")) as other:
        assert len(server.token) >= 32
        assert server.token != other.token
        assert asked(other, "GET", "about", token=server.token)[0] == 403


@pytest.mark.parametrize("token", ["x", "x" * 32, "%C3%A9", ".."])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_without_its_token_nothing_is_told(server: PlaygroundServer, method: str, token: str) -> None:
    status, answer = asked(server, method, "job", token=token)
    assert (status, list(answer)) == (403, ["error"])


@pytest.mark.parametrize("path", ["/", "//", "/\u00e9/about", "*", "http://127.0.0.1/about"])
def test_an_address_without_a_token_shows_no_page(server: PlaygroundServer, path: str) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "evil.example:{port}", "127.0.0.1.evil.example:{port}", ""])
def test_other_names_of_this_machine_are_refused(server: PlaygroundServer, host: str) -> None:
    """A page of evil.example may have its name lead here: its requests come with the name."""
    status, answer = asked(server, "GET", "about", headers={"Host": host.format(port=server.server_port)})
    assert (status, list(answer)) == (421, ["error"])


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:1", ""])
def test_pages_of_others_are_refused(server: PlaygroundServer, origin: str) -> None:
    assert asked(server, "GET", "about", headers={"Origin": origin})[0] == 403


def test_its_own_page_may_ask(server: PlaygroundServer) -> None:
    for host in ("127.0.0.1", "localhost"):
        name = f"{host}:{server.server_port}"
        assert asked(server, "GET", "about", headers={"Host": name, "Origin": f"http://{name}"})[0] == 200
    assert asked(server, "GET", "") == (200, b"the page")


@pytest.mark.parametrize(
    ("method", "route", "status"),
    [("GET", "nothing", 404), ("GET", "../about", 404), ("POST", "", 404), ("DELETE", "about", 404), ("PUT", "job", 501)],
)
def test_other_addresses_and_methods_are_refused(server: PlaygroundServer, method: str, route: str, status: int) -> None:
    assert asked(server, method, route)[0] == status


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {"Content-Length": str(LARGEST + 1)}, 413),
        (b"{}", {"Content-Length": "9" * 30}, 413),
        (b"{}", {"Content-Length": "-1"}, 411),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (b"[" * 100_000, {}, 400),
    ],
)
def test_bodies_that_do_not_fit_are_refused(
    server: PlaygroundServer, body: bytes, headers: dict[str, str], status: int
) -> None:
    found, answer = asked(server, "POST", "job", body, headers)
    assert (found, list(answer)) == (status, ["error"])


def test_models_are_those_of_the_folder(server: PlaygroundServer) -> None:
    _, about = asked(server, "GET", "about")
    assert [model["name"] for model in about["models"]] == ["broken.onnx", "chain.onnx", "endless.onnx", "nested/chain.onnx"]


@pytest.mark.parametrize(
    "name", ["../outside0/secret.onnx", "/etc/passwd", "leads-outside.onnx", "notes.txt", "", None, ["chain.onnx"]]
)
def test_what_is_outside_of_the_folder_is_no_model(server: PlaygroundServer, name: Any) -> None:
    status, answer = asked(server, "POST", "job", WISH | {"model": name})
    assert status == 400
    assert "is none of those here" in answer["error"]


def test_a_model_is_shown_as_view_shows_it(server: PlaygroundServer) -> None:
    assert asked(server, "POST", "job", WISH)[0] == 202
    assert over(server)["state"] == "done"
    _, result = asked(server, "GET", "job/result")
    assert {place["provider"] for place in result["document"]["placements"].values()} == {"CPUExecutionProvider"}
    assert [each["name"] for each in result["inputs"]] == ["x"]
    assert result["outputs"] is None


def test_a_run_tells_its_outputs(server: PlaygroundServer) -> None:
    asked(server, "POST", "job", WISH | {"run": True, "shapes": ["x=3"], "values": ["x=0"]})
    assert over(server)["state"] == "done"
    (row,) = asked(server, "GET", "job/result")[1]["outputs"]["rows"]
    assert (row["output"], row["shape"], row["mean"]) == ("y", "[3]", "1")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "broken.onnx"}, "broken.onnx"),
        ({"run": True, "shapes": ["x=a"]}, "x=a"),
        ({"config": ["no entry"]}, "expected NAME=VALUE"),
    ],
)
def test_what_goes_wrong_is_a_sentence(server: PlaygroundServer, change: dict[str, Any], said: str) -> None:
    asked(server, "POST", "job", WISH | change)
    job = over(server)
    assert job["state"] == "failed"
    assert said in job["said"]
    assert asked(server, "GET", "job/result")[0] == 404


def test_one_thing_is_done_at_a_time_and_can_be_ended(server: PlaygroundServer) -> None:
    endless = WISH | {"model": "endless.onnx", "run": True}
    assert asked(server, "POST", "job", endless)[0] == 202
    status, answer = asked(server, "POST", "job", WISH)
    assert (status, list(answer)) == (409, ["error"])
    asked(server, "DELETE", "job")
    assert over(server)["state"] == "ended"
    assert asked(server, "POST", "job", WISH)[0] == 202
    assert over(server)["state"] == "done"


def test_a_run_without_end_is_ended_after_its_timeout(server: PlaygroundServer) -> None:
    asked(server, "POST", "job", WISH | {"model": "endless.onnx", "run": True, "timeout": 0.2})
    job = over(server)
    assert (job["state"], job["said"].split(":")[0]) == ("failed", "DeadlineExceeded")
