"""The device of the tests: JAX's CPU device, or that in the environment variable ORT_LITE_XLA_TEST_DEVICE ("gpu", "gpu:1", ...)."""

import os
from collections.abc import Iterator

import pytest
from ort_lite_xla import XLAExecutionProvider


@pytest.fixture(autouse=True, scope="session")
def default_device() -> Iterator[None]:
    """Providers that no test gives a device are on that one."""
    _, *others = XLAExecutionProvider.__init__.__defaults__ or ()
    with pytest.MonkeyPatch.context() as patch:
        wanted = os.environ.get("ORT_LITE_XLA_TEST_DEVICE", "cpu")
        patch.setattr(XLAExecutionProvider.__init__, "__defaults__", (wanted, *others))
        yield
