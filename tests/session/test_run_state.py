"""Run states: values that stay between runs, on the CPU and on a device, with beam search and prefixes that several runs share."""

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite import OrtValue
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, RunTerminated, RuntimeException
from ort_lite.session.run_state import RunState
from tests.execute.burner import Burner, session

WIDTH, WORDS, LENGTH = 4, 5, 6
GROWING = """main (float[L,4] past, float[1,4] x) => (float[M,4] present, float[1,4] y) {
    present = Concat<axis=0>(past, x)  t = Tanh(present)  y = ReduceMean<axes=[0]>(t)
}"""
FIXED = """main (float[6,4] past, float[6,1] at, float[1,4] x) => (float[6,4] present, float[1,4] y) {
    row = Mul(at, x)  present = Add(past, row)  t = Tanh(present)  y = ReduceMean<axes=[0]>(t)
}"""
RNG = np.random.default_rng(7)
EMBED = RNG.standard_normal((WORDS, WIDTH)).astype(np.float32)
OUT = RNG.standard_normal((WIDTH, WORDS)).astype(np.float32)


class Decoder:
    """A small language model with a cache, which a RunState keeps: one that grows, or rows of a fixed size."""

    def __init__(self, made: ort_lite.InferenceSession, fixed: bool) -> None:
        self.session, self.fixed = made, fixed

    def start(self) -> RunState:
        shape = (LENGTH if self.fixed else 0, WIDTH)
        return self.session.create_run_state({"past": "present"}, {"past": np.zeros(shape, np.float32)})

    def step(self, state: RunState, position: int, word: int) -> Array:
        """Return the scores of the words that may follow."""
        feed = {"x": EMBED[word : word + 1]}
        if self.fixed:
            feed["at"] = np.eye(LENGTH, dtype=np.float32)[:, position : position + 1]
        [y] = self.session.run(None, feed, state=state)
        scores: Array = (y * (LENGTH if self.fixed else position + 1) @ OUT)[0]
        return scores


def scores_of(words: list[int]) -> Array:
    """Return what a decoder computes after these words, without a cache."""
    scores: Array = np.tanh(EMBED[words]).sum(axis=0) @ OUT
    return scores


def burner() -> Burner:
    return Burner(lambda node: node.op_type in ("Add", "Mul", "Tanh"), {0: 0})


@pytest.fixture(params=["cpu growing", "cpu fixed", "device growing", "device fixed"])
def decoder(request: pytest.FixtureRequest) -> Iterator[Decoder]:
    place, kind = request.param.split()
    providers = [burner()] if place == "device" else []
    with session(GROWING if kind == "growing" else FIXED, *providers) as made:
        yield Decoder(made, kind == "fixed")


def test_a_decode_loop(decoder: Decoder) -> None:
    state, words = decoder.start(), [0]
    for position in range(LENGTH):
        scores = decoder.step(state, position, words[-1])
        np.testing.assert_allclose(scores, scores_of(words), rtol=1e-5)
        words.append(int(scores.argmax()))
    np.testing.assert_allclose(state.values()["past"], EMBED[words[:LENGTH]], rtol=1e-6)


def test_beam_search(decoder: Decoder) -> None:
    beams: list[tuple[float, list[int], RunState]] = [(0.0, [0], decoder.start())]
    for position in range(4):
        found = []
        for total, words, state in beams:
            scores = decoder.step(state, position, words[-1])
            np.testing.assert_allclose(scores, scores_of(words), rtol=1e-5)
            found += [(total + float(scores[word]), [*words, word], state) for word in range(WORDS)]
        best = sorted(found, key=lambda beam: -beam[0])[:3]
        beams = [(total, words, state.copy()) for total, words, state in best]
    for _, words, state in beams:
        np.testing.assert_allclose(state.values()["past"][:4], EMBED[words[:4]], rtol=1e-6)


