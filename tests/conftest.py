"""`pytest --target NAME`: all tests as on a machine that can do no more than the target, which must run here.

And what makes a run of all of them short: the order of files, and what collections of garbage leave out.
"""

import faulthandler
import gc
import time
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from ort_lite.native import cpu
from tests.case_server import Outcome, serving

collect_ignore = ["browser"]
"""Its tests need a Chromium, which no wheel brings: `make test-browser` runs them."""

settings.register_profile("ort-lite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ort-lite")
"""How long an example takes says nothing: the first ones compile kernels, and other programs use the machine as well."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """Asks a server of cases that might end their process."""
    with serving(tmp_path_factory.mktemp("cases")) as ask:
        yield ask


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--target", choices=cpu.NAMES, default="host", help="what the CPU provider compiles for by default")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module asks what the host is."""
    name = config.getoption("--target")
    if name == "host":
        return
    try:
        target = cpu.runnable(name)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    cpu._detect = lambda: target
    cpu.host.cache_clear()
    cpu.parse_target.cache_clear()
    cpu.runnable.cache_clear()


def pytest_unconfigure() -> None:
    """Threads that a failed test left would be waited for without a limit."""
    faulthandler.dump_traceback_later(60, exit=True, file=2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Thousands of collected cases stay for the whole run: no garbage collection of a test looks at them."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        leave_out_what_is_there()


def leave_out_what_is_there() -> None:
    gc.collect()
    gc.freeze()


LEFT_OUT = pytest.StashKey[float]()
"""When it was done last."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Nor at what earlier cases left, from time to time: some cases collect after every few runs."""
    now = time.monotonic()
    if now > item.config.stash.get(LEFT_OUT, 0.0) + 0.5:
        leave_out_what_is_there()
        item.config.stash[LEFT_OUT] = now


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: several workers, which take a file each, then end together."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
