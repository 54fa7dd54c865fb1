"""Outputs that a program computes in the memory of an input: the present of a cache in its past."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import ort_lite
from ort_lite.dtypes import Array

BATCH, HEADS, SIZE, LENGTH = 2, 2, 8, 12
CACHE = (BATCH, HEADS, LENGTH, SIZE)


def session(*, again: bool = False) -> Any:
    """Return a session of one GroupQueryAttention; `again`: another node reads its past as well."""
    inputs = ["q", "k", "v", "past_key", "past_value", "last", "total"]
    attributes: dict[str, Any] = {"num_heads": HEADS, "kv_num_heads": HEADS}
    nodes = [helper.make_node("GroupQueryAttention", inputs, ["y", "key", "value"], domain="com.microsoft", **attributes)]
    nodes += [helper.make_node("ReduceSum", ["past_key"], ["sum"], keepdims=0)] * again
    shapes = dict.fromkeys("qkv", (BATCH, 1, HEADS * SIZE)) | {"past_key": CACHE, "past_value": CACHE}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    values += [helper.make_tensor_value_info(name, TensorProto.INT32, (n,)) for name, n in (("last", BATCH), ("total", 1))]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "key", "value", *["sum"] * again)]
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", values, outputs), opset_imports=imports, ir_version=9)
    return ort_lite.InferenceSession(model)


def feed(total: int) -> dict[str, Array]:
    random = np.random.default_rng(total)
    found: dict[str, Array] = {name: random.normal(size=(BATCH, 1, HEADS * SIZE)).astype(np.float32) for name in "qkv"}
    found |= {name: random.normal(size=CACHE).astype(np.float32) for name in ("past_key", "past_value")}
    return found | {"last": np.full(BATCH, total - 1, np.int32), "total": np.array([total], np.int32)}


@pytest.mark.parametrize("total", [2, 7, LENGTH])
def test_a_cache_is_updated_where_it_is(total: int) -> None:
    one, given = session(), feed(total)
    y, key, value = one.run(None, given)
    before = given["past_key"].copy()
    found = one._run_into(given, {"y": None, "key": given["past_key"], "value": given["past_value"]})
    assert found["key"] is given["past_key"] and found["value"] is given["past_value"]
    np.testing.assert_array_equal(found["y"], y)
    np.testing.assert_array_equal(found["key"][:, :, :total], key[:, :, :total])
    np.testing.assert_array_equal(found["value"][:, :, :total], value[:, :, :total])
    np.testing.assert_array_equal(found["key"][:, :, total:], before[:, :, total:])


def test_an_input_that_is_read_twice_is_kept() -> None:
    one, given = session(again=True), feed(5)
    _, key, _, total = one.run(None, given)
    before = given["past_key"].copy()
    found = one._run_into(given, {"key": given["past_key"]})
    assert found["key"] is not given["past_key"]
    np.testing.assert_array_equal(given["past_key"], before)
    np.testing.assert_array_equal(found["key"], key)
    np.testing.assert_array_equal(found["sum"], total)


def test_memory_of_another_input_is_not_taken() -> None:
    one, given = session(), feed(5)
    _, key, _ = one.run(None, given)
    before = given["past_value"].copy()
    found = one._run_into(given, {"key": given["past_value"]})
    np.testing.assert_array_equal(given["past_value"], before)
    np.testing.assert_array_equal(found["key"], key)


def test_one_array_for_two_inputs_is_not_taken() -> None:
    one, given = session(), feed(5)
    given["past_value"] = given["past_key"]
    wanted = one.run(None, given)
    found = one._run_into(given, {"key": given["past_key"]})
    for got, want in zip((found["y"], found["key"], found["value"]), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_bound_memory_is_updated_in_place() -> None:
    """A TensorScatter whose cache is bound to both sides, in a chain of runs."""
    node = helper.make_node("TensorScatter", ["past", "new", "at"], ["present"], axis=2)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 2, n, 4)) for name, n in (("past", 6), ("new", 1))]
    values.append(helper.make_tensor_value_info("at", TensorProto.INT64, (1,)))
    outputs = [helper.make_tensor_value_info("present", TensorProto.FLOAT, (1, 2, 6, 4))]
    graph = helper.make_graph([node], "g", values, outputs)
    one = ort_lite.InferenceSession(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11))
    cache = ort_lite.OrtValue.ortvalue_from_numpy(np.zeros((1, 2, 6, 4), np.float32))
    memory = cache.numpy()
    binding = one.io_binding()
    binding.bind_ortvalue_input("past", cache)
    binding.bind_ortvalue_output("present", cache)
    for step in range(6):
        binding.bind_cpu_input("new", np.full((1, 2, 1, 4), step + 1, np.float32))
        binding.bind_cpu_input("at", np.array([step]))
        one.run_with_iobinding(binding)
    assert one._in_place() == {"present": "past"}
    assert cache.numpy() is memory or np.shares_memory(cache.numpy(), memory)
    np.testing.assert_array_equal(cache.numpy(), np.broadcast_to(np.arange(1, 7)[:, None], (1, 2, 6, 4)))
