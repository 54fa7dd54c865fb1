"""Many requests at once, slow ones, poisoned ones, and a server that ends."""

import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Running, Start

BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}]}


def post(running: "Running", name: str, body: Any = BODY, headers: Any = None, timeout: float = 20) -> tuple[int, Any, Any]:
    """(status, answer, headers)"""
    host, port = running.http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", f"/v2/models/{name}/infer", data, headers or {})
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    return answer.status, json.loads(found) if found[:1] == b"{" else found, answer.headers


def metrics(running: "Running") -> dict[str, float]:
    host, port = running.http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}


def at_once(count: int, call: Any) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


def test_requests_are_joined(start: "Start") -> None:
    running = start("slow", batching={"max_batch": 8, "max_wait": 0.2, "workers": 1})
    bodies = [{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [k, 0, 0]}]} for k in range(8)]
    answers = at_once(8, lambda k: post(running, "slow", bodies[k]))
    assert [answer[1]["outputs"][0]["data"][0] for answer in answers] == [2 * k for k in range(8)]
    found = metrics(running)
    assert found['ort_lite_batch_requests_sum{model="slow"}'] == 8
    assert found['ort_lite_batch_requests_count{model="slow"}'] < 8
    assert found['ort_lite_requests_total{model="slow",status="200"}'] == 8


def test_one_that_fails_fails_alone(start: "Start") -> None:
    running = start("picky", batching={"max_batch": 8, "max_wait": 0.3, "workers": 1})
    bodies = [{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [k, 0, 0]}]} for k in (1, 2, -1, 3)]
    answers = at_once(4, lambda k: post(running, "picky", bodies[k]))
    assert [answer[0] for answer in answers] == [200, 200, 500, 200]
    assert answers[2][1]["error"] == "picky: ArithmeticError: below zero"
    assert [answers[k][1]["outputs"][0]["data"][0] for k in (0, 1, 3)] == [2, 4, 6]


def test_unknown_paths_are_told_in_json(common_server: "Running") -> None:
    host, port = common_server.http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    connection.request("GET", "/v3")
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())) == (404, {"error": "GET /v3: Not Found"})
    connection.close()


def test_each_gets_its_own_rows(start: "Start") -> None:
    running = start("double", batching={"max_batch": 4, "max_wait": 0.2, "workers": 1})
    sizes = [1, 2, 3, 1, 5]
    bodies = [{"inputs": [{"name": "x", "datatype": "FP32", "shape": [n, 3], "data": [n + 0.5] * 3 * n}]} for n in sizes]
    answers = at_once(5, lambda k: post(running, "double", bodies[k]))
    outputs = [answer[1]["outputs"][0] for answer in answers]
    assert [(out["shape"], out["data"]) for out in outputs] == [([n, 3], [2 * n + 1] * 3 * n) for n in sizes]
    found = metrics(running)
    assert found['ort_lite_batch_rows_sum{model="double"}'] == sum(sizes)
    assert (
        found['ort_lite_batch_rows_bucket{le="4.0",model="double"}'] == found['ort_lite_batch_rows_count{model="double"}'] - 1
    )


def test_a_full_queue_is_said_at_once(start: "Start") -> None:
    running = start("slow", limits={"queue": 1}, batching={"max_batch": 1, "workers": 1})
    begin = time.monotonic()
    answers = at_once(6, lambda _: (*post(running, "slow"), time.monotonic() - begin))
    refused = [answer for answer in answers if answer[0] == 503]
    assert refused and {answer[0] for answer in answers} == {200, 503}
    assert all(answer[2]["Retry-After"] == "1" and "wait for slow already" in answer[1]["error"] for answer in refused)
    assert min(answer[3] for answer in refused) < 0.25


def test_a_run_that_takes_too_long_is_ended(start: "Start") -> None:
    running = start("loop", limits={"seconds": 0.5})
    begin = time.monotonic()
    status, answer, _ = post(running, "loop", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}]})
    assert status == 504 and "took longer" in answer["error"]
    assert time.monotonic() - begin < 5


def test_who_waits_too_long_is_told(start: "Start") -> None:
    running = start("slow", limits={"seconds": 0.4}, batching={"max_batch": 1, "workers": 1})
    assert 504 in {answer[0] for answer in at_once(4, lambda _: post(running, "slow"))}


def test_answers_are_not_held_back(common_server: "Running") -> None:
    """An answer's head and body are two packets; the second must not wait 40 ms for the client's word on the first."""
    host, port = common_server.http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    times = []
    for _ in range(40):
        begin = time.monotonic()
        connection.request("POST", "/v2/models/double/infer", json.dumps(BODY))
        connection.getresponse().read()
        times.append(time.monotonic() - begin)
    connection.close()
    assert sorted(times)[20] < 0.03


def test_who_goes_is_not_run(start: "Start") -> None:
    running = start("slow", batching={"max_batch": 1, "workers": 1})
    host, port = running.http.split(":")
    data = json.dumps(BODY).encode()
    head = f"POST /v2/models/slow/infer HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    for _ in range(5):
        with socket.create_connection((host, int(port)), timeout=60) as gone:
            gone.sendall(head + data)
            time.sleep(0.02)
    begin = time.monotonic()
    assert post(running, "slow")[0] == 200
    assert time.monotonic() - begin < 1.2  # five runs would take 1.5 seconds
    assert metrics(running)['ort_lite_batch_requests_sum{model="slow"}'] < 5


