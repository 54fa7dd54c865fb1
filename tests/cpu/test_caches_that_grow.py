"""Caches that grow in a run state: the CPU provider appends to them in arrays that have room for more rows."""

import threading
import tracemalloc
from typing import Any, NamedTuple

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, InvalidData, RuntimeException
from ort_lite.session.run_state import RunState

HEADS, SIZE = 2, 8
HEAD = '<ir_version: 10, opset_import: ["": 24, "com.microsoft": 1]> main'
CACHES = f"T[B,{HEADS},P,{SIZE}] pk, T[B,{HEADS},P,{SIZE}] pv"
PRESENTS = f"T[B,{HEADS},A,{SIZE}] nk, T[B,{HEADS},A,{SIZE}] nv"
FLAT = ", ".join(f"T[B,S,{HEADS * SIZE}] {name}" for name in "qkv")
ATTENTIONS = {
    "Attention": f"""{HEAD} ({FLAT}, {CACHES} INPUTS) => (T[B,S,{HEADS * SIZE}] y, {PRESENTS} OUTPUTS) {{
        y, nk, nv = Attention<is_causal=1, q_num_heads={HEADS}, kv_num_heads={HEADS}>(q, k, v, , pk, pv) NODES }}""",
    "MultiHeadAttention": f"""{HEAD} ({FLAT}, {CACHES}) => (T[B,S,{HEADS * SIZE}] y, {PRESENTS}) {{
        y, nk, nv = com.microsoft.MultiHeadAttention<unidirectional=1, num_heads={HEADS}>(q, k, v, , , , pk, pv) }}""",
    "GroupQueryAttention": f"""{HEAD} ({FLAT}, {CACHES}, int32[B] last, int32 total) => (T[B,S,{HEADS * SIZE}] y, {PRESENTS}) {{
        y, nk, nv = com.microsoft.GroupQueryAttention<num_heads={HEADS}, kv_num_heads={HEADS}>(q, k, v, pk, pv, last, total) }}""",
    "written out": f"""{HEAD} (T[B,{HEADS},S,{SIZE}] q, T[B,{HEADS},S,{SIZE}] k, T[B,{HEADS},S,{SIZE}] v, {CACHES})
        => (T[B,{HEADS},S,{SIZE}] y, {PRESENTS}) <T half = {{0.5}}> {{
        nk = Concat<axis=-2>(pk, k)  nv = Concat<axis=2>(pv, v)  c = Mul(nk, half)  t = Transpose<perm=[0,1,3,2]>(c)
        s = MatMul(q, t)  p = Softmax<axis=-1>(s)  y = MatMul(p, nv) }}""",
}
LINKS = {"pk": "nk", "pv": "nv"}
CASES = [(kind, "float", batch) for kind in ATTENTIONS for batch in (1, 3)] + [
    ("Attention", "float16", 3),
    ("GroupQueryAttention", "float16", 3),
    ("Attention", "double", 1),
]


class Decoder(NamedTuple):
    """A session with an attention, fed with random rows."""

    session: ort_lite.InferenceSession
    kind: str
    dtype: Any
    batch: int

    def feed(self, position: int, rows: int = 1) -> dict[str, Any]:
        rng = np.random.default_rng(position)
        shape = (self.batch, HEADS, rows, SIZE) if self.kind == "written out" else (self.batch, rows, HEADS * SIZE)
        feed: dict[str, Any] = {name: rng.standard_normal(shape).astype(self.dtype) for name in "qkv"}
        if self.kind == "GroupQueryAttention":
            end = position + rows
            feed |= {"last": np.full(self.batch, end - 1, np.int32), "total": np.array(end, np.int32)}
        return feed

    def empty(self) -> dict[str, Array]:
        return {name: np.zeros((self.batch, HEADS, 0, SIZE), self.dtype) for name in LINKS}

    def start(self) -> RunState:
        return self.session.create_run_state(LINKS, self.empty())


def decoder(kind: str = "Attention", type_: str = "float", batch: int = 1, *more: str) -> Decoder:
    """Return a decoder. `more`: further inputs, outputs and nodes, each with what separates it from the others."""
    text = ATTENTIONS[kind].replace("T[", f"{type_}[").replace("<T ", f"<{type_} ")
    for mark, part in zip(("INPUTS", "OUTPUTS", "NODES"), more or ("", "", ""), strict=True):
        text = text.replace(mark, part)
    dtype = {"float": np.float32, "float16": np.float16, "double": np.float64}[type_]
    return Decoder(ort_lite.InferenceSession(onnx.parser.parse_model(text)), kind, dtype, batch)


def address(state: RunState) -> int:
    found: int = state._kept.values["pk"].ctypes.data
    return found


