"""Caches that the CPU provider writes to in place: one OrtValue bound to past and present, and run states."""

import tracemalloc
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite import OrtValue
from ort_lite.dtypes import Array
from ort_lite.errors import RuntimeException

LENGTH, SIZE = 8, 4
HEAD = '<ir_version: 10, opset_import: ["": 24, "com.microsoft": 1]> main'
ROWS = f"float[1,S,{SIZE}]"
CACHE = f"float[1,1,P,{SIZE}]"
ATTENTION = f"""{HEAD} ({ROWS} q, {ROWS} k, {ROWS} v, {CACHE} pk, {CACHE} pv, int32[1] last, int32 total)
    => ({ROWS} y, float[1,1,T,{SIZE}] nk, float[1,1,T,{SIZE}] nv MORE_OUTPUTS) {{
    y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=1, kv_num_heads=1>(q, k, v, pk, pv, last, total) MORE_NODES
}}"""
LONG_ATTENTION = ATTENTION.replace(f"{SIZE}]", "SIZE]").replace("MORE_OUTPUTS", "").replace("MORE_NODES", "")
SCATTER = f"""{HEAD} (float[1,{LENGTH},2] past, float[1,R,2] x, int64[1] at) => (float[1,{LENGTH},2] present) {{
    present = TensorScatter<axis=1>(past, x, at)
}}"""
LINKS = {"pk": "nk", "pv": "nv"}


def attention(outputs: str = "", nodes: str = "", type_: str = "float") -> ort_lite.InferenceSession:
    text = ATTENTION.replace("float[", f"{type_}[")
    return session(text.replace("MORE_OUTPUTS", outputs).replace("MORE_NODES", nodes))


def session(text: str) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(onnx.parser.parse_model(text))


def step(position: int, rows: int = 1, size: int = SIZE) -> dict[str, Any]:
    rng = np.random.default_rng(position)
    feed: dict[str, Any] = {name: rng.standard_normal((1, rows, size)).astype(np.float32) for name in "qkv"}
    end = position + rows
    return {**feed, "last": np.array([end - 1], np.int32), "total": np.array(end, np.int32)}


def cache(fill: float = 0) -> Array:
    return np.full((1, 1, LENGTH, SIZE), fill, np.float32)


def bind(made: ort_lite.InferenceSession, keys: OrtValue, values: OrtValue) -> Any:
    binding = made.io_binding()
    for value, (past, present) in zip((keys, values), LINKS.items(), strict=True):
        binding.bind_ortvalue_input(past, value)
        binding.bind_ortvalue_output(present, value)
    binding.bind_output("y")
    return binding


@pytest.mark.parametrize("type_", ["float", "float16"])
def test_only_the_new_rows_of_a_bound_cache_are_written(type_: str) -> None:
    made, dtype = attention(type_=type_), {"float": np.float32, "float16": np.float16}[type_]
    keys, values = (OrtValue.ortvalue_from_numpy(cache(np.nan).astype(dtype)) for _ in range(2))
    binding = bind(made, keys, values)
    expected = {name: cache().astype(dtype) for name in LINKS}
    for position, rows in ((0, 3), (3, 1), (4, 1), (5, 2)):
        feed = {name: x.astype(dtype) if name in "qkv" else x for name, x in step(position, rows).items()}
        for name, array in feed.items():
            binding.bind_cpu_input(name, array)
        binding.run()
        y, nk, nv = made.run(["y", "nk", "nv"], {**feed, **expected})
        expected = {"pk": nk, "pv": nv}
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[2], y)
        end = position + rows
        for value, whole in ((keys, nk), (values, nv)):
            np.testing.assert_array_equal(value.numpy()[:, :, :end], whole[:, :, :end])
            assert np.isnan(value.numpy()[:, :, end:]).all(), "what is behind the new rows stays as it was"


def test_a_state_on_the_cpu_is_updated_in_place_by_its_only_owner() -> None:
    made = attention()
    state = made.create_run_state(LINKS, {"pk": cache(), "pv": cache()})
    made.run(None, step(0, 2), state=state)
    before = state._kept.values
    made.run(None, step(2), state=state)
    assert all(state._kept.values[name] is before[name] for name in LINKS)
    made.run(None, step(2), ort_lite.RunOptions(), state=state, timeout=60)
    assert all(state._kept.values[name] is before[name] for name in LINKS)
    other = state.copy()
    found = [made.run(None, step(3), state=each)[0] for each in (state, other)]
    np.testing.assert_array_equal(*found)
    assert all(state._kept.values[name] is not before[name] for name in LINKS)
    for name in LINKS:
        np.testing.assert_array_equal(state.values()[name], other.values()[name])


def test_a_cache_that_grows_is_a_new_array() -> None:
    made = attention()
    state = made.create_run_state(LINKS, dict.fromkeys(LINKS, cache()[:, :, :0]))
    parts = [made.run(None, step(position), state=state)[0] for position in range(3)]
    assert state.values()["pk"].shape == (1, 1, 3, SIZE)
    again = made.create_run_state(LINKS, dict.fromkeys(LINKS, cache()))
    for position, part in enumerate(parts):
        np.testing.assert_allclose(made.run(None, step(position), state=again)[0], part, rtol=1e-6)


