"""Every test here gives back what it took."""

import gc
from collections.abc import Iterator

import pytest

from ort_lite.tensors.container import Container


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    before = set(Container.live)
    yield
    if not set(Container.live) <= before:
        gc.collect()  # a failed test's traceback, a cycle: only what is left after this is lost
    assert set(Container.live) <= before
