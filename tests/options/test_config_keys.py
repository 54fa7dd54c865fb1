"""Config entries of sessions and runs: known ones are taken, others are errors with a suggestion."""

import re
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument
from ort_lite.options import config_keys
from tests.provider.numpy_provider import CpuStandIn

X = np.array([1, -2, 3], np.float32)
MODEL = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> main (float[3] x) => (float[3] y) { y = Abs(x) }')


class Configurable(CpuStandIn):
    config_keys = ("mine.speed",)


def session(key: str) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry(key, "1")
    return ort_lite.InferenceSession(MODEL, options, providers=[Configurable()])


@pytest.mark.parametrize(
    "key",
    [
        "session.intra_op.allow_spinning",
        "session.layer_assignment_settings",
        "session.use_env_allocators",
        "ep.cuda.any",
        "mine.speed",
    ],
)
def test_known_keys_are_taken_whether_they_have_an_effect_or_not(key: str) -> None:
    np.testing.assert_array_equal(session(key).run(None, {"x": X})[0], np.abs(X))


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("session.disable_cpu_fallback", "session.disable_cpu_ep_fallback"),
        ("session.intra_op.allow_spining", "session.intra_op.allow_spinning"),
        ("mine.sped", "mine.speed"),
    ],
)
def test_an_unknown_key_is_an_error_with_a_suggestion(key: str, near: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"no session config entry is called '{key}'; did you mean '{near}'\?"):
        session(key)


def test_a_key_that_is_near_nothing_has_no_suggestion() -> None:
    with pytest.raises(InvalidArgument, match=r"no session config entry is called 'xyzzy'$"):
        session("xyzzy")


def test_entries_of_a_run_are_checked_too() -> None:
    made = session("mine.speed")
    options = ort_lite.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    options.add_run_config_entry("mine.speed", "2")
    made.run(None, {"x": X}, options)
    options.add_run_config_entry("memory.enable_memory_arena_shrink", "cpu:0")
    with pytest.raises(InvalidArgument, match=r"no run config entry .* did you mean 'memory\.enable_memory_arena_shrinkage'"):
        made.run(None, {"x": X}, options)


def test_the_list_holds_what_onnxruntime_reads_and_documents() -> None:
    keys = config_keys.session_keys()
    assert {"session.disable_cpu_ep_fallback", "mlas.disable_kleidiai", "optimization.enable_gelu_approximation"} <= keys
    assert {"session.moe.offload.mode", "ep.share_ep_contexts"} <= keys
    assert all(
        key.count(" ") == 0 and key.partition(".")[0] in ("ep", "mlas", "optimization", "ort_lite", "session") for key in keys
    )
    assert {"gpu_graph_id", "memory.enable_memory_arena_shrinkage", "qnn.lora_config"} <= config_keys.run_keys()
    assert not keys & config_keys.run_keys()


def test_every_line_of_the_table_is_a_key_with_its_first_release() -> None:
    comment, *lines = Path(config_keys._TABLE).read_text(encoding="utf-8").splitlines()
    assert comment.startswith("# ") and lines == sorted(set(lines))
    assert [line for line in lines if not re.fullmatch(r"(session|run) [a-z_0-9.]+[a-z_0-9] 1\.(2[4-9]|3[0-2])", line)] == []


def test_a_program_may_set_all_keys_that_are_new_in_1_32(caplog: pytest.LogCaptureFixture) -> None:
    new = [
        line.split()[1] for line in Path(config_keys._TABLE).read_text(encoding="utf-8").splitlines() if line.endswith(" 1.32")
    ]
    assert len([key for key in new if not key.startswith("ep.cuda.")]) >= 32
    options = ort_lite.SessionOptions()
    for key in new:
        options.add_session_config_entry(key, "1")
    made = ort_lite.InferenceSession(MODEL, options, providers=[Configurable()])
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], np.abs(X))
    assert caplog.messages == [f"session config entries {', '.join(sorted(new))} have no effect here"]


# What has no effect


def test_entries_without_an_effect_are_noted_once_a_session(caplog: pytest.LogCaptureFixture) -> None:
    options = ort_lite.SessionOptions()
    for key in ("session.layer_assignment_settings", "session.use_env_allocators", "mine.speed", "mlas.disable_kleidiai"):
        options.add_session_config_entry(key, "1")
    made = ort_lite.InferenceSession(MODEL, options, providers=[Configurable()])
    expected = "session config entries mlas.disable_kleidiai, session.layer_assignment_settings have no effect here"
    assert caplog.messages == [expected]
    run = ort_lite.RunOptions()
    for key in ("mine.speed", "gpu_graph_id", "disable_synchronize_execution_providers"):
        run.add_run_config_entry(key, "1")
    for _ in range(2):
        made.run(None, {"x": X}, run)
        made.run(None, {"x": X}, run, verify="partition")
    assert caplog.messages == [expected, "run config entry gpu_graph_id has no effect here"]


def test_those_that_act_are_not_noted(caplog: pytest.LogCaptureFixture) -> None:
    session("session.disable_model_compile")
    assert caplog.messages == []
    assert config_keys.session_keys() >= config_keys.ACTING
    assert config_keys.run_keys() >= config_keys.ACTING_IN_RUNS


def test_every_key_that_is_read_is_listed() -> None:
    """A constant of the module that is a key acts, or nobody would have named it."""
    constants = {name: value for name, value in vars(config_keys).items() if name.isupper() and not name.startswith("_")}
    named = {value for value in constants.values() if isinstance(value, str)}
    assert len(named) > 10
    assert named <= config_keys.ACTING | config_keys.ACTING_IN_RUNS