@pytest.mark.parametrize(
    ("outputs", "nodes"),
    [(f", {CACHE} z", "z = Neg(pk)"), (f", {CACHE} z", "z = Identity(pk)"), (f", float[1,1,T,{SIZE}] z", "z = Neg(nk)")],
    ids=["past", "itself", "present"],
)
def test_a_past_that_others_read_is_not_written_to(outputs: str, nodes: str) -> None:
    made = attention(outputs, nodes)
    state = made.create_run_state(LINKS, {"pk": cache(1), "pv": cache(2)})
    expected = {"pk": cache(1), "pv": cache(2)}
    for position in range(3):
        y, z = made.run(None, step(position), state=state)
        want = made.run(["y", "nk", "nv", "z"], {**step(position), **expected})
        expected = {"pk": want[1], "pv": want[2]}
        np.testing.assert_array_equal(y, want[0])
        end = position + 1 if "nk" in nodes else LENGTH
        rows = slice(end) if "nk" in nodes else slice(position)
        np.testing.assert_array_equal(z[:, :, rows], want[3][:, :, rows])


def test_one_array_for_both_caches_is_not_written_to() -> None:
    made = attention()
    both = OrtValue.ortvalue_from_numpy(cache())
    binding = made.io_binding()
    for name in LINKS:
        binding.bind_ortvalue_input(name, both)
    binding.bind_ortvalue_output("nk", both)
    for name in ("y", "nv"):
        binding.bind_output(name)
    for name, array in step(0).items():
        binding.bind_cpu_input(name, array)
    binding.run()
    want = made.run(["y", "nk", "nv"], {**step(0), "pk": cache(), "pv": cache()})
    _, y, nv = binding.copy_outputs_to_cpu()
    np.testing.assert_array_equal(y, want[0])
    np.testing.assert_array_equal(nv, want[2])
    np.testing.assert_array_equal(both.numpy(), want[1])


def test_a_run_that_fails_over_a_cache_loses_the_state() -> None:
    made = attention()
    state = made.create_run_state(LINKS, {"pk": cache(), "pv": cache()})
    made.run(None, step(0), state=state)
    kept = state.copy()
    wrong = {**step(1), "last": np.array([7], np.int32)}
    with pytest.raises(RuntimeException, match="the last key"):
        made.run(None, wrong, state=state)
    made.run(None, step(1), state=kept)
    made.run(None, step(2), state=kept)
    with pytest.raises(RuntimeException, match="the last key"):
        made.run(None, wrong, state=kept)
    with pytest.raises(RuntimeException, match="the run state has no values"):
        kept.values()
    made.run(None, step(1), state=state)  # the values had two owners


def test_tensor_scatter_writes_to_a_cache_in_place() -> None:
    made = session(SCATTER)
    past = OrtValue.ortvalue_from_numpy(np.zeros((1, LENGTH, 2), np.float32))
    state = made.create_run_state({"past": "present"}, {"past": past})
    binding = made.io_binding()
    binding.bind_ortvalue_input("past", past)
    binding.bind_ortvalue_output("present", past)
    expected = np.zeros((1, LENGTH, 2), np.float32)
    before = state._kept.values["past"]
    for at in (0, 3, 5):
        feed = {"x": np.full((1, 2, 2), at + 1, np.float32), "at": np.array([at])}
        expected = made.run(None, {**feed, "past": expected})[0]
        for name, array in feed.items():
            binding.bind_cpu_input(name, array)
        binding.run()
        made.run(None, feed, state=state)
        np.testing.assert_array_equal(past.numpy(), expected)
        np.testing.assert_array_equal(state.values()["past"], expected)
    assert state._kept.values["past"] is before


def test_steps_in_a_long_cache_copy_none_of_it() -> None:
    """A copy would need as much memory as a cache: in arrays, which are traced, or in the scratch of the run."""
    room, size = 4096, 128
    made = session(LONG_ATTENTION.replace("SIZE", str(size)))
    keys, values = (OrtValue.ortvalue_from_numpy(np.zeros((1, 1, room, size), np.float32)) for _ in range(2))
    binding = bind(made, keys, values)

    def run(position: int) -> None:
        feed = {**step(position, size=size), "total": np.array(room, np.int32)}  # as from a mask as long as the buffer
        for name, array in feed.items():
            binding.bind_cpu_input(name, array)
        binding.run()

    for position in range(room - 1100, room - 1000):
        run(position)
    tracemalloc.start()
    try:
        begun = tracemalloc.get_traced_memory()[0]
        for position in range(room - 1000, room):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            run(position)
            assert tracemalloc.get_traced_memory()[1] - before < 64 << 10
        # CPython keeps up to 2,000 freed tuples of each length
        assert tracemalloc.get_traced_memory()[0] - begun < 256 << 10, "1,000 steps hold no more memory than 100"
    finally:
        tracemalloc.stop()
    scores, places = 1 << 20, 64
    assert made.memory()["scratch"]["peak"] <= scores + places < keys.numpy().nbytes
