"""Models of ort-lite over the Open Inference Protocol (KServe v2): HTTP, gRPC, dynamic batching, limits, metrics."""

from ort_lite_serve.http import application
from ort_lite_serve.limits import Batching, Limits, Refused
from ort_lite_serve.model import ServedModel
from ort_lite_serve.server import Server

__all__ = ["Batching", "Limits", "Refused", "ServedModel", "Server", "application"]
