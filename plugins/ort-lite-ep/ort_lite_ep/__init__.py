"""ort-lite's execution providers as execution providers of onnxruntime.

    import onnxruntime, ort_lite_ep

    onnxruntime.register_execution_provider_library("MyExecutionProvider", ort_lite_ep.get_library_path())

The name is the one under which the provider is registered in ort-lite. Sessions then take it by
`providers=["MyExecutionProvider"]`, or by `SessionOptions.add_provider_for_devices`.
"""

from ort_lite_ep.library import library
from ort_lite_ep.provider import registered_names
from ort_lite_ep.reports import GraphReport, NodeReport
from ort_lite_ep.shim import PATH

__all__ = ["GraphReport", "NodeReport", "get_ep_names", "get_library_path", "reports"]


def get_library_path() -> str:
    """Return the path of the library for `onnxruntime.register_execution_provider_library`.

    One library serves all providers of ort-lite, registered once for each name. The path is good in the process that calls
    this: the providers run in its Python interpreter.
    """
    library()
    return PATH


def get_ep_names() -> list[str]:
    """Return the names under which the library can be registered."""
    return registered_names()


def reports(provider: str | None = None) -> list[GraphReport]:
    """Return what providers said about the nodes of the last 64 sessions, the newest last; of one provider if it is named."""
    return library().reports.find(provider)
