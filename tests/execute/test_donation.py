"""Donation: partitions get the memory of inputs that nobody reads afterwards, and never any other."""

import random
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite import OrtValue
from ort_lite.errors import ProviderError
from ort_lite.graph import Model
from tests.execute.burner import Burner, Burning, session
from tests.partition.random_graphs import feeds, random_graph
from tests.provider.numpy_provider import FUNCTIONS, CpuStandIn, reference
from tests.provider.texts import plain

X = np.array([1, -2, 3], np.float32)
CHAIN = "main (float[N] x) => (float[N] y) { a = Neg(x)  b = Abs(a)  y = Neg(b) }"


def run(text: str, **more: Any) -> tuple[Burner, list[Any]]:
    burner = Burner()
    return burner, session(text, burner, **more).run(None, {"x": X})


def test_copies_and_values_between_partitions_are_donated() -> None:
    burner, [y] = run(CHAIN)
    assert burner.donated == [("Neg", [0]), ("Abs", [0]), ("Neg", [0])]
    np.testing.assert_array_equal(y, -abs(X))


def test_a_value_that_two_steps_read_is_not_donated() -> None:
    burner, [y] = run("main (float[N] x) => (float[N] y) { a = Neg(x)  b = Abs(a)  y = Add(a, b) }")
    assert burner.donated == [("Neg", [0]), ("Abs", []), ("Add", [1])]
    np.testing.assert_array_equal(y, abs(X) - X)


def test_a_value_that_a_node_reads_twice_is_not_donated_or_read_once() -> None:
    _, [y] = run("main (float[N] x) => (float[N] y) { a = Neg(x)  y = Mul(a, a) }")
    np.testing.assert_array_equal(y, X * X)


def test_outputs_are_not_donated() -> None:
    burner, [a, y] = run("main (float[N] x) => (float[N] a, float[N] y) { a = Neg(x)  y = Abs(a) }")
    assert burner.donated[1] == ("Abs", [])
    np.testing.assert_array_equal(a, -X)
    np.testing.assert_array_equal(y, abs(X))


def test_a_value_that_the_cpu_reads_as_well_is_not_donated() -> None:
    burner = Burner(lambda node: node.op_type != "Tanh")
    text = "main (float[N] x) => (float[N] y) { a = Neg(x)  b = Tanh(a)  c = Abs(a)  y = Add(b, c) }"
    session(text, burner).run(None, {"x": X})
    assert burner.donated == [("Neg", [0]), ("Abs", []), ("Add", [0, 1])]


def test_constants_are_not_donated() -> None:
    burner, _ = run("main (float[N] x) => (float[N] y) <float[1] w = {2}> { a = Neg(w)  b = Neg(x)  y = Mul(a, b) }")
    again, _ = run("main (float[N] x) => (float[N] y) <float[1] w = {2}> { y = Mul(w, x) }")
    assert (burner.donated[-1], again.donated) == (("Mul", [0, 1]), [("Mul", [0])])


def test_what_the_caller_binds_is_not_donated() -> None:
    burner = Burner()
    made = session(CHAIN, burner)
    value = OrtValue.on(burner, X)
    for _ in range(2):
        made.run_with_ort_values(None, {"x": value})
    assert burner.donated == [("Neg", []), ("Abs", [0]), ("Neg", [0])] * 2
    np.testing.assert_array_equal(value.numpy(), X)


def test_a_verified_run_donates_nothing() -> None:
    burner = Burner()
    made = session(CHAIN, burner, verify="first")
    made.run(None, {"x": X})
    assert made.verification.ok
    assert burner.donated == [("Neg", []), ("Abs", []), ("Neg", [])]
    made.run(None, {"x": X}, verify="partition")
    made.run(None, {"x": X})
    assert [positions for _, positions in burner.donated[3:]] == [[], [], [], [0], [0], [0]]


def test_with_a_next_provider_nothing_is_donated(monkeypatch: pytest.MonkeyPatch) -> None:
    burner = Burner()
    made = session(CHAIN, (burner, {"on_run_error": "next"}))
    monkeypatch.setattr(burner, "donated", None)  # each call fails
    [y] = made.run(None, {"x": X})
    np.testing.assert_array_equal(y, -abs(X))


