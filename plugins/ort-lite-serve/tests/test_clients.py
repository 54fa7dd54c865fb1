"""tritonclient, as it is, over HTTP and gRPC."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from grpc import Channel, RpcError, insecure_channel
from ml_dtypes import bfloat16
from tritonclient import grpc, http
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

if TYPE_CHECKING:
    from conftest import Running

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, common_server: "Running") -> Iterator[tuple[Any, Any]]:
    """(module, client)"""
    module = {"http": http, "grpc": grpc}[request.param]
    with module.InferenceServerClient(getattr(common_server, request.param)) as made:
        yield module, made


def channel(common_server: "Running") -> Channel:
    return insecure_channel(common_server.grpc)


def given(module: Any, name: str, array: Any, datatype: str, **more: Any) -> Any:
    made = module.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, **more)
    return made


def test_health(client: tuple[Any, Any]) -> None:
    _, made = client
    assert made.is_server_live() and made.is_server_ready()
    assert made.is_model_ready("double") and made.is_model_ready("double", "1")


def test_metadata(client: tuple[Any, Any]) -> None:
    module, made = client
    named = {"as_json": True} if module is grpc else {}
    assert made.get_server_metadata(**named)["name"] == "ort-lite"
    found = made.get_model_metadata("double", **named)
    (one,) = found["inputs"]
    assert (one["name"], one["datatype"], [int(d) for d in one["shape"]]) == ("x", "FP32", [-1, 3])
    assert found["versions"] == ["1"]


def test_infer(client: tuple[Any, Any]) -> None:
    module, made = client
    answer = made.infer("double", [given(module, "x", X, "FP32")], request_id="7")
    np.testing.assert_array_equal(answer.as_numpy("y"), X + X)
    found = answer.get_response()
    assert (found["id"] if module is http else found.id) == "7"


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize("received", [True, False])
def test_tensors_in_json_and_in_bytes(common_server: "Running", sent: bool, received: bool) -> None:
    with http.InferenceServerClient(common_server.http) as made:
        inputs = [given(http, "x", X, "FP32", binary_data=sent)]
        wanted = [http.InferRequestedOutput("y", binary_data=received)]
        np.testing.assert_array_equal(made.infer("double", inputs, outputs=wanted).as_numpy("y"), X + X)


def test_texts(client: tuple[Any, Any]) -> None:
    module, made = client
    texts = np.array(["one", "", "zwölf"], object)
    found = made.infer("texts", [given(module, "s", texts, "BYTES")]).as_numpy("t")
    assert [text.decode() for text in found] == texts.tolist()


def test_16_bit_floats(client: tuple[Any, Any]) -> None:
    module, made = client
    values = np.array([1.5, -2, 65280], np.float16)
    inputs = [given(module, "a", values, "FP16"), given(module, "b", values.astype(bfloat16), "BF16")]
    answer = made.infer("halves", inputs)
    np.testing.assert_array_equal(answer.as_numpy("c"), values)
    np.testing.assert_array_equal(answer.as_numpy("d").astype(np.float32), values)


def test_several_inputs(client: tuple[Any, Any]) -> None:
    module, made = client
    inputs = [given(module, "a", np.array([1, 2]), "INT64"), given(module, "b", np.array([True, False]), "BOOL")]
    assert made.infer("fixed", inputs).as_numpy("c").tolist() == [1, -2]


WRONG = {
    "another model": ("triple", "x", X, "FP32", "no model 'triple'"),
    "another input": ("double", "z", X, "FP32", "double takes x"),
    "another type": ("double", "x", X.astype(np.float64), "FP64", "float64"),
    "another rank": ("double", "x", X[0], "FP32", "takes float32[-1, 3]"),
    "another size": ("double", "x", X[:, :2].copy(), "FP32", "takes float32[-1, 3]"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told(case: str, client: tuple[Any, Any]) -> None:
    module, made = client
    name, put, array, datatype, said = WRONG[case]
    with pytest.raises(InferenceServerException, match=said.replace("[", r"\[")):
        made.infer(name, [given(module, put, array, datatype)])


def test_an_output_that_is_not_there(client: tuple[Any, Any]) -> None:
    module, made = client
    with pytest.raises(InferenceServerException, match="has no output 'z'"):
        made.infer("double", [given(module, "x", X, "FP32")], outputs=[module.InferRequestedOutput("z")])


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "too few bytes": ({"shape": [2, 3], "raw": bytes(12)}, "12 bytes came"),
    "a huge shape": ({"shape": [2**40, 2**20], "raw": bytes(12)}, "this server takes"),
    "a negative dimension": ({"shape": [-1, 3], "raw": bytes(12)}, "numbers from 0 on"),
    "an unknown datatype": ({"shape": [1, 3], "raw": bytes(12), "datatype": "FP33"}, "none of"),
    "raw tensors without inputs": ({"shape": [1, 3], "raw": bytes(12), "times": 2}, "2 raw_input_contents for 1 inputs"),
    "more than the server takes": ({"shape": [1, 3], "raw": bytes(3_000_000)}, "larger than max"),
}


@pytest.mark.parametrize("case", LIES)
def test_grpc_requests_that_lie(case: str, common_server: "Running") -> None:
    told, said = LIES[case]
    tensor = {"name": "x", "datatype": told.get("datatype", "FP32"), "shape": told["shape"]}
    raw = [told["raw"]] * told.get("times", 1)
    request = service_pb2.ModelInferRequest(model_name="double", inputs=[tensor], raw_input_contents=raw)
    with channel(common_server) as open_channel, pytest.raises(RpcError, match=said):
        service_pb2_grpc.GRPCInferenceServiceStub(open_channel).ModelInfer(request)


def test_grpc_elements_that_are_typed(common_server: "Running") -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 3], "contents": {"fp32_contents": [1, 2, 3]}}
    request = service_pb2.ModelInferRequest(model_name="double", inputs=[tensor])
    with channel(common_server) as open_channel:
        answer = service_pb2_grpc.GRPCInferenceServiceStub(open_channel).ModelInfer(request)
    assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [2, 4, 6]
