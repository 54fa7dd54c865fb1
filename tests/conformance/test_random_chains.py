"""Chains of operators on images: what fusions, storage orders and memory plans make of them, against onnxruntime.

A model has one input of open batch and sides, and is run in two sizes by the same session.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import ort_lite
from ort_lite.dtypes import Array
from tests.conformance.drawing import SEEDS, drawn, numbers
from tests.conformance.random_models import options
from tests.cpu.check import assert_close

Dims = tuple[int | str, ...]
"""Sizes, or how an open one follows from those of the input: where two are spelled alike, they are equal."""
UNARY = ("Relu", "Sigmoid", "Tanh", "Neg", "LeakyRelu", "HardSwish", "Abs")


@dataclass
class Chain:
    """Nodes over four axes, drawn one after the other; each reads the latest value, some an earlier one too."""

    draw: st.DrawFn
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    values: list[tuple[str, Dims]] = field(default_factory=lambda: [("x", ("N", 3, "H", "W"))])

    def constant(self, array: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(numbers(shape, "float32", self.draw(SEEDS), low=-1, high=1))

    def other(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node beside the chain."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def add(self, op: str, dims: Dims, *more: str, **attributes: Any) -> None:
        self.values.append((self.other(op, self.values[-1][0], *more, **attributes), dims))

    def step(self) -> None:
        kinds = (
            self.function,
            self.function,
            self.pair,
            self.pair,
            self.transpose,
            self.window,
            self.cut,
            self.reduce,
            self.rows,
        )
        self.draw(st.sampled_from(kinds))()

    def function(self) -> None:
        self.add(self.draw(st.sampled_from(UNARY)), self.values[-1][1])

    def pair(self) -> None:
        """With a value of the same form, itself or an earlier one, or with constants: one, one a channel, one a column."""
        dims = self.values[-1][1]
        same = [name for name, other in self.values if other == dims]
        shapes: list[tuple[int, ...] | None] = [(), None, None]  # None: no constant
        shapes += [(1, size, 1, 1) for size in dims[1:2] if isinstance(size, int)]
        shapes += [(size,) for size in dims[3:] if isinstance(size, int)]
        op, shape = self.draw(st.sampled_from(["Add", "Mul", "Sub"])), self.draw(st.sampled_from(shapes))
        self.add(op, dims, self.draw(st.sampled_from(same)) if shape is None else self.weights(*shape))

    def transpose(self) -> None:
        perm = self.draw(st.sampled_from([(0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2), (1, 0, 2, 3), (0, 2, 1, 3)]))
        dims = self.values[-1][1]
        self.add("Transpose", tuple(dims[axis] for axis in perm), perm=perm)

    def window(self) -> None:
        """Convolution, pooling or normalisation; they need to know how many channels there are."""
        n, c, h, w = self.values[-1][1]
        kind = self.draw(st.sampled_from(["conv", "pointwise", "depthwise", "max", "average", "batch norm"]))
        around = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        if kind == "max":
            self.add("MaxPool", (n, c, h, w), **around)
        elif kind == "average" or isinstance(c, str):
            self.add("AveragePool", (n, c, h, w), **around)
        elif kind == "batch norm":
            variance = self.constant(numbers((c,), "float32", self.draw(SEEDS), low=0.5, high=2))
            self.add("BatchNormalization", (n, c, h, w), self.weights(c), self.weights(c), self.weights(c), variance)
        elif kind == "pointwise":
            self.add("Conv", (n, 4, h, w), self.weights(4, c, 1, 1))
        elif kind == "conv":
            self.add("Conv", (n, 5, h, w), self.weights(5, c, 3, 3), self.weights(5), pads=[1, 1, 1, 1])
        else:
            self.add("Conv", (n, c, h, w), self.weights(c, 1, 3, 3), pads=[1, 1, 1, 1], group=c)

    def cut(self) -> None:
        """Every second element of an axis, or one axis twice over."""
        dims, axis = list(self.values[-1][1]), self.draw(st.integers(0, 3))
        size = dims[axis]
        if self.draw(st.booleans()):
            dims[axis] = 2 * size if isinstance(size, int) else f"2({size})"
            self.add("Concat", tuple(dims), self.values[-1][0], axis=axis)
        else:
            dims[axis] = -(-size // 2) if isinstance(size, int) else f"({size})/2"
            bounds = [self.constant(np.array([value])) for value in (0, 2**31 - 1, axis, 2)]
            self.add("Slice", tuple(dims), *bounds)

    def reduce(self) -> None:
        dims, axis = list(self.values[-1][1]), self.draw(st.integers(1, 3))
        op = self.draw(st.sampled_from(["ReduceMean", "ReduceMax", "Softmax"]))
        if op == "Softmax":
            self.add(op, tuple(dims), axis=axis)
        else:
            dims[axis] = 1
            self.add(op, tuple(dims), self.constant(np.array([axis])), keepdims=1)

    def rows(self) -> None:
        """A product or a normalisation over the last axis, where its size is known; else a change of form and back."""
        n, c, h, w = self.values[-1][1]
        if isinstance(w, str):
            self.add("Reshape", (n, c, f"({h} {w})", 1), self.constant(np.array([0, 0, -1, 1])))
        elif self.draw(st.booleans()):
            self.add("MatMul", (n, c, h, 6), self.weights(w, 6))
        else:
            self.add("LayerNormalization", (n, c, h, w), self.weights(w), self.weights(w), axis=-1)

    def sizes(self) -> None:
        """What exporters make of `x.view(x.shape[0], -1)`, `zeros_like(x)` and `arange(x.shape[-1])`."""
        (latest, dims), kind = self.values[-1], self.draw(st.sampled_from(["view", "like", "range"]))
        shape = self.other("Shape", latest)
        if kind == "view":
            kept = self.draw(st.integers(0, 3))
            front = self.other("Slice", shape, self.constant(np.array([0])), self.constant(np.array([kept])))
            whole = self.other("Concat", front, self.constant(np.array([-1])), axis=0)
            flat = self.other("Reshape", latest, whole)
            normal = self.other("Softmax", flat, axis=-1)
            self.values.append((self.other("Reshape", normal, shape), dims))
        elif kind == "like":
            self.add("Add", dims, self.other("ConstantOfShape", shape, value=numpy_helper.from_array(np.ones(1, np.float32))))
        else:
            last = self.other("Gather", shape, self.constant(np.array(3)), axis=0)
            places = self.other("Range", self.constant(np.array(0)), last, self.constant(np.array(1)))
            self.add("Mul", dims, self.other("Cast", places, to=onnx.TensorProto.FLOAT))


@st.composite
def models(draw: st.DrawFn) -> bytes:
    """Three to seven nodes; the last value is an output, and at times one in the middle is."""
    chain = Chain(draw)
    for _ in range(draw(st.integers(3, 7))):
        chain.step()
    names = [name for name, _ in chain.values[1:]]
    shown = dict.fromkeys([names[-1], *draw(st.lists(st.sampled_from(names), max_size=1))])
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3, "H", "W"])
    results = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in shown]
    graph = helper.make_graph(chain.nodes, "chain", [x], results, chain.constants)
    made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    return made


def onnxruntime_session(model: bytes) -> Any:
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, plain, providers=["CPUExecutionProvider"])


@pytest.mark.slow
@drawn(15, model=models(), seed=SEEDS, optimised=st.booleans())
def test_chains_on_images(model: bytes, seed: int, optimised: bool) -> None:
    oracle, session = onnxruntime_session(model), ort_lite.InferenceSession(model, options(optimised))
    text = onnx.printer.to_text(onnx.load_from_string(model))
    for shape in ((2, 3, 5, 4), (1, 3, 3, 6)):
        feed = {"x": numbers(shape, "float32", seed, low=-2, high=2)}
        before = feed["x"].copy()
        results = zip(session.run(None, feed), oracle.run(None, feed), session.get_outputs(), strict=True)
        for got, want, output in results:
            scale = max(1.0, float(np.abs(want).max(initial=0)))
            assert_close(got, want, 1e-4, 1e-4 * scale, f"{output.name} of {text} for {shape}, optimised: {optimised}")
        assert np.array_equal(feed["x"], before)
