"""SessionOptions and RunOptions."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument
from ort_lite.options import ExecutionMode, GraphOptimizationLevel, RunOptions, SessionOptions
from tests.provider.numpy_provider import CpuStandIn


def test_defaults_are_those_of_onnxruntime() -> None:
    import onnxruntime

    theirs, ours = onnxruntime.SessionOptions(), SessionOptions()
    for name in SessionOptions.__annotations__:
        if name not in ("profile_file_prefix", "creation_timeout"):  # onnxruntime has no deadlines
            value = getattr(theirs, name)
            assert getattr(ours, name) == (
                int(value)
                if name in ("execution_mode", "execution_order")
                else int(value.value)
                if name == "graph_optimization_level"
                else value
            )
    their_run, our_run = onnxruntime.RunOptions(), RunOptions()
    shared = RunOptions.__annotations__.keys() - {"timeout"}  # onnxruntime has no deadlines
    assert {name: getattr(our_run, name) for name in shared} == {name: getattr(their_run, name) for name in shared}


def test_a_timeout_is_a_number_of_seconds() -> None:
    options = RunOptions()
    options.timeout = 2
    assert options.timeout == 2.0
    wrong: Any
    for wrong in (-1, float("nan"), float("inf"), "3", True, None):
        with pytest.raises(InvalidArgument, match=r"timeout: got .*, expected seconds, 0 \(none\) to 1,000,000,000"):
            options.timeout = wrong
    assert options.timeout == 2.0


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("intra_op_num_threads", 4, 4),
        ("intra_op_num_threads", np.int64(4), 4),
        ("intra_op_num_threads", -1, -1),
        ("inter_op_num_threads", 2**31 - 1, 2**31 - 1),
        ("enable_cpu_mem_arena", False, False),
        ("enable_cpu_mem_arena", 0, False),
        ("graph_optimization_level", 1, GraphOptimizationLevel.ORT_ENABLE_BASIC),
        ("graph_optimization_level", GraphOptimizationLevel.ORT_ENABLE_ALL, GraphOptimizationLevel.ORT_ENABLE_ALL),
        ("execution_mode", ExecutionMode.ORT_PARALLEL, ExecutionMode.ORT_PARALLEL),
        ("logid", "me", "me"),
        ("optimized_model_filepath", Path("a.onnx"), "a.onnx"),
    ],
    ids=str,
)
def test_values_of_the_right_kind_are_taken(name: str, value: Any, kept: Any) -> None:
    options = SessionOptions()
    setattr(options, name, value)
    assert getattr(options, name) == kept
    assert type(getattr(options, name)) is type(kept)


@pytest.mark.parametrize("threads", [-1, 1025, 2**31 - 1])
@pytest.mark.parametrize("name", ["intra_op_num_threads", "inter_op_num_threads"])
def test_any_32_bit_number_of_threads_makes_a_session_as_in_onnxruntime(name: str, threads: int) -> None:
    options, seen = SessionOptions(), []
    options.execution_mode = ExecutionMode.ORT_PARALLEL
    setattr(options, name, threads)

    class Asks(CpuStandIn):
        def configure(self, options: SessionOptions) -> None:
            seen.append(getattr(options, name))

    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> main (float[2] x) => (float[2] y) { y = Neg(x) }')
    for provider in (Asks(), "CPUExecutionProvider"):
        with ort_lite.InferenceSession(model, options, providers=[provider]) as session:
            assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [-1, -1]
    assert (getattr(options, name), seen) == (threads, [max(threads, 0)])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("intra_op_num_threads", 2.5, "SessionOptions.intra_op_num_threads: got 2.5, expected int"),
        ("intra_op_num_threads", 2**31, "SessionOptions.intra_op_num_threads: got 2147483648, expected a 32-bit integer"),
        (
            "inter_op_num_threads",
            -(2**31) - 1,
            "SessionOptions.inter_op_num_threads: got -2147483649, expected a 32-bit integer",
        ),
        ("intra_op_num_threads", "2", "SessionOptions.intra_op_num_threads: got '2', expected int"),
        ("enable_profiling", 2, "SessionOptions.enable_profiling: got 2, expected bool"),
        ("graph_optimization_level", 7, "SessionOptions.graph_optimization_level: got 7, expected GraphOptimizationLevel"),
        ("logid", 3, "SessionOptions.logid: got 3, expected str"),
    ],
)
def test_values_of_another_kind_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        setattr(SessionOptions(), name, value)
    assert str(caught.value) == message


def test_an_attribute_that_does_not_exist_is_refused_with_a_suggestion() -> None:
    with pytest.raises(AttributeError, match=r"no option 'intra_op_threads'; did you mean 'intra_op_num_threads'\?"):
        SessionOptions().intra_op_threads = 2
    with pytest.raises(AttributeError, match=r"RunOptions has no option 'terminated'; did you mean 'terminate'\?"):
        RunOptions().terminated = True


def test_config_entries_are_kept() -> None:
    options, run = ort_lite.SessionOptions(), ort_lite.RunOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    run.add_run_config_entry("key", "value")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options.config("session.intra_op.allow_spinning", "1") == "0"
    assert options.config("other", "1") == "1"
    assert options.config_entries == {"session.intra_op.allow_spinning": "0"}
    assert run.get_run_config_entry("key") == "value"


def test_a_config_entry_that_was_not_set_is_an_error() -> None:
    with pytest.raises(
        InvalidArgument, match="SessionOptions does not have configuration with key: a; add_session_config_entry sets one"
    ):
        ort_lite.SessionOptions().get_session_config_entry("a")
    with pytest.raises(InvalidArgument, match="RunOptions does not have configuration with key: a; add_run_config_entry"):
        ort_lite.RunOptions().get_run_config_entry("a")
    with pytest.raises(InvalidArgument, match="the key must not be empty"):
        SessionOptions().add_session_config_entry("", "1")


def test_a_copy_is_independent() -> None:
    options = SessionOptions()
    options.logid = "a"
    options.add_free_dimension_override_by_name("N", 3)
    options.add_initializer("w", np.ones(2))
    copy = options.copy()
    copy.logid = "b"
    copy.add_free_dimension_override_by_name("M", 4)
    copy.add_session_config_entry("key", "value")
    assert options.logid == "a"
    assert options.free_dimensions == ({"N": 3}, {})
    assert options.config_entries == {}
    assert copy.initializers["w"] is options.initializers["w"]


def test_free_dimensions_are_not_negative() -> None:
    with pytest.raises(InvalidArgument, match="free dimension 'N': got -1, expected 0 or more"):
        SessionOptions().add_free_dimension_override_by_name("N", -1)
