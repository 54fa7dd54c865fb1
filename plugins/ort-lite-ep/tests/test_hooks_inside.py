"""Hooks, run options and profiles of providers inside onnxruntime."""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime
import pytest
from ort_lite_ep.profiling import Profiles

from ort_lite.provider import run_options
from tests.devices_inside_onnxruntime import (
    CARD,
    CHAIN,
    EXPECTED,
    VaultExecutionProvider,
    X,
    devices,
    model,
    options,
    register_both,
)
from tests.inside_onnxruntime import RELEASE


@pytest.fixture(scope="module", autouse=True)
def register() -> None:
    register_both()


def test_hooks_get_the_options_of_the_run() -> None:
    VaultExecutionProvider.synced.clear()
    text = "(float[N] x) => (float[N] y) { y = Neg(x) }"
    session = onnxruntime.InferenceSession(model(text), options(devices(VaultExecutionProvider.name)[0]))
    run = onnxruntime.RunOptions()
    run.logid = "first"
    run.add_run_config_entry("vault.level", "3")
    session.run(None, {"x": X[0]}, run)
    created = ["created"] if RELEASE >= (1, 27) else []
    assert VaultExecutionProvider.synced == [*created, "run first 3", "in run first 3", "sync"]
    assert run_options() is None


@pytest.mark.parametrize("profiled", [False, True])
def test_kernels_are_on_the_profile(profiled: bool, tmp_path: Path) -> None:
    chosen = options()
    chosen.enable_profiling, chosen.profile_file_prefix = profiled, str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(model(CHAIN), chosen)
    session.run(None, {"x": X})
    if profiled:
        events = json.loads(Path(session.end_profiling()).read_text())
        kernels = [event for event in events if event.get("cat") == "Kernel"]
        assert [event["args"]["kernel"] for event in kernels] == (["Relu", "Add", "Mul", "Relu"] if RELEASE >= (1, 25) else [])
        nodes = [event for event in events if event.get("cat") == "Node"]
        first = next(event for event in nodes if event["name"].startswith(CARD))
        apart = 1000  # microseconds: onnxruntime has a clock of its own
        assert all(-apart <= event["ts"] - first["ts"] <= first["dur"] + apart for event in kernels[:2])
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], EXPECTED)


class EventApi:
    """Notes the names of the events that would be added to a profile."""

    def __init__(self) -> None:
        self.names = list[str]()

    def call(self, function: str, *arguments: Any) -> None:
        if function == "CreateProfilingEvent":
            self.names.append(arguments[3].decode())

    def other(self, function: str, *arguments: Any) -> None:
        assert function == "ReleaseProfilingEvent"


def test_profiles_of_runs_overlap_with_that_of_their_session() -> None:
    profiles, apis = Profiles(VaultExecutionProvider()), [EventApi(), EventApi()]
    profiles.start(1, 0)
    profiles.record([("first", 0, 1, {}, "", 0)])
    profiles.start(2, 0)
    profiles.record([("second", 0, 1, {}, "", 0)])
    for profiler in (2, 1):
        assert profiles
        profiles.end(cast(Any, apis[profiler - 1]), profiler, 0)
    assert not profiles
    assert [api.names for api in apis] == [["first", "second"], ["second"]]
