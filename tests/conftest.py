"""`pytest --target NAME`: all tests as on a machine that can do no more than the target, which must run here."""

import pytest

from ort_lite.native import cpu


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
    cpu._seen = lambda: target
    cpu.host.cache_clear()
    cpu.named.cache_clear()
    cpu.runnable.cache_clear()
