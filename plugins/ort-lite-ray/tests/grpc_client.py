"""grpc_client.py PORT: asks the application "digits" about the images on the standard input, and tells what it heard as JSON."""

import json
import sys

import numpy as np
from tritonclient import grpc
from tritonclient.utils import InferenceServerException

HEADERS = {"application": "digits"}


def main() -> None:
    images = np.array(json.load(sys.stdin), np.uint8)
    with grpc.InferenceServerClient(f"127.0.0.1:{sys.argv[1]}") as client:
        ready = [
            client.is_server_live(HEADERS),
            client.is_server_ready(HEADERS),
            client.is_model_ready("digits_cnn", headers=HEADERS),
        ]
        told = client.get_model_metadata("digits_cnn", headers=HEADERS, as_json=True)
        answer = client.infer("digits_cnn", [given(images, "UINT8")], headers=HEADERS).as_numpy("probabilities")
        errors = []
        for name, one in (("none", given(images, "UINT8")), ("digits_cnn", given(images.astype(np.float32), "FP32"))):
            try:
                client.infer(name, [one], headers=HEADERS)
            except InferenceServerException as error:
                errors.append((error.status(), error.message()))
    json.dump({"ready": ready, "inputs": told["inputs"], "probabilities": answer.tolist(), "errors": errors}, sys.stdout)


def given(array: np.ndarray, datatype: str) -> grpc.InferInput:
    made = grpc.InferInput("images", list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


if __name__ == "__main__":
    main()
