"""Checkpoints: whatever stage a creation is in, it ends with the error of the check, and leaves nothing behind."""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import DeadlineExceeded, InvalidArgument, ModelLoadCanceled, OrtLiteError
from ort_lite.load import files
from ort_lite.load.files import read_json
from ort_lite.native.checkpoint import begin_stage, checkpoint, use_check
from ort_lite.options.creation_limits import creating
from ort_lite.provider import Capability, GraphView, Rejection
from ort_lite_cpu.program.schedule import MOST_COMPARISONS, reorder
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider
from tests.threads import join

MODEL = """<ir_version: 10, opset_import: ["": 17, "my": 1]> main (float[N] x, bool f) => (float[N] y)
<float[3] w = {1, 2, 3}, float[3] v = {1, 2, 3}> {
    u = Add(w, v)  a = Abs(x)  b = my.twice(a)  c = Mul(b, b)  d = Sub(c, b)
    e = If (f) <then_branch = p () => (float[N] t) { t = Neg(d) }, else_branch = q () => (float[N] s) { s = Relu(d) }>
    y = Identity(e)
}
<domain: "my", opset_import: ["": 17]> twice (a) => (c) { c = Add(a, a) }"""


def model() -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL)


def created(**keywords: Any) -> ort_lite.InferenceSession:
    providers = [NumpyProvider(lambda node: node.op_type in ("Abs", "Neg")), CpuStandIn(operators=OPERATORS)]
    return ort_lite.InferenceSession(model(), keywords.pop("options", None), providers=providers, **keywords)


OPERATORS = ("Abs", "Add", "Identity", "Mul", "Neg", "Relu", "Sub", "Tanh", "If")


class Counter:
    """Raises at the checkpoint of that number."""

    def __init__(self, last: int, error: Callable[[str], OrtLiteError]) -> None:
        self.left, self.error = last, error
        self.stages: dict[str, int] = {}

    def __call__(self, stage: str) -> None:
        self.stages[stage] = self.stages.get(stage, 0) + 1
        self.left -= 1
        if self.left <= 0:
            raise self.error(stage)


def counted() -> Counter:
    counter = Counter(1 << 60, ModelLoadCanceled)
    with use_check(counter):
        created()
    return counter


@pytest.mark.parametrize("error", [ModelLoadCanceled, DeadlineExceeded])
def test_each_checkpoint_of_a_creation_ends_it_with_the_error_of_the_check(error: type[OrtLiteError]) -> None:
    total = sum(counted().stages.values())
    assert total > 100
    for last in range(1, total, 7):
        counter = Counter(last, error)
        with use_check(counter), pytest.raises(error) as caught:
            created()
        assert type(caught.value) is error
    checkpoint()


def test_stages_have_names() -> None:
    stages: list[str] = []
    options = ort_lite.SessionOptions()
    options.set_load_cancellation_flag(False)
    with use_check(stages.append):
        begin_stage("load")
        created(options=options)
    assert list(dict.fromkeys(stages)) == ["load"]  # of the outer creation: the inner one has its own
    assert stages.count("load") > 100


def test_saving_has_checkpoints(tmp_path: Path) -> None:
    options = ort_lite.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    plain, saving = counted(), Counter(1 << 60, ModelLoadCanceled)
    with use_check(saving):
        created(options=options)
    assert sum(saving.stages.values()) > sum(plain.stages.values())


def test_an_outer_check_holds_inside_of_another() -> None:
    heard: list[str] = []
    with use_check(lambda stage: heard.append(f"outer {stage}")):
        begin_stage("one")
        with use_check(lambda stage: heard.append(f"inner {stage}")):
            begin_stage("two")
        checkpoint()
    checkpoint()
    assert heard == ["outer one", "outer one", "inner two", "outer one"]


def test_a_check_belongs_to_a_thread() -> None:
    def refuse(stage: str) -> None:
        raise AssertionError(stage)

    with use_check(refuse):
        other = threading.Thread(target=checkpoint)
        other.start()
        join(other)


# The options


