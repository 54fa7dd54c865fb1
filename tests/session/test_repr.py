"""`repr` of sessions, options, values, explanations and reports: one line with the facts that a person wants."""

import numpy as np
import pytest

import ort_lite
from ort_lite.compat.datasets import get_example
from ort_lite.session.metadata import NodeArg, summarize
from ort_lite.tools.verify.verification_report import PartitionReport, VerificationReport


def test_a_session_shows_its_model_inputs_outputs_and_providers() -> None:
    session = ort_lite.InferenceSession(get_example("mul_1.onnx"), providers=["CPUExecutionProvider"])
    facts = "'mul_1.onnx'; inputs: X tensor(float)[3, 2]; outputs: Y tensor(float)[3, 2]; providers: CPUExecutionProvider"
    assert repr(session) == f"InferenceSession({facts})"
    session.close()
    assert repr(session) == f"InferenceSession({facts}; closed)"


def test_a_summary_of_many_inputs_lists_the_first_ones() -> None:
    args = [NodeArg(f"x{k}", "tensor(int64)", ["N", None]) for k in range(6)]
    assert summarize(args[:1]) == "x0 tensor(int64)[N, ?]"
    assert summarize(args).endswith("x3 tensor(int64)[N, ?], 2 more")
    assert summarize([NodeArg("s", "seq(tensor(float))", [])]) == "s seq(tensor(float))"
    assert summarize([]) == "none"


def test_options_show_what_differs_from_the_defaults() -> None:
    options = ort_lite.SessionOptions()
    assert repr(options) == "SessionOptions()"
    options.intra_op_num_threads = 2
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("ort_lite.strict", "1")
    options.add_free_dimension_override_by_name("N", 3)
    options.add_provider("CPUExecutionProvider", {})
    for text in (
        "SessionOptions(graph_optimization_level=GraphOptimizationLevel.ORT_ENABLE_BASIC, intra_op_num_threads=2",
        "config_entries={'ort_lite.strict': '1'}",
        "free_dimensions={'N': 3}",
        "providers=['CPUExecutionProvider']",
    ):
        assert text in repr(options)
    run = ort_lite.RunOptions()
    assert repr(run) == "RunOptions()"
    run.timeout = 1.5
    assert repr(run) == "RunOptions(timeout=1.5)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((2, 3), np.float32), "OrtValue(tensor(float)[2, 3])"),
        ([np.zeros(3, np.float32)], "OrtValue(seq(tensor(float)) of length 1)"),
        ({1: 2.0, 2: 3.0}, "OrtValue(map(int64,tensor(double)) of length 2)"),
        (None, "OrtValue(None)"),
    ],
)
def test_a_value_shows_its_type_and_size(value: object, text: str) -> None:
    assert repr(ort_lite.OrtValue(value)) == text


def test_a_sparse_value_shows_its_dense_shape() -> None:
    sparse = ort_lite.SparseTensor.sparse_coo_from_numpy([4, 5], np.ones(2, np.float32), np.array([3, 7]))
    assert repr(ort_lite.OrtValue.ort_value_from_sparse_tensor(sparse)) == "OrtValue(sparse_tensor(float)[4, 5])"


def test_explanations_traces_plans_and_reports_fit_on_a_line() -> None:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.creation_trace", "1")
    session = ort_lite.InferenceSession(get_example("mul_1.onnx"), options, providers=["CPUExecutionProvider"])
    assert repr(session.explain()) == "Explanation(nodes: CPUExecutionProvider 1; partitions: 1)"
    assert repr(session._stage_results.report).startswith("TransformReport(level all; nodes: 1 -> 1; changes: 0; rounds: ")
    trace = session.creation_trace
    assert trace is not None
    assert repr(trace).startswith("CreationTrace(") and repr(trace).endswith(f" ms; events: {len(trace.events)})")
    session.run(None, {"X": np.ones((3, 2), np.float32)})
    (plan,) = session.memory_plans().values()
    assert repr(plan).startswith("MemoryPlan(tensors: ") and "\n" not in repr(plan)


def test_a_report_shows_its_verdict() -> None:
    part = PartitionReport("My_0", "My", "", 3, skipped="no inputs")
    assert repr(VerificationReport(())) == "VerificationReport(OK; partitions: 0)"
    failed = "VerificationReport(OK; partitions: 1, 1 not compared; the run failed: no memory)"
    assert repr(VerificationReport((part,), "no memory")) == failed
