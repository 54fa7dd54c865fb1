"""Triton Inference Server's Python backend: each instance is a process with a session of its own.

The model's file lies beside this one, under the name that config.pbtxt gives. Triton's server brings `triton_python_backend_utils`;
it is no package, so no test of this repository runs this file.
"""

import json
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

import ort_lite


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        config = json.loads(args["model_config"])
        folder = Path(args["model_repository"]) / args["model_version"]
        options = ort_lite.SessionOptions()
        options.intra_op_num_threads = 1
        path = folder / config["parameters"]["model"]["string_value"]
        self._session = ort_lite.InferenceSession(path, options, ["CPUExecutionProvider"])

    def execute(self, requests: list[Any]) -> list[Any]:
        """An answer for each request; Triton has joined their rows already."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        images = pb_utils.get_input_tensor_by_name(request, "images").as_numpy()
        (found,) = self._session.run(["probabilities"], {"images": images})
        return pb_utils.InferenceResponse([pb_utils.Tensor("probabilities", found)])