class Twin:
    """A state, and the same caches in the hands of the caller."""

    def __init__(self, made: Decoder) -> None:
        self.made, self.state, self.pasts, self.position = made, made.start(), made.empty(), 0

    def step(self, rows: int = 1) -> None:
        feed = self.made.feed(self.position, rows)
        [y] = self.made.session.run(["y"], feed, state=self.state)
        want, *pasts = self.made.session.run(["y", "nk", "nv"], {**feed, **self.pasts})
        np.testing.assert_array_equal(y, want)
        self.pasts, self.position = dict(zip(LINKS, pasts, strict=True)), self.position + rows

    def rewind(self, length: int) -> None:
        self.state.rewind(length, axis=2)
        self.pasts, self.position = {name: past[:, :, :length].copy() for name, past in self.pasts.items()}, length

    def check(self) -> None:
        for name, past in self.state.values().items():
            assert past.flags.c_contiguous and past.flags.owndata
            np.testing.assert_array_equal(past, self.pasts[name])


@pytest.mark.parametrize(("kind", "type_", "batch"), CASES)
def test_results_are_those_of_runs_without_a_state(kind: str, type_: str, batch: int) -> None:
    twin = Twin(decoder(kind, type_, batch))
    for rows in (5, 1, 1, 3, *[1] * 40):
        twin.step(rows)
    twin.check()
    twin.rewind(7)
    for rows in (1, 4, 1, *[1] * 14):
        twin.step(rows)
    twin.rewind(0)
    for rows in (2, 1, 100, 1, 1):
        twin.step(rows)
    twin.check()


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_a_cache_stays_where_it_is_until_its_room_is_used_up(kind: str) -> None:
    made = decoder(kind, batch=3)
    state = made.start()
    seen = []
    for position in range(130):
        made.session.run(["y"], made.feed(position), state=state)
        seen.append(address(state))
    moves = [k for k in range(1, 130) if seen[k] != seen[k - 1]]
    assert moves == [1, 18, 52, 120]  # 2 * rows + 16 each
    state.rewind(125, axis=2)
    assert address(state) == seen[-1]
    made.session.run(["y"], made.feed(125), state=state)
    assert address(state) == seen[-1]


def test_a_step_allocates_no_memory_that_depends_on_the_past() -> None:
    made = decoder()
    state = made.start()
    for position, rows in ((0, 4000), (4000, 1), (4001, 1)):
        made.session.run(["y"], made.feed(position, rows), state=state)
    whole = sum(past.nbytes for past in state.values().values())
    feed = made.feed(4002)
    tracemalloc.start()
    try:
        made.session.run(["y"], feed, state=state)
        assert tracemalloc.get_traced_memory()[1] < whole // 20
    finally:
        tracemalloc.stop()


def test_a_copy_gets_room_of_its_own() -> None:
    made = decoder(batch=3)
    twin = Twin(made)
    for _ in range(5):
        twin.step()
    before = {name: past.copy() for name, past in twin.pasts.items()}
    other = twin.state.copy()
    at = address(other)
    twin.step()
    assert address(twin.state) != at == address(other)
    for name, past in other.values().items():
        np.testing.assert_array_equal(past, before[name])
    moved = address(twin.state)
    twin.step()
    twin.check()
    made.session.run(["y"], made.feed(5), state=other)
    assert (address(twin.state), address(other)) == (moved, at)


def test_rewinding_a_copy_leaves_the_other_state() -> None:
    twin = Twin(decoder())
    for _ in range(6):
        twin.step()
    other = twin.state.copy()
    other.rewind(2, axis=2)
    twin.made.session.run(["y"], twin.made.feed(2), state=other)
    twin.check()
    twin.step()
    twin.check()


def test_a_cache_may_lose_samples() -> None:
    twin = Twin(decoder(batch=3))
    for _ in range(5):
        twin.step()
    twin.state.rewind(2, axis=0)
    twin.made, twin.pasts = twin.made._replace(batch=2), {name: past[:2].copy() for name, past in twin.pasts.items()}
    for _ in range(5):
        twin.step()
    twin.check()


def test_a_run_that_fails_leaves_the_cache() -> None:
    made = decoder("Attention", "float", 1, ", float[3] table, int64[1] at", ", float[1] z", "z = Gather(table, at)")
    state, rest = made.start(), {"table": np.ones(3, np.float32), "at": np.array([1])}
    for position in range(4):
        made.session.run(["y"], {**made.feed(position), **rest}, state=state)
    before = state.values()
    with pytest.raises(InvalidData):
        made.session.run(["y"], {**made.feed(9), **rest, "at": np.array([7])}, state=state)
    with pytest.raises((InvalidArgument, RuntimeException)):
        made.session.run(["y"], {**made.feed(9), **rest, "k": np.ones((2, 1, 16), np.float32)}, state=state)
    for name, past in state.values().items():
        np.testing.assert_array_equal(past, before[name])
    [y] = made.session.run(["y"], {**made.feed(4), **rest}, state=state)
    [want] = made.session.run(["y"], {**made.feed(4), **rest, **before})
    np.testing.assert_array_equal(y, want)