def test_a_profile_does_not_read_what_was_donated() -> None:
    options = plain()
    options.enable_profiling = True
    burner = Burner()
    made = session(CHAIN, burner, options=options)
    made.run(None, {"x": X})
    made.discard_profile()
    assert burner.donated == [("Neg", [0]), ("Abs", [0]), ("Neg", [0])]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_random_models_never_read_what_was_donated(seed: int, parallel: bool) -> None:
    graph, inputs = random_graph(seed, 30), feeds(seed)
    wanted = reference(graph, inputs)
    chosen = random.Random(seed).sample(sorted(FUNCTIONS), 5)
    options = plain()
    if parallel:
        options.execution_mode = ort_lite.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 3
    burner = Burner(lambda node: node.op_type in chosen)
    made = ort_lite.InferenceSession(Model(graph, {"": 17}), options, providers=[burner, CpuStandIn()])
    feed = {value.name: x for value, x in zip(graph.inputs, inputs, strict=True)}
    for _ in range(2):
        for got, expected in zip(made.run(None, feed), wanted, strict=True):
            np.testing.assert_array_equal(got, expected)


# Aliases

UPDATE = "main (float[N] past, float[N] x) => (float[N] present, float[N] y) { present = Add(past, x)  y = Neg(x) }"


def bound(burner: Burner, made: ort_lite.InferenceSession) -> tuple[Any, OrtValue]:
    cache = OrtValue.on(burner, np.zeros(3, np.float32))
    binding = made.io_binding()
    binding.bind_ortvalue_input("past", cache)
    binding.bind_cpu_input("x", X)
    binding.bind_ortvalue_output("present", cache)
    return binding, cache


@pytest.mark.parametrize("aliases", [None, {}, {0: 0}])
def test_one_value_bound_to_both_ends_of_an_alias_is_donated(aliases: dict[int, int] | None) -> None:
    burner = Burner(lambda node: node.op_type == "Add", aliases)
    binding, cache = bound(burner, session(UPDATE, burner))
    for count in range(1, 4):
        binding.run()
        np.testing.assert_array_equal(cache.numpy(), count * X)
    own = [0] if aliases else []
    assert burner.donated == [("Add", [*own, 1])] * 3
    assert binding.get_outputs()[0] is cache


def test_the_value_of_an_alias_is_not_donated_unless_it_is_bound_to_both() -> None:
    burner = Burner(lambda node: node.op_type == "Add", {0: 0})
    made = session(UPDATE, burner)
    binding, cache = bound(burner, made)
    other = OrtValue.on(burner, np.zeros(3, np.float32))
    binding.bind_ortvalue_output("present", other)
    binding.run()
    binding.bind_ortvalue_output("present", cache)
    binding.bind_ortvalue_input("x", cache)
    binding.run()  # the same value is another input as well
    assert burner.donated == [("Add", [1]), ("Add", [])]
    np.testing.assert_array_equal(other.numpy(), X)


def test_a_first_run_that_is_verified_leaves_the_bound_memory_in_use() -> None:
    burner = Burner(lambda node: node.op_type == "Add", {0: 0})
    binding, cache = bound(burner, session(UPDATE, burner, verify="first"))
    before = cache.device_tensor
    assert before is not None
    value = before.value
    binding.run()
    assert before.value is value
    binding.run()
    assert [positions for _, positions in burner.donated] == [[], [0, 1]]
    np.testing.assert_array_equal(cache.numpy(), 2 * X)


def test_a_value_that_two_outputs_are_bound_to_is_not_donated() -> None:
    burner = Burner(lambda node: True, {0: 0})
    binding, cache = bound(burner, session(UPDATE, burner))
    binding.bind_ortvalue_output("y", cache)
    binding.run()
    assert burner.donated[0] == ("Add", [])


@pytest.mark.parametrize("aliases", [{0: 2}, {1: 0}, {"y": 0}, [0], {0: True}])
def test_aliases_that_are_no_positions_are_told_of(aliases: Any) -> None:
    with pytest.raises(ProviderError, match=r"BurnerExecutionProvider.*: aliases is .*expected positions of inputs"):
        session(UPDATE, Burner(lambda node: node.op_type == "Add", aliases))


def test_an_input_that_is_returned_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    made = session(CHAIN, Burner())
    monkeypatch.setattr(Burning, "returns_input", True)
    monkeypatch.setattr(Burning, "call_donating", lambda self, inputs, donated: self(inputs))
    value = OrtValue.on(made._state.selection.providers[0], X)
    with pytest.raises(ProviderError, match="returned for 'a' one of its inputs"):
        made.run_with_ort_values(None, {"x": value})
