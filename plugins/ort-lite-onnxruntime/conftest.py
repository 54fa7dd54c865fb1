"""Leave out the tests of OpenVINO's execution provider where its library lists no device: 1.8.1 knows the CPUs of Intel alone."""

from functools import cache

from ort_lite.errors import NoDevice, OrtLiteError
from ort_lite.plugins import plugins

HOSTED = "tests/test_hosted_openvino.py"


@cache
def missing_device() -> str:
    """Return why the provider has no device on this machine, or "". Any other error is one of the tests."""
    try:
        plugins.provider("OpenVINOExecutionProvider@onnxruntime")()
    except NoDevice as error:
        return str(error)
    except OrtLiteError:
        return ""
    return ""


collect_ignore = [HOSTED] if missing_device() else []


def pytest_report_header() -> str:
    """Say what is left out."""
    return f"{HOSTED} is left out: {missing_device()}" if missing_device() else ""