def test_the_smaller_timeout_holds() -> None:
    options = ort_lite.SessionOptions()
    options.creation_timeout = 1e-9
    for keywords in ({}, {"creation_timeout": 60}):
        with pytest.raises(
            DeadlineExceeded, match=r"longer than its creation_timeout of 1e-09 s, and was ended \(stage: load\)"
        ):
            created(options=options, **keywords)
    options.creation_timeout = 60
    with pytest.raises(DeadlineExceeded, match="1e-09 s"):
        created(options=options, creation_timeout=1e-9)
    made = created(options=options, creation_timeout=50)
    assert made.get_session_options().creation_timeout == 50
    np.testing.assert_array_equal(made.run(None, {"x": np.ones(3, np.float32), "f": np.array(True)})[0], np.full(3, -2))


@pytest.mark.parametrize("value", [0, -1, "1", True, float("nan"), 1e12])
def test_what_is_no_timeout_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"creation_timeout: got .*expected seconds"):
        created(creation_timeout=value)


def test_plan_has_the_limit_too() -> None:
    options = ort_lite.SessionOptions()
    options.creation_timeout = 1e-9
    with pytest.raises(DeadlineExceeded, match="creation_timeout"):
        ort_lite.plan(model(), options=options)


def test_the_flag_of_a_copy_is_that_of_the_options() -> None:
    options = ort_lite.SessionOptions()
    with creating(options.copy()):
        options.set_load_cancellation_flag(True)
        with pytest.raises(ModelLoadCanceled, match=r"set_load_cancellation_flag cancelled .*\(stage: load\)"):
            checkpoint()


# Loops that would be quadratic


def test_an_order_is_searched_only_so_far() -> None:
    count = 2 * int(MOST_COMPARISONS**0.5)
    uses = [[f"a{k}"] for k in range(count)]
    begun = [0]
    with use_check(lambda stage: begun.append(1)):
        assert reorder(uses[:10], {}) is None
        assert sum(begun) == 10


# What a run prepares


def test_a_run_that_prepares_the_model_anew_ends_with_its_timeout() -> None:
    """Overridden initialisers become inputs of another form of the model, which the first such run makes."""
    text = (
        '<ir_version: 10, opset_import: ["": 17]> main (float[3] x, float[3] w = {1, 2, 3}) => (float[3] y) { y = Add(x, w) }'
    )
    slow = SlowToClaim(lambda node: False)
    made = ort_lite.InferenceSession(onnx.parser.parse_model(text), providers=[slow, CpuStandIn()])
    slow.seconds = 5
    feed = {"x": np.ones(3, np.float32), "w": np.zeros(3, np.float32)}
    begin = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="while more of the session was prepared"):
        made.run(None, feed, timeout=0.1)
    assert time.monotonic() - begin < 2
    slow.seconds = 0
    np.testing.assert_array_equal(made.run(None, feed, timeout=60)[0], np.ones(3))


class SlowToClaim(NumpyProvider):
    """Thinks for so many seconds, with checkpoints."""

    name = "SlowExecutionProvider"
    seconds = 0.0

    def get_capability(self, graph: GraphView) -> Iterable[Capability | Rejection]:
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            time.sleep(0.01)
            checkpoint()
        return super().get_capability(graph)


def _read_external(path: Path) -> object:
    value = onnx.TensorProto(name="w", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    value.external_data.add(key="location", value=path.name)
    source = model()
    source.graph.initializer[0].CopyFrom(value)
    return ort_lite.load(source, folder=path.parent)


@pytest.mark.parametrize("read", [read_json, ort_lite.load_params, ort_lite.LoraAdapter().Load, ort_lite.load, _read_external])
def test_a_deadline_is_not_a_file_that_cannot_be_read(
    read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeadlineExceeded is an OSError, as Python's TimeoutError is."""
    monkeypatch.setattr(files, "_AT_ONCE", 0)  # small files are read in pieces, too, with checkpoints in between
    path = tmp_path / "file"
    path.write_bytes(bytes(4))
    with use_check(Counter(1, lambda stage: DeadlineExceeded("over"))), pytest.raises(DeadlineExceeded, match="over"):
        read(path)