def test_a_prefix_is_computed_once(decoder: Decoder) -> None:
    prefix = decoder.start()
    for position, word in enumerate((1, 2)):
        decoder.step(prefix, position, word)
    for word in range(WORDS):
        state = prefix.copy()
        np.testing.assert_allclose(decoder.step(state, 2, word), scores_of([1, 2, word]), rtol=1e-5)
        np.testing.assert_allclose(decoder.step(state, 3, 4), scores_of([1, 2, word, 4]), rtol=1e-5)
    np.testing.assert_allclose(prefix.values()["past"][:2], EMBED[[1, 2]], rtol=1e-6)


def test_a_state_is_rewound(decoder: Decoder) -> None:
    state = decoder.start()
    for position, word in enumerate((1, 2, 3)):
        decoder.step(state, position, word)
    if decoder.fixed:
        with pytest.raises(InvalidArgument, match=r"rewind\(7, axis=0\): 'past' is \[6, 4\]"):
            state.rewind(7, 0)
        state.rewind(6, 0)
    else:
        with pytest.raises(InvalidArgument, match=r"rewind\(1, axis=2\): 'past' is \[3, 4\]"):
            state.rewind(1, 2)
        state.rewind(1, -2)
        np.testing.assert_allclose(decoder.step(state, 1, 4), scores_of([1, 4]), rtol=1e-5)


def test_values_stay_on_the_device_and_are_donated_by_their_only_owner() -> None:
    one = Burner(lambda node: node.op_type == "Add")
    decoder = Decoder(session(FIXED, one), fixed=True)
    state = decoder.start()
    decoder.step(state, 0, 1)
    decoder.step(state, 1, 2)
    other = state.copy()
    decoder.step(other, 2, 3)
    decoder.step(state, 2, 4)  # the copy holds other values now
    np.testing.assert_allclose(state.values()["past"][:3], EMBED[[1, 2, 4]], rtol=1e-6)
    np.testing.assert_allclose(other.values()["past"][:3], EMBED[[1, 2, 3]], rtol=1e-6)
    last = state.copy()
    del last
    gc.collect()
    decoder.step(state, 3, 0)
    own = [0 in positions for _, positions in one.donated]
    assert own == [True, True, False, True, True]


def test_a_value_that_rewinding_leaves_is_not_donated_to_either_owner() -> None:
    one = Burner(lambda node: node.op_type == "Add")
    decoder = Decoder(session(FIXED, one), fixed=True)
    state = decoder.start()
    decoder.step(state, 0, 1)
    other = state.copy()
    state.rewind(LENGTH, 0)
    for each in (state, other):
        np.testing.assert_allclose(decoder.step(each, 1, 2), scores_of([1, 2]), rtol=1e-5)
    assert [0 in positions for _, positions in one.donated] == [True, False, False]


def test_values_that_the_caller_gives_are_copied() -> None:
    one = burner()
    made = session(FIXED, one)
    array, value = np.zeros((LENGTH, WIDTH), np.float32), OrtValue.on(one, np.ones((LENGTH, WIDTH), np.float32))
    states = [made.create_run_state({"past": "present"}, {"past": x}) for x in (array, value)]
    array[...] = 9
    feed = {"x": EMBED[:1], "at": np.zeros((LENGTH, 1), np.float32)}
    for state in states:
        made.run([], feed, state=state)
    assert value.numpy().mean() == 1
    assert [state.values()["past"].mean() for state in states] == [0, 1]
    states[0].values()["past"][...] = 5
    assert states[0].values()["past"].mean() == 0


@pytest.mark.parametrize("place", ["cpu", "device"])
def test_a_binding_uses_a_state(place: str) -> None:
    made = session(FIXED, *([burner()] if place == "device" else []))
    decoder = Decoder(made, fixed=True)
    state, binding = decoder.start(), made.io_binding()
    binding.bind_state(state)
    binding.bind_output("y")
    for position, word in enumerate((1, 2)):
        binding.bind_cpu_input("x", EMBED[word : word + 1])
        binding.bind_cpu_input("at", np.eye(LENGTH, dtype=np.float32)[:, position : position + 1])
        made.run_with_iobinding(binding)
    [y] = binding.copy_outputs_to_cpu()
    np.testing.assert_allclose((y * LENGTH @ OUT)[0], scores_of([1, 2]), rtol=1e-5)
    binding.clear_binding_inputs()
    with pytest.raises(InvalidArgument, match="past"):
        binding.run()


