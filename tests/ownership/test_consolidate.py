"""docs/specification.md, rows 1.14, 1.15, 1.19 and 1.20: all tensors of a model in one buffer."""

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import ort_lite
from ort_lite import SerializeOptions, TensorBufferOptions, span_of
from ort_lite.graph import Model
from ort_lite.load.spans import Backing
from ort_lite.load.tensors import model_tensors
from ort_lite.memory.planning.plan import ArenaUsage, MemoryPlan, TensorAllocation, TensorBinding
from ort_lite.memory.planning.requests import ArenaRole
from tests.ownership.models import W, constant, everywhere, inline, model, raw, slot

PLACES = [
    "w",
    "if.then_branch",
    "inner",
    "constant.value",
    "many.tensors[0]",
    "many.tensors[1]",
    "first",
    "second",
    "Scaled.scale",
]


def contents(loaded: Model) -> list[tuple[str, bytes]]:
    return [(one.name, one.array.tobytes()) for one in model_tensors(loaded)]


def owners(loaded: Model) -> dict[str, Backing | None]:
    return {one.name: one.span.owner for one in model_tensors(loaded) if one.span is not None}


@pytest.mark.parametrize("alignment", [0, 64, 96])
def test_spec_1_14_one_buffer_holds_every_tensor_at_aligned_places(alignment: int) -> None:
    loaded = ort_lite.load(everywhere())
    before = contents(loaded)
    options = TensorBufferOptions(alignment=alignment)
    consolidate: Callable[..., object] = ort_lite.consolidate_tensors_to_buffer
    assert consolidate(loaded, options) is None
    assert contents(loaded) == before
    spans = [one.span for one in model_tensors(loaded) if one.span is not None]
    assert {one.mode for one in spans} == {"borrowed"}
    assert len({id(one.owner) for one in spans}) == 1
    addresses = [one.address for one in spans]
    assert addresses == sorted(addresses)
    assert all(b >= a + len(one) for a, b, one in zip(addresses, addresses[1:], spans, strict=False))
    if alignment:
        assert [place % alignment for place in addresses] == [0] * len(addresses)


def test_spec_1_14_small_tensors_stay_the_same_objects() -> None:
    loaded = ort_lite.load(everywhere())
    small = constant(loaded, "small")
    ort_lite.consolidate_tensors_to_buffer(loaded, SerializeOptions())
    assert constant(loaded, "small") is small
    assert span_of(constant(loaded, "w")) is not None


def test_spec_1_14_a_second_time_nothing_moves_and_another_alignment_moves_all() -> None:
    loaded = ort_lite.load(everywhere())
    ort_lite.consolidate_tensors_to_buffer(loaded)
    arrays = [one.array for one in model_tensors(loaded)]
    ort_lite.consolidate_tensors_to_buffer(loaded)
    assert all(a is one.array for a, one in zip(arrays, model_tensors(loaded), strict=True))
    first = slot(loaded, "w").span
    ort_lite.consolidate_tensors_to_buffer(loaded, TensorBufferOptions(alignment=4096))
    second = slot(loaded, "w").span
    assert first is not None and second is not None and first.owner is not second.owner
    assert second.address % 4096 == 0


def test_spec_1_14_where_nothing_qualifies_nothing_happens() -> None:
    loaded = ort_lite.load(inline())
    array = constant(loaded)
    ort_lite.consolidate_tensors_to_buffer(loaded, TensorBufferOptions(raw_data_threshold=2**40))
    assert constant(loaded) is array
    empty = ort_lite.load(model(raw(W[:0], "w")))
    ort_lite.consolidate_tensors_to_buffer(empty)
    assert constant(empty).size == 0


def test_spec_1_14_an_array_in_two_places_stays_one() -> None:
    loaded = ort_lite.load(everywhere())
    slot(loaded, "many.tensors[0]").array = constant(loaded, "w")
    ort_lite.consolidate_tensors_to_buffer(loaded)
    assert slot(loaded, "many.tensors[0]").array is constant(loaded, "w")


