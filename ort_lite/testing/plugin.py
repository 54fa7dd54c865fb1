"""A pytest plugin: one test for each check of the kit.

    pytest -p ort_lite.testing.plugin --provider my_package:MyExecutionProvider [--provider-options '{"device_id": 0}']
        [--operators Add,MatMul] [--rtol 1e-2] [--atol 1e-2] [--shapes 128] [--score score.json]
        [--provider-in onnxruntime]

Other tests are collected as always; with `--provider` alone and no path, only the checks run.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ort_lite.testing.hosts import find_host
from ort_lite.testing.kit import SHAPES, Finding, Kit
from ort_lite.testing.report import CHECKS, load_class, report_of, run


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options of the plugin."""
    group = parser.getgroup("ort-lite", "conformance of an execution provider")
    group.addoption("--provider", metavar="MODULE:CLASS", help="the execution provider to check")
    group.addoption("--provider-options", metavar="JSON", default="{}", help="its options, an object")
    group.addoption(
        "--provider-in", metavar="HOST", default="", help="the runtime of the sessions: onnxruntime, with ort-lite-ep"
    )
    group.addoption("--operators", metavar="A,B", default="", help="only node tests of these operators")
    group.addoption("--rtol", metavar="X", type=float, default=0.0, help="relative difference allowed beyond a node test's own")
    group.addoption("--atol", metavar="X", type=float, default=0.0, help="absolute difference allowed beyond a node test's own")
    group.addoption("--shapes", metavar="N", type=int, default=SHAPES, help="number of shapes that the check caches runs")
    group.addoption("--score", metavar="FILE.json", help="where to write the report")


class Checks(pytest.Collector):
    """The checks as tests, after all other tests."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield one test for each check of the kit."""
        for name in CHECKS:
            yield CheckItem.from_parent(self, name=name)


class CheckItem(pytest.Item):
    """A test that runs one check on the provider and fails if there are findings."""

    def runtest(self) -> None:
        """Run the check and record its findings for the report. A check without a place in the host is skipped."""
        kit = kit_of(self.config)
        if self.name in kit.host.absent:
            pytest.skip(f"not in {kit.host.label}: {kit.host.absent[self.name]}")
        found = run(CHECKS[self.name], kit)
        findings_of(self.config)[self.name] = tuple(found)
        if found:
            pytest.fail("\n".join(map(str, found)), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return this file, and the provider and the check as the name of the test."""
        return Path(__file__), None, f"{self.config.getoption('provider')}: {self.name}"


_KIT, _FINDINGS = pytest.StashKey[Kit](), pytest.StashKey[dict[str, tuple[Finding, ...]]]()


def kit_of(config: pytest.Config) -> Kit:
    """Return the kit of the test session, created from its options on the first call."""
    if _KIT not in config.stash:
        cls = load_class(config.getoption("provider"))
        options: dict[str, Any] = json.loads(config.getoption("provider_options"))
        operators = config.getoption("operators")
        rtol, atol, host = config.getoption("rtol"), config.getoption("atol"), find_host(config.getoption("provider_in"))
        chosen = operators.split(",") if operators else None
        config.stash[_KIT] = Kit(
            partial(cls, **options), chosen, rtol=rtol, atol=atol, host=host, shapes=config.getoption("shapes")
        )
    return config.stash[_KIT]


def findings_of(config: pytest.Config) -> dict[str, tuple[Finding, ...]]:
    """Return the findings of the test session so far, by check."""
    return config.stash.setdefault(_FINDINGS, {})


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Append the checks to the tests, or run only the checks if no test was named."""
    if config.getoption("provider"):
        given = [] if not config.args or config.args_source.name != "ARGS" else list(items)
        collector = Checks.from_parent(session, name="ort-lite")
        items[:] = [*given, *collector.collect()]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the report if `--score` names a file."""
    path = session.config.getoption("score")
    if path and session.config.getoption("provider"):
        kit = kit_of(session.config)
        report = report_of(kit, findings_of(session.config), kit.host.absent, speed=True)
        Path(path).write_text(report.to_json())