def test_a_slow_client_holds_nobody_up(start: "Start") -> None:
    running = start("double", limits={"seconds": 1.0})
    host, port = running.http.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as slow:
        slow.sendall(f"POST /v2/models/double/infer HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\n{{".encode())
        assert at_once(4, lambda _: post(running, "double")[0]) == [200] * 4
        slow.settimeout(5)
        assert b" 408 " in slow.recv(200)


def poison(**change: Any) -> Any:
    return {"inputs": [{**BODY["inputs"][0], **change}]}


POISON: dict[str, tuple[Any, Any, int, str]] = {
    "no JSON": (b"nothing", {}, 400, "no JSON"),
    "deep JSON": (b"[" * 100_000, {}, 400, "no JSON"),
    "no inputs": ({"outputs": []}, {}, 400, "no list 'inputs'"),
    "inputs of another kind": ({"inputs": [1]}, {}, 400, "has no name"),
    "an unknown datatype": (poison(datatype="FP33"), {}, 400, "none of"),
    "a negative dimension": (poison(shape=[-1, 3]), {}, 400, "shape"),
    "a shape that is true": (poison(shape=[True, 3]), {}, 400, "shape"),
    "a huge shape": (poison(shape=[2**40, 2**40]), {}, 400, "this server takes"),
    "too many dimensions": (poison(shape=[1] * 99), {}, 400, "at most 16"),
    "too few elements": (poison(data=[1]), {}, 400, "1 elements came"),
    "elements that are text": (poison(data=["a", "b", "c"]), {}, 400, "elements of type str"),
    "no elements": (poison(data=None), {}, 400, "neither a list 'data' nor"),
    "an element that is null": (poison(data=[1, None, 3]), {}, 400, "elements of type NoneType"),
    "an element beyond its type": (poison(data=[1, 1e300, 3]), {}, 400, "beyond float32"),
    "a datatype that is a list": (poison(datatype=["FP32"]), {}, 400, "none of"),
    "a huge shape of nothing": (poison(shape=[0, 2**70], data=[]), {}, 400, "this server takes"),
    "too many rows": (poison(shape=[5000, 3], data=[0] * 15000), {}, 400, "this server takes 4096"),
    "data nested otherwise": (poison(shape=[3, 1], data=[[1, 2], [3]]), {}, 400, "not nested as"),
    "parameters of another kind": (poison(parameters=[1]), {}, 400, "'parameters' is no object"),
    "a flag that is none": ({**BODY, "outputs": [{"name": "y", "parameters": {"binary_data": 1}}]}, {}, 400, "true or false"),
    "JSON that is no object": (b"[]", {}, 400, "no JSON object"),
    "long JSON": (b" " * 1_500_000, {}, 413, "bytes of JSON"),
    "a length of many digits": (BODY, {"Inference-Header-Content-Length": "9" * 5000}, 400, "expected a number"),
    "bytes that are not there": (poison(parameters={"binary_data_size": 12}), {}, 400, "0 bytes are there"),
    "a length that is too long": (BODY, {"Inference-Header-Content-Length": "9999"}, 400, "expected a number"),
    "a length that is none": (BODY, {"Inference-Header-Content-Length": "-1"}, 400, "expected a number"),
    "twice the same input": ({"inputs": BODY["inputs"] * 2}, {}, 400, "given twice"),
    "a packed body": (BODY, {"Content-Encoding": "gzip"}, 415, "Content-Encoding"),
    "a long body": (b" " * 3_000_000, {}, 413, "this server takes"),
}


@pytest.mark.parametrize("case", POISON)
def test_poison_is_refused_and_others_are_served(case: str, common_server: "Running") -> None:
    body, headers, status, said = POISON[case]
    answers = at_once(3, lambda k: post(common_server, "double", body, headers) if k == 1 else post(common_server, "double"))
    assert answers[1][0] == status and said in answers[1][1]["error"]
    assert [answers[0][0], answers[2][0]] == [200, 200]


def test_texts_that_lie_about_their_length(common_server: "Running") -> None:
    head = json.dumps(
        {"inputs": [{"name": "s", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 6}}]}
    ).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    status, answer, _ = post(common_server, "texts", head + b"\xff\xff\xff\x7fab", headers)
    assert status == 400 and "do not end where its bytes do" in answer["error"]


def test_a_chunked_body_is_measured_as_it_comes(common_server: "Running") -> None:
    host, port = common_server.http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    chunks, headers = (b" " * 100_000 for _ in range(30)), {"Transfer-Encoding": "chunked"}
    connection.request("POST", "/v2/models/double/infer", chunks, headers, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()
    assert metrics(common_server)['ort_lite_requests_total{model="double",status="413"}'] >= 1


def test_what_was_taken_is_answered_before_it_ends(start: "Start") -> None:
    running = start("slow", batching={"max_batch": 1, "workers": 1})
    with ThreadPoolExecutor(3) as pool:
        taken = [pool.submit(post, running, "slow") for _ in range(3)]
        time.sleep(0.15)
        running.end()
        assert [one.result(60)[0] for one in taken] == [200] * 3
    with pytest.raises(OSError, match=r"refused|reset"):
        post(running, "slow")
