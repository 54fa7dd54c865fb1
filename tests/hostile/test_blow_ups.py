"""Models whose symbolic sizes would take without end, were they written out: sessions of them come soon, and run."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ort_lite
from ort_lite.dtypes import Array
from tests.case_server import Outcome

CONSTANTS = {"one": np.array([1]), "two": np.array([2]), "three": np.array([3]), "zero": np.array([0]), "minus": np.array([-1])}


def run(nodes: Sequence[onnx.NodeProto], feeds: dict[str, Array], output: str = "y") -> Array:
    """The one output; sizes of inputs are open, each of its own, but those of vectors of sizes."""
    infos = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [f"{name}_{k}" if array.dtype == np.float32 else size for k, size in enumerate(array.shape)],
        )
        for name, array in feeds.items()
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in CONSTANTS.items()]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=output)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    [result] = ort_lite.InferenceSession(model.SerializeToString()).run(None, feeds)
    return np.asarray(result)


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def node(op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, [output], output, **attributes)


def product_of_sums() -> None:
    """14 sums of two sizes each: 2**14 products."""
    count = 14
    feeds = {f"{side}{k}": ones(1 if side == "a" else k % 2) for k in range(count) for side in "ab"}
    nodes = [node("Concat", [f"a{k}", f"b{k}"], f"c{k}", axis=0) for k in range(count)]
    nodes += [node("Shape", [f"c{k}"], f"s{k}") for k in range(count)]
    nodes.append(node("Concat", [f"s{k}" for k in range(count)], "shape", axis=0))
    nodes += [node("ConstantOfShape", ["shape"], "filled"), node("Reshape", ["filled", "minus"], "y")]
    assert run(nodes, feeds).shape == (2 ** (count // 2),)


def chain(count: int, *steps: tuple[str, str]) -> list[onnx.NodeProto]:
    """A size after so many steps of arithmetic, in turn those given, as the shape of y."""
    nodes = [node("Shape", ["x"], "s0")]
    for k in range(count):
        op_type, other = steps[k % len(steps)]
        nodes.append(node(op_type, [f"s{k}", other or f"s{k}"], f"s{k + 1}"))
    return [*nodes, node("ConstantOfShape", [f"s{count}"], "y")]


def squared() -> None:
    assert run(chain(60, ("Mul", "")), {"x": ones(1)}).shape == (1,)


def divided() -> None:
    assert run(chain(1000, ("Add", "three"), ("Div", "two")), {"x": ones(1000)}).shape == (3,)


def at_least() -> None:
    assert run(chain(1000, ("Max", "two"), ("Add", "one")), {"x": ones(10)}).shape == (510,)


def sums_of_many() -> None:
    count = 300
    nodes = [node("Concat", [f"c{k}" if k else "a0", f"a{k + 1}"], f"c{k + 1}", axis=0) for k in range(count)]
    assert run(nodes, {f"a{k}": ones(1) for k in range(count + 1)}, f"c{count}").shape == (count + 1,)


def joined() -> None:
    count = 500
    feeds = {f"a{k}": ones(1) for k in range(count)}
    assert run([node("Concat", list(feeds), "y", axis=0)], feeds).shape == (count,)


def doubled() -> None:
    nodes = [node("Concat", [f"c{k}", f"c{k}"], f"c{k + 1}", axis=0) for k in range(16)]
    assert run(nodes, {"c0": ones(1)}, "c16").shape == (2**16,)


def sliced() -> None:
    nodes = [node("Slice", [f"p{k}", "start", "end", "zero"], f"p{k + 1}") for k in range(300)]
    assert run(nodes, {"p0": ones(8), "start": np.array([0]), "end": np.array([7])}, "p300").shape == (7,)


CASES: dict[str, Callable[[], None]] = {
    "a product of 14 sums": product_of_sums,
    "a size squared 60 times": squared,
    "a size halved 500 times": divided,
    "a size of at least 2, 500 times": at_least,
    "a sum of 301 sizes": sums_of_many,
    "500 sizes along an axis": joined,
    "a size doubled 16 times": doubled,
    "a size cut 300 times": sliced,
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_of_a_model_stay_small(outcome: Outcome, name: str) -> None:
    assert outcome(__name__, name, seconds=30) == ""
