"""A cluster of two processors on this host, which tells nobody outside that it was used."""

from collections.abc import Iterator

import pytest
from ort_lite_ray.testing import cluster


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")  # read by the processes that Ray starts
        with cluster():
            yield
