"""A sample of generated models, and the tools around them: journal, saved failures, processes, summaries."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ort_lite.testing.generator import recipes
from ort_lite.testing.generator.reduction.graphs import all_graphs
from ort_lite.testing.generator.targets import width
from tests.generated import saved
from tests.generated.claims import claimed_targets, generator
from tests.generated.faults import KINDS, ROOT, catalogue
from tests.generated.journal import Entry, Journal, entry_of, restore
from tests.generated.plant import choose
from tests.generated.reducing import signature
from tests.generated.verdict import Difference, Verdict
from tests.generated.workers import Task, _answers

linux = pytest.mark.skipif(sys.platform != "linux", reason="the processes that judge models are forked, as on Linux")
MODELS = 24
"""Models of the sample: some 12 s on two cores."""
SETTINGS = {"seed": 0, "operators": []}


def run(*words: str, expected: int = 0) -> str:
    """Run a process of its own, since this one has threads and cannot fork."""
    done = subprocess.run(
        [sys.executable, *words], check=False, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=280
    )
    assert done.returncode == expected, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


@linux
@pytest.mark.slow
def test_sample(tmp_path: Path) -> None:
    """Models of all operators agree with the oracles. The second run goes on where the first one ended."""
    journal = tmp_path / "journal.jsonl"
    options = ["-m", "tests.generated", "--journal", str(journal), "--failures", str(tmp_path / "failures"), "--no-reduce"]
    run(*options, "--models", "10")
    text = run(*options, "--models", str(MODELS))
    numbers = [json.loads(line)["number"] for line in journal.read_text(encoding="utf-8").splitlines()[1:]]
    assert sorted(numbers) == list(range(MODELS))
    assert "0  invalid" in text, text


def test_generator_is_deterministic() -> None:
    first, second = (generator(3) for _ in range(2))
    for number in range(10):
        a, b = first.model(number), second.model(number)
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            assert a.model.SerializeToString(deterministic=True) == b.model.SerializeToString(deterministic=True)


def test_recipes_are_rarely_refused() -> None:
    source = generator(1)
    nodes = sum(len(model.covered) for number in range(25) if (model := source.model(number)) is not None)
    assert 10 * source.rejections.total() < nodes, source.rejections.most_common(5)


def test_every_operator_of_the_provider_has_a_recipe() -> None:
    known = recipes()
    missing = {target.operator for target in claimed_targets() if (target.domain, target.op_type) not in known}
    assert not missing, "write a recipe for each, in the file of its family in ort_lite/testing/generator/recipes/"


def test_both_types_of_a_bitcast_have_one_width() -> None:
    pairs = [dict(target.types) for target in claimed_targets(frozenset({"BitCast"}))]
    assert all(width(pair["T1"]) == width(pair["T2"]) for pair in pairs), pairs
    assert {pair["T1"] for pair in pairs} == {pair["T2"] for pair in pairs} >= {"bool", "float16", "complex64", "int4"}


def test_steered_models_have_the_operator() -> None:
    source = generator(1, ["Trilu"])
    models = [model for number in range(10) if (model := source.model(number, ["Trilu"])) is not None]
    assert models
    assert all("Trilu" in {node.op_type for graph in graphs(model.model) for node in graph.node} for model in models)


def test_models_have_the_nodes_of_a_pattern() -> None:
    source = generator(1, rewrites=["merge_transposes"])
    models = [model for number in range(10) if (model := source.model(number, None, ["merge_transposes"])) is not None]
    assert models
    found = sum(any(map(has_two_transposes, graphs(model.model))) for model in models)
    assert found > len(models) / 2  # of the others, a function has one of the two


def has_two_transposes(graph: Any) -> bool:
    producers = {name: node.op_type for node in graph.node for name in node.output}
    return any(node.op_type == "Transpose" == producers.get(node.input[0]) for node in graph.node)


def graphs(model: Any) -> list[Any]:
    """The graph, all bodies, and functions."""
    return [*all_graphs(model.graph), *model.functions]


def test_names_to_steer_at_must_be_known() -> None:
    with pytest.raises(ValueError, match="Nonsense: there is no recipe"):
        generator(0, ["Nonsense"])
    with pytest.raises(ValueError, match="nonsense: expected some of"):
        generator(0, rewrites=["nonsense"])


# --- journal
def test_journal_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "journal.jsonl"
    entry = Entry(4, "Relu-14 T=float32", "same", ("conditioning",), 0.5, 3, ("float64",), {"onnxruntime": "no kernel"})
    journal = Journal(path, SETTINGS)
    journal.add(entry)
    journal.close()
    with path.open("a", encoding="utf-8") as file:
        file.write('{"number": 5, "tar')  # a run that was killed
    again = Journal(path, SETTINGS)
    assert again.entries == {4: entry}
    again.add(entry._replace(number=5))
    again.close()
    last = Journal(path, SETTINGS)
    last.close()
    assert sorted(last.entries) == [4, 5]


def test_journal_of_another_run_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "journal.jsonl", SETTINGS).close()
    with pytest.raises(ValueError, match="belongs to another run"):
        Journal(tmp_path / "journal.jsonl", {"seed": 1, "operators": []})


def test_coverage_is_restored() -> None:
    source, again = generator(0), generator(0)
    model = next(model for number in range(9) if (model := source.model(number)) is not None)
    entry = entry_of(model, Verdict((), (), {}), 1.0)
    restore(again.coverage, iter([entry]))
    assert again.coverage.models[model.target] >= 1
    assert sum(again.coverage.models.values()) == len(model.covered)


# --- failures
def tensor(*dtypes: int) -> list[Any]:
    return [helper.make_tensor_type_proto(dtype, None) for dtype in dtypes]


SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
OPTIONAL = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, None))
MAP = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
CONTENTS = [
    (helper.make_tensor_type_proto(TensorProto.FLOAT, None), np.array([[1.5, np.nan]], np.float32)),
    (helper.make_tensor_type_proto(TensorProto.BFLOAT16, None), np.array([1.5, -2], ml_dtypes.bfloat16)),
    (helper.make_tensor_type_proto(TensorProto.INT4, None), np.array([-8, 7, 1], ml_dtypes.int4)),
    (helper.make_tensor_type_proto(TensorProto.COMPLEX64, None), np.array([1 + 2j], np.complex64)),
    (helper.make_tensor_type_proto(TensorProto.BOOL, None), np.zeros((0, 3), bool)),
    (helper.make_tensor_type_proto(TensorProto.STRING, None), np.array([["été", ""]], object)),
    (SEQUENCE, [np.ones((2, 1), np.float32), np.array(3, np.float32)]),
    (SEQUENCE, []),
    (OPTIONAL, np.array([5])),
    (OPTIONAL, None),
    (helper.make_optional_type_proto(SEQUENCE), [np.ones(2, np.float32)]),
    (helper.make_sequence_type_proto(MAP), [{"a": 0.5}, {}]),
]


@pytest.mark.parametrize(("type_", "contents"), CONTENTS)
def test_saved_failures_keep_their_inputs(tmp_path: Path, type_: Any, contents: Any) -> None:
    x = helper.make_value_info("x", type_)
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, ir_version=10)
    verdict = Verdict((Difference("float64", "output 0 differs"),), ("float64",), {})
    saved.save(tmp_path / "failure", model, {"x": contents}, verdict)
    for path in (tmp_path / "failure", tmp_path / "failure" / "model.onnx"):
        loaded, feeds = saved.load(path)
        assert loaded == model
        assert_same(feeds["x"], contents)
    text = (tmp_path / "failure" / "verdict.txt").read_text(encoding="utf-8")
    assert text.startswith(f"python -m tests.generated --repeat {tmp_path / 'failure'}\n")
    assert "float64: output 0 differs" in text


def assert_same(got: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert isinstance(got, list)
        assert len(got) == len(expected)
        for pair in zip(got, expected, strict=True):
            assert_same(*pair)
    elif isinstance(expected, np.ndarray):
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        assert got.tolist() == expected.tolist() or got.tobytes() == expected.tobytes()
    else:
        assert got == expected


def test_signatures_leave_out_what_varies() -> None:
    one, two = (
        Verdict((Difference("ort-lite", text),), (), {})
        for text in (
            "InvalidGraph: Relu 'Relu_3': rank 2 of float32[2, 3]\nmore",
            "InvalidGraph: Relu 'Relu_11': rank 1 of float32[4]",
        )
    )
    assert signature(one) == signature(two) == ("ort-lite", "InvalidGraph: Relu : rank  of float")
    assert signature(Verdict((Difference("float64", "explained", "conditioning"),), (), {})) is None


def test_a_judge_that_raises_fails_its_model() -> None:
    def judge(*arguments: Any) -> Verdict:
        raise ValueError("a mistake")

    [found] = _answers(judge, Task(0, b"", {}))
    assert found.differences == (Difference("judge", "ValueError: a mistake"),)


# --- faults
def test_faults_apply_to_the_sources() -> None:
    faults = catalogue()
    assert len(faults) >= 60
    assert len({fault.name for fault in faults}) == len(faults)
    for fault in faults:
        text = (ROOT / fault.file).read_text(encoding="utf-8")
        assert text.count(fault.old) == 1, fault.name
        if fault.file.endswith(".py"):
            compile(text.replace(fault.old, fault.new), fault.name, "exec")


def test_faults_steer_at_what_is_generated() -> None:
    source = generator(0)
    operators = {target.operator for target in source.coverage.targets}
    for fault in catalogue():
        assert fault.operators or fault.transforms, fault.name
        assert {*fault.operators} <= operators, fault.name
        assert {*fault.transforms} <= {*source.patterns}, fault.name


def test_choice_of_faults_is_spread_over_their_kinds() -> None:
    chosen = choose(catalogue(), 30, 5)
    assert chosen == choose(catalogue(), 30, 5)
    assert len(set(chosen)) == 30
    assert all(sum(fault.kind == kind for fault in chosen) == 5 for kind in KINDS)


def test_planting_edits_one_file(tmp_path: Path) -> None:
    fault = catalogue()[0]
    path = tmp_path / fault.file
    path.parent.mkdir(parents=True)
    path.write_text(f"a\n{fault.old}\nb\n", encoding="utf-8")
    assert fault.plant(tmp_path) == f"a\n{fault.old}\nb\n"
    assert path.read_text(encoding="utf-8") == f"a\n{fault.new}\nb\n"
    with pytest.raises(ValueError, match="occurs 0 times"):
        fault.plant(tmp_path)