def test_a_verified_run_takes_a_state() -> None:
    made = session(FIXED, burner(), verify="first")
    decoder = Decoder(made, fixed=True)
    state = decoder.start()
    for position in range(3):
        np.testing.assert_allclose(decoder.step(state, position, 1), scores_of([1] * (position + 1)), rtol=1e-5)
    feed = {"x": EMBED[:1], "at": np.eye(LENGTH, dtype=np.float32)[:, 3:4]}
    made.run(None, feed, state=state, verify="partition")
    assert made.verification.ok
    np.testing.assert_allclose(decoder.step(state, 4, 1), scores_of([1, 1, 1, 0, 1]), rtol=1e-5)


def test_two_runs_cannot_use_one_state() -> None:
    inside, finish = threading.Event(), threading.Event()
    one = Burner(lambda node: node.op_type == "Add")
    made = session(FIXED, one)
    decoder = Decoder(made, fixed=True)
    state = decoder.start()

    class Slow(list[Any]):
        def append(self, entry: Any) -> None:
            inside.set()
            assert finish.wait(30)
            list.append(self, entry)

    one.donated = Slow()
    thread = threading.Thread(target=decoder.step, args=(state, 0, 1))
    thread.start()
    assert inside.wait(30)
    feed = {"x": EMBED[:1], "at": np.zeros((LENGTH, 1), np.float32)}
    calls: tuple[Callable[[], Any], ...] = (
        lambda: made.run(None, feed, state=state),
        state.copy,
        state.values,
        lambda: state.rewind(1, 0),
    )
    for call, what in zip(calls, ("run", "copied", "read", "rewound"), strict=True):
        with pytest.raises(InvalidArgument, match=f"cannot be {what} while a run uses it; give each run a state of its own"):
            call()
    finish.set()
    thread.join(30)
    np.testing.assert_allclose(state.values()["past"][:1], EMBED[[1]], rtol=1e-6)


def test_a_run_that_fails_before_it_begins_leaves_the_state(decoder: Decoder) -> None:
    state = decoder.start()
    decoder.step(state, 0, 1)
    for feed in ({}, {"x": np.zeros((1, 3), np.float32)}):
        with pytest.raises(InvalidArgument):
            decoder.session.run(None, feed, state=state)
    options = ort_lite.RunOptions()
    options.add_run_config_entry("unknown.key", "1")
    at = {"at": np.zeros((LENGTH, 1), np.float32)} if decoder.fixed else {}
    with pytest.raises(InvalidArgument, match="unknown"):
        decoder.session.run(None, {"x": EMBED[:1], **at}, options, state=state)
    np.testing.assert_allclose(decoder.step(state, 1, 2), scores_of([1, 2]), rtol=1e-5)


def test_a_run_that_fails_over_donated_memory_loses_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Burner(lambda node: node.op_type == "Add")
    decoder = Decoder(session(FIXED, one), fixed=True)
    state = decoder.start()
    decoder.step(state, 0, 1)
    other = state.copy()
    decoder.step(state, 1, 1)
    with monkeypatch.context() as patch:
        patch.setattr(one, "donated", None)
        with pytest.raises(RuntimeException, match="append"):
            decoder.step(state, 2, 1)
        shared = other.copy()
        with pytest.raises(RuntimeException, match="append"):
            decoder.step(other, 1, 2)  # two states hold the values: nothing was donated
    with pytest.raises(
        RuntimeException, match=r"has no values: a run that failed .*append.*create another one, or run a `copy\(\)`"
    ):
        state.values()
    np.testing.assert_allclose(decoder.step(other, 1, 2), scores_of([1, 2]), rtol=1e-5)
    del shared


