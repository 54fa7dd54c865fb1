"""The audit of hostile models and of real ones."""

import os
from pathlib import Path

import onnx
import pytest

from ort_lite.__main__ import main
from ort_lite.tools.audit import audit
from tests.hostile.model_folders import folder_of_its_own, put_external
from tests.tools.cli.output import parse
from tests.tools.saved_model import save

HEAD = '<ir_version: 8, opset_import: ["": 20]> g '


def saved(tmp_path: Path, text: str) -> str:
    return save(tmp_path / "model.onnx", HEAD + text)


@pytest.mark.parametrize("location", ["../../etc/passwd", "/etc/passwd", "", "absent"])
def test_a_file_that_a_session_would_not_open_is_a_finding(location: str) -> None:
    with folder_of_its_own() as folder:
        found = audit(str(put_external(folder, location=location)))
    (file,) = found.files
    assert file.location == location and file.refused
    assert any("cannot be analyzed" in line for line in found.findings)


def test_weights_in_a_file_are_listed_with_their_bytes() -> None:
    with folder_of_its_own() as folder:
        path = put_external(folder, ("length", "8192"))
        found = audit(str(path))
        (file,) = found.files
        assert (file.path, file.nbytes, file.readers, file.refused) == (str(folder / "weights"), 8192, 1, "")
    assert found.findings == [] and found.memory is not None
    assert found.memory.weights == found.memory.inputs == 8192


def test_a_loop_without_a_bound_is_a_finding(tmp_path: Path) -> None:
    body = "<body = b (int64 i, bool c, float[N] a) => (bool d, float[N] e) { d = Identity(c) e = Neg(a) }>"
    for given, bound in (('"", ""', None), ("n, go", None), ("most, go", 9_000_000_000)):
        text = f"(float[N] x, int64 n, bool go) => (float[N] y) <int64 most = {{9000000000}}> {{ y = Loop({given}, x) {body} }}"
        found = audit(saved(tmp_path, text.replace('""', "")))
        (loop,) = found.loops
        assert (loop.bound, loop.depth) == (bound, 0)
        assert [line for line in found.findings if "has no bound" in line] == found.findings[: bound is None]


def test_loops_inside_of_loops_and_patterns_are_found(tmp_path: Path) -> None:
    inner = "<body = c (int64 j, bool e, string[N] p) => (bool f, string[N] q) { f = Identity(e) q = Identity(p) }>"
    body = f"<body = b (int64 i, bool c, string[N] a) => (bool d, string[N] k) {{ d = Identity(c) k = Loop(n, c, a) {inner} }}>"
    match = 'm = RegexFullMatch <pattern = "(a+)+$"> (y)'
    text = f"(string[N] x, int64 n, bool go) => (string[N] y, bool[N] m) {{ y = Loop(n, go, x) {body} {match} }}"
    found = audit(saved(tmp_path, text))
    assert [loop.depth for loop in found.loops] == [0, 1]
    assert [(one.operator, one.pattern) for one in found.patterns] == [("RegexFullMatch", "(a+)+$")]
    assert found.operators == {"Identity": 3, "Loop": 2, "RegexFullMatch": 1}


def test_a_trip_count_that_the_file_does_not_hold_and_a_constant_with_two_values(tmp_path: Path) -> None:
    body = "<body = b (int64 i, bool c, float[N] a) => (bool d, float[N] e) { d = Identity(c) e = Neg(a) }>"
    path = saved(
        tmp_path, f"(float[N] x, bool go) => (float[N] y) {{ n = Constant<value = int64 {{3}}>() y = Loop(n, go, x) {body} }}"
    )
    model = onnx.load(path)
    assert [loop.bound for loop in audit(path).loops] == [3]
    (value,) = model.graph.node[0].attribute
    model.graph.node[0].attribute.append(value)
    onnx.save(model, path)
    assert [loop.bound for loop in audit(path).loops] == [3]
    for attribute in model.graph.node[0].attribute:
        attribute.t.ClearField("int64_data")
        attribute.t.ClearField("raw_data")
    Path(path).write_bytes(model.SerializeToString())
    assert [loop.bound for loop in audit(path).loops] == [None]


def test_memory_follows_the_sizes(tmp_path: Path) -> None:
    path = saved(tmp_path, "(float[N] x) => (float[N] y) { a = Neg(x) b = Abs(a) c = Add(a, b) y = Exp(c) }")
    found = audit(path, {"N": 10**9}).memory
    assert found is not None
    assert (found.inputs, found.results, found.worst_node) == (4 * 10**9, 3 * 4 * 10**9, "Add_0")


def test_a_size_that_only_a_run_tells_is_counted_as_unknown(tmp_path: Path) -> None:
    found = audit(saved(tmp_path, "(float[N] x) => (int64[1, M] y) { y = NonZero(x) }")).memory
    assert found is not None and found.unknown == 1


@pytest.mark.parametrize("name", ["silero/silero_vad.onnx"])
def test_a_real_model(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = os.path.join(os.path.dirname(__file__), "..", "..", "data", name)
    found = audit(path)
    assert found.nbytes == os.path.getsize(path)
    assert not found.files and not found.patterns
    assert found.doubt == ""
    assert main(["audit", path, "--json"]) == 0
    assert parse(capsys.readouterr().out)["operators"] == dict(found.operators)
