"""The accelerator with several memories: the results of one memory, the moves of the plan, and errors that name the tensor."""

from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper
from ort_lite_accelerator import AcceleratorExecutionProvider

import ort_lite
from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory.planning.plan import MemoryPlan
from tests.threads import run_together

MACHINES = (
    "fast=*",
    "fast=*, slow=*",
    "fast=5K, slow=*",
    "fast=12K, slow=*:remote",
    "fast=3K, mid=10K, slow=*",
    "fast=0, slow=*",
    "fast=5K, slow=*, flash=*:constant+remote",
)

NAME = AcceleratorExecutionProvider.name
PLAIN = "(float[1,3,8,8] x, float[4,3,3,3] v, float[4,4,3,3] w) => (float[1,4,8,8] y)"
CHAIN = f"{PLAIN} {{ a = Conv<pads=[1,1,1,1]>(x, v)  b = Relu(a)  c = Conv<pads=[1,1,1,1]>(b, w)  y = Relu(c) }}"
RESIDUAL = (
    f"{PLAIN} {{ a = Conv<pads=[1,1,1,1]>(x, v)  b = MaxPool<kernel_shape=[3,3],pads=[1,1,1,1]>(a)  c = Conv<pads=[1,1,1,1]>(b, w) "
    "d = Mul(c, b)  e = Add(d, a)  y = Relu(e) }"
)
MLP = """(float[N,6] x, float[6,5] v, float[5] b, float[5,3] w, float[3] c) => (float[N,3] y, float[N,5] r) {
    p = MatMul(x, v)  q = Add(p, b)  r = Relu(q)  s = Mul(r, b)  t = Add(s, r)  y = Gemm(t, w, c)
}"""


def model(text: str) -> onnx.ModelProto:
    """Inputs but x become constants with random contents."""
    made, rng = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}'), np.random.default_rng(0)
    for value in list(made.graph.input)[1:]:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        made.graph.initializer.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), value.name))
    del made.graph.input[1:]
    return made


def session(source: Any, card: Any = None, options: ort_lite.SessionOptions | None = None) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(source, options, [card or AcceleratorExecutionProvider(), "CPUExecutionProvider"])


def pixels(seed: int = 0) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).standard_normal((1, 3, 8, 8)).astype(np.float32)}


def stated(text: str) -> ort_lite.SessionOptions:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.memories", text)
    return options


def plan_of(made: ort_lite.InferenceSession) -> MemoryPlan:
    [plan] = [plan for name, plan in made.memory_plans().items() if name.startswith(NAME)]
    assert isinstance(plan, MemoryPlan)
    return plan


@pytest.mark.parametrize("text", MACHINES)
@pytest.mark.parametrize("source", [CHAIN, RESIDUAL, MLP])
def test_results_are_those_of_one_memory_and_moves_those_of_the_plan(source: str, text: str) -> None:
    feed = pixels() if source != MLP else {"x": np.random.default_rng(0).standard_normal((7, 6)).astype(np.float32)}
    expected = session(model(source)).run(None, feed)
    card = AcceleratorExecutionProvider()
    made = session(model(source), card, options=stated(text))
    for runs in range(1, 4):
        for mine, right in zip(made.run(None, feed), expected, strict=True):
            np.testing.assert_array_equal(mine, right)
        plan = plan_of(made)
        assert (card.data_transfer().moves, card.data_transfer().moved_bytes) == (
            runs * len(plan.moves),
            runs * plan.moved_bytes,
        )
    assert card.data_transfer().moves > 0 or "slow=*:remote" not in text
    made.close()
    assert card.allocator().bytes_in_use == 0


def test_what_a_provider_declares_is_used_and_what_a_session_states_replaces_it() -> None:
    card = AcceleratorExecutionProvider(memories="near=5K, far=*")
    assert [memory.name for memory in card.memories()] == ["near", "far"]
    made = session(model(RESIDUAL), card)
    made.run(None, pixels())
    assert set(plan_of(made).arena_usages) == {"near", "far"}
    assert all(slot.offset % 64 == 0 for slot in plan_of(made).tensor_allocs.values())
    other = session(model(RESIDUAL), card, options=stated("one=*"))
    other.run(None, pixels())
    assert set(plan_of(other).arena_usages) == {"one"}


def test_a_session_whose_providers_do_not_plan_says_so(caplog: pytest.LogCaptureFixture) -> None:
    ort_lite.InferenceSession(model(MLP), stated("fast=1K, slow=*"), ["CPUExecutionProvider"])
    assert "ort_lite.memories has no effect: none of CPUExecutionProvider plans for memories of its device" in caplog.text
    caplog.clear()
    session(model(MLP), options=stated("fast=1K, slow=*"))
    assert "has no effect" not in caplog.text


def test_each_shape_has_a_plan() -> None:
    made = session(model(MLP), options=stated("fast=200, slow=*"))
    for rows in (1, 9, 0, 1):
        x = np.random.default_rng(rows).standard_normal((rows, 6)).astype(np.float32)
        np.testing.assert_array_equal(made.run(None, {"x": x})[0], session(model(MLP)).run(None, {"x": x})[0])


def test_threads_have_memories_of_their_own() -> None:
    made = session(model(RESIDUAL), options=stated("fast=6K, slow=*"))
    feeds = [pixels(k) for k in range(4)]
    expected = [session(model(RESIDUAL)).run(None, feed)[0] for feed in feeds]
    found: list[Any] = [None] * len(feeds)

    def run(k: int) -> None:
        for _ in range(5):
            found[k] = made.run(None, feeds[k])[0]

    run_together(run, len(feeds))
    for mine, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, right)


def test_saved_programs_are_planned(tmp_path: Any) -> None:
    made = session(model(RESIDUAL), options=stated("fast=5K, slow=*"))
    made.save_compiled(tmp_path / "saved.onnx")
    card = AcceleratorExecutionProvider()
    again = session(tmp_path / "saved.onnx", card, options=stated("fast=4K, slow=*"))
    np.testing.assert_array_equal(again.run(None, pixels())[0], made.run(None, pixels())[0])
    assert card.data_transfer().moves == len(plan_of(again).moves)


def test_what_does_not_fit_is_named_with_its_size_and_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    made = session(model(RESIDUAL), options=stated("fast=1K"))
    with pytest.raises(
        OutOfMemory, match=r"do not fit 'fast' \(.* of 1,024 bytes left\): scratch tensor '.*' \([\d,]+ bytes\)"
    ):
        made.run(None, pixels())
    session(model(RESIDUAL), options=stated("fast=1M:scratch, flash=64:constant"))
    assert "constant tensor 'constant 1' (432 bytes) does not fit 'flash' (64 of 64 bytes left)" in caplog.text
    with pytest.raises(InvalidArgument, match="memory 'fast': expected NAME=SIZE"):
        session(model(RESIDUAL), options=stated("fast"))