def test_a_run_that_is_cancelled_leaves_a_state_on_the_cpu() -> None:
    decoder = Decoder(session(GROWING), fixed=False)
    state, options = decoder.start(), ort_lite.RunOptions()
    options.terminate = True
    with pytest.raises(RunTerminated):
        decoder.session.run(None, {"x": EMBED[:1]}, options, state=state)
    np.testing.assert_allclose(decoder.step(state, 0, 1), scores_of([1]), rtol=1e-5)


def test_what_does_not_fit_is_told_of() -> None:
    made = session(GROWING)
    zeros = {"past": np.zeros((0, WIDTH), np.float32)}
    for links, initial, message in (
        ({"pats": "present"}, zeros, "the model has no input 'pats'; it has 'past', 'x'"),
        ({"past": "presents"}, zeros, "the model has no output 'presents'; it has 'present', 'y'"),
        ({"past": "present"}, {}, "no initial value for past"),
        ({"past": "present"}, {**zeros, "x": EMBED[:1]}, "initial values for x besides those of the state"),
        ({"past": "y", "x": "y"}, {**zeros, "x": EMBED[:1]}, "two inputs have one output"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            made.create_run_state(links, initial)
    state = made.create_run_state({"past": "present"}, zeros)
    assert repr(state) == "RunState(past = present)"
    with pytest.raises(InvalidArgument, match=r"keeps the output 'present'; its `values\(\)` returns it as 'past'"):
        made.run(["present"], {"x": EMBED[:1]}, state=state)
    with pytest.raises(InvalidArgument, match="input 'past' is fed, and the run state has a value for it"):
        made.run(None, {"x": EMBED[:1], **zeros}, state=state)
    with pytest.raises(InvalidArgument, match="was made by another session"):
        session(GROWING).run(None, {"x": EMBED[:1]}, state=state)
    wrong = session("main (float[N] a) => (int64[N] b) { b = Cast<to=7>(a) }")
    with pytest.raises(
        InvalidArgument, match=r"input 'a' is tensor\(float\), output 'b' is tensor\(int64\); expected one type"
    ):
        wrong.create_run_state({"a": "b"}, {"a": EMBED[0]})


def test_a_sequence_is_kept() -> None:
    text = """main (seq(float[N]) past, float[N] x) => (seq(float[N]) present, int64 y) {
        present = SequenceInsert(past, x)  y = SequenceLength(present)
    }"""
    made = session(text)
    state = made.create_run_state({"past": "present"}, {"past": [EMBED[0]]})
    assert [int(made.run(None, {"x": EMBED[0]}, state=state)[0]) for _ in range(2)] == [2, 3]
    with pytest.raises(InvalidArgument, match="'past' is list"):
        state.rewind(1, 0)


def test_caches_of_group_query_attention_grow_in_a_state() -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> main
        (float[1,S,8] q, float[1,S,4] k, float[1,S,4] v, float[1,1,P,4] pk, float[1,1,P,4] pv, int32[1] last, int32 total)
        => (float[1,S,8] y, float[1,1,T,4] nk, float[1,1,T,4] nv) {
        y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=1>(q, k, v, pk, pv, last, total)
    }"""
    made = ort_lite.InferenceSession(onnx.parser.parse_model(text))
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, LENGTH, size)).astype(np.float32) for size in (8, 4, 4))
    empty = {name: np.zeros((1, 1, 0, 4), np.float32) for name in ("pk", "pv")}

    def step(state: RunState, first: int, end: int) -> Array:
        feed = {"q": q[:, first:end], "k": k[:, first:end], "v": v[:, first:end]}
        y: Array = made.run(["y"], {**feed, "last": np.array([end - 1], np.int32), "total": np.int32(end)}, state=state)[0]
        return y

    links = {"pk": "nk", "pv": "nv"}
    whole = step(made.create_run_state(links, empty), 0, LENGTH)
    state = made.create_run_state(links, empty)
    parts = [step(state, 0, 2), *(step(state, t, t + 1) for t in range(2, LENGTH))]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-5)
    state.rewind(3, axis=2)
    np.testing.assert_allclose(step(state, 3, 4), whole[:, 3:4], rtol=1e-5)