def test_spec_1_14_types_without_a_numpy_name_and_scalars_move_too() -> None:
    import ml_dtypes

    kinds = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.bool_, np.complex64]
    arrays = [np.array([[1, 0], [1, 1]]).astype(kind) for kind in kinds] + [np.array(3, np.int64)]
    loaded = ort_lite.load(model(*(raw(array, f"a{k}") for k, array in enumerate(arrays)), raw(W, "w")))
    ort_lite.consolidate_tensors_to_buffer(loaded)
    assert len({id(owner) for owner in owners(loaded).values()}) == 1
    for k, array in enumerate(arrays):
        moved = constant(loaded, f"a{k}")
        assert (moved.dtype, moved.shape, moved.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_spec_1_15_attributes_nested_graphs_lists_and_functions_are_covered() -> None:
    loaded = ort_lite.load(everywhere())
    ort_lite.consolidate_tensors_to_buffer(loaded, ort_lite.ParseOptions())
    found = owners(loaded)
    assert set(found) == (set(PLACES) | {"small"}) - {"if.then_branch"}
    assert {name for name, owner in found.items() if owner is None} == {"small"}
    assert len({id(owner) for name, owner in found.items() if name != "small"}) == 1
    inner = [one for one in model_tensors(loaded) if one.name == "inner"]
    assert len(inner) == 2, "both branches have one"
    np.testing.assert_array_equal(inner[0].array, W + 1)


def test_spec_1_15_tensors_of_typed_fields_have_no_raw_bytes_and_stay() -> None:
    loaded = ort_lite.load(everywhere())
    typed = constant(loaded, "typed")
    assert span_of(typed) is None
    ort_lite.consolidate_tensors_to_buffer(loaded)
    assert constant(loaded, "typed") is typed


def test_spec_1_19_each_tensor_holds_the_buffer_by_itself() -> None:
    loaded = ort_lite.load(everywhere())
    ort_lite.consolidate_tensors_to_buffer(loaded)
    owner = weakref.ref(owners(loaded)["w"])
    kept = slot(loaded, "many.tensors[1]").array
    del loaded
    gc.collect()
    assert owner() is not None
    np.testing.assert_array_equal(kept, W + 6)
    del kept
    gc.collect()
    assert owner() is None


def test_spec_1_20_a_consolidated_model_is_a_plans_constant_arena() -> None:
    loaded = ort_lite.load(everywhere())
    ort_lite.consolidate_tensors_to_buffer(loaded, TensorBufferOptions(alignment=64))
    spans = {one.name: one.span for one in model_tensors(loaded) if one.span is not None}
    (owner,) = {one.owner for one in spans.values()}
    assert owner is not None
    arena = ArenaUsage("cpu", owner.nbytes, owner.nbytes, ArenaRole.constant, "cpu")
    allocations = {
        name: TensorAllocation(
            name,
            "cpu",
            one.address - owner.address,
            len(one),
            TensorBinding(ArenaRole.constant, "cpu", one.address - owner.address, "cpu"),
        )
        for name, one in spans.items()
    }
    plan = MemoryPlan(tensor_allocs=allocations, constant_arenas={"cpu": arena})
    assert not plan.constant_arenas["cpu"].is_staged
    place = plan.get_allocation("constant.value")
    assert place.offset % 64 == 0
    assert place.offset + place.size <= arena.total_size


def test_spec_1_20_a_session_runs_on_a_consolidated_model() -> None:
    loaded = ort_lite.load(inline())
    ort_lite.consolidate_tensors_to_buffer(loaded, TensorBufferOptions(alignment=64))
    session = ort_lite.InferenceSession(loaded, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.ones((1, 1024), np.float32)})
    np.testing.assert_array_equal(y, (W + 1)[None])
