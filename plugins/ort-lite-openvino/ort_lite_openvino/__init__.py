"""OpenVINO as an execution provider: a partition becomes an OpenVINO compiled model."""

from ort_lite_openvino.provider import OpenVINOExecutionProvider

__all__ = ["OpenVINOExecutionProvider"]