def test_a_run_that_fails_where_it_may_write_over_rows_loses_the_state() -> None:
    made = decoder("GroupQueryAttention")
    state = made.start()
    for position in range(4):
        made.session.run(["y"], made.feed(position), state=state)
    for wrong in ({"q": np.ones(3, np.float32)}, {"total": np.array([4, 5], np.int32), "k": np.ones((1, 1), np.float32)}):
        with pytest.raises(InvalidArgument):
            made.session.run(["y"], {**made.feed(4), **wrong}, state=state)
    with pytest.raises(RuntimeException, match="the last key"):
        made.session.run(["y"], {**made.feed(4), "last": np.array([7], np.int32)}, state=state)
    with pytest.raises(RuntimeException, match="the run state has no values"):
        state.values()


def test_a_batch_without_samples_grows() -> None:
    twin = Twin(decoder(batch=0))
    for _ in range(4):
        twin.step()
    twin.check()


@pytest.mark.parametrize(
    ("outputs", "nodes"),
    [
        (f", float[B,{HEADS},P,{SIZE}] z", "z = Neg(pk)"),
        (f", float[B,{HEADS},P,{SIZE}] z", "z = Identity(pk)"),
        (f", float[B,{HEADS},A,{SIZE}] z", "z = Neg(nk)"),
        (f", float[B,{HEADS},A,{SIZE}] z", "z = Identity(nk)"),
    ],
)
def test_a_cache_that_others_read_is_copied(outputs: str, nodes: str) -> None:
    made = decoder("Attention", "float", 3, "", outputs, nodes)
    state, pasts = made.start(), made.empty()
    for position in range(5):
        feed = made.feed(position)
        y, z = made.session.run(["y", "z"], feed, state=state)
        want = made.session.run(["y", "z", "nk", "nv"], {**feed, **pasts})
        np.testing.assert_array_equal(y, want[0])
        np.testing.assert_array_equal(z, want[1])
        pasts = dict(zip(LINKS, want[2:], strict=True))
    assert "pk" not in state._kept.bases


def test_runs_that_compute_elsewhere_get_contiguous_values() -> None:
    twin = Twin(decoder(batch=3))
    shrinking = ort_lite.RunOptions()
    shrinking.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    for position in range(12):
        if position % 4 == 3:
            feed = twin.made.feed(position)
            twin.made.session.run(["y"], feed, shrinking, state=twin.state)
            _, *pasts = twin.made.session.run(["y", "nk", "nv"], {**feed, **twin.pasts})
            twin.pasts, twin.position = dict(zip(LINKS, pasts, strict=True)), position + 1
        else:
            twin.step()
    twin.check()


def test_a_program_for_other_shapes_appends_too() -> None:
    """Its symbol P stands for two sizes, so that each run is lowered for its own shapes."""
    made = decoder("Attention", "float", 1, ", float[P] x", ", float[P] z", "z = Neg(x)")
    state, pasts = made.start(), made.empty()
    for position in range(6):
        feed = {**made.feed(position), "x": np.ones(2, np.float32)}
        [y] = made.session.run(["y"], feed, state=state)
        want, *found = made.session.run(["y", "nk", "nv"], {**feed, **pasts})
        np.testing.assert_array_equal(y, want)
        pasts = dict(zip(LINKS, found, strict=True))
    for name, past in state.values().items():
        np.testing.assert_array_equal(past, pasts[name])


def test_a_binding_appends_too() -> None:
    made = decoder()
    state, binding, twin, at = made.start(), made.session.io_binding(), Twin(made), 0
    binding.bind_state(state)
    binding.bind_output("y")
    for position in range(6):
        for name, array in made.feed(position).items():
            binding.bind_cpu_input(name, array)
        binding.run()
        twin.step()
        assert position < 2 or address(state) == at
        at = address(state)
    for name, past in state.values().items():
        np.testing.assert_array_equal(past, twin.pasts[name])


def test_states_of_several_threads_grow_apart() -> None:
    made = decoder(batch=3)
    twins = [Twin(made) for _ in range(2)]
    errors: list[BaseException] = []

    def run(twin: Twin) -> None:
        try:
            for rows in (3, *[1] * 60):
                twin.step(rows)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=run, args=(twin,)) for twin in twins]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    for twin in twins:
        twin.check()


def test_values_of_the_wrong_form_are_refused_as_in_any_run() -> None:
    made = decoder()
    state = made.session.create_run_state(LINKS, {name: np.zeros((1, HEADS, 2, SIZE + 1), np.float32) for name in LINKS})
    with pytest.raises(InvalidArgument):
        made.session.run(["y"], made.feed(2), state=state)
