"""A small cluster on this host, with usage statistics turned off."""

from collections.abc import Iterator

import pytest
from ort_lite_ray.testing import cluster

_OF_RAY = (
    "ignore::DeprecationWarning:ray.data.context",  # Ray sets its own deprecated attributes to their defaults
    "ignore:Using extra keyword arguments on `Field`:DeprecationWarning",  # from pydantic, for Ray Serve's classes
    "ignore:The minimum number of concurrent actors:UserWarning",  # advice on speed, for tests with one block for two workers
)


def pytest_configure(config: pytest.Config) -> None:
    """Ignore warnings that Ray causes itself."""
    for line in _OF_RAY:
        config.addinivalue_line("filterwarnings", line)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """Run a cluster for the whole test session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")  # read by the processes that Ray starts
        with cluster():
            yield
