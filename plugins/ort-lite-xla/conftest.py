"""The device of the tests: JAX's CPU device, or the kind in the environment variable ORT_LITE_XLA_TEST_DEVICE ("gpu" or "tpu")."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ort_lite_xla import XLAExecutionProvider

from ort_lite.native import store


@pytest.fixture(autouse=True, scope="session")
def default_device() -> Iterator[None]:
    """Providers that no test gives a device are on that one."""
    _, *others = XLAExecutionProvider.__init__.__defaults__ or ()
    with pytest.MonkeyPatch.context() as patch:
        wanted = os.environ.get("ORT_LITE_XLA_TEST_DEVICE", "cpu")
        patch.setattr(XLAExecutionProvider.__init__, "__defaults__", (wanted, *others))
        yield


@pytest.fixture(autouse=True)
def saved_executables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test begins without saved executables; that of earlier tests and of the user would be loaded otherwise."""
    monkeypatch.setattr(store, "directory", lambda: str(tmp_path / "programs"))
    return tmp_path / "programs"
