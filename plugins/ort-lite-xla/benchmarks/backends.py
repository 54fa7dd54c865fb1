"""The operations of benchmarks/architectures.py in JAX, in PyTorch and as nodes of an ONNX model."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from onnx import NodeProto, TensorProto, helper

from ort_lite.dtypes import Array

OPSET = 23


class Operations(Protocol):
    """The operations of a backend. Values are arrays, tensors or names.

    `dtype`, the type of the computation, is "float32" or "bfloat16".
    """

    def convert(self, x: Any) -> Any:
        """Convert a float input to the type of the computation."""

    def result(self, x: Any) -> Any:
        """Convert an output to float32."""

    def add(self, x: Any, y: Any) -> Any:
        """Return x + y."""

    def mul(self, x: Any, y: Any) -> Any:
        """Return x * y."""

    def embed(self, table: Any, ids: Any) -> Any:
        """Return the rows of `table` at `ids`."""

    def linear(self, x: Any, w: Any, b: Any = None) -> Any:
        """Return x w + b."""

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        """Normalize the last axis by mean and deviation."""

    def rms_norm(self, x: Any, scale: Any) -> Any:
        """Normalize the last axis by the root of the mean square."""

    def activate(self, name: str, x: Any) -> Any:
        """Apply an activation function by its ONNX name."""

    def key_bias(self, mask: Any) -> Any:
        """Return 0 where the (batch, length) mask is 1 and -1e9 elsewhere, as (batch, 1, 1, length)."""

    def split_heads(self, x: Any, heads: int, size: int) -> Any:
        """Reshape (batch, length, heads * size) to (batch, heads, length, size)."""

    def attention(self, q: Any, k: Any, v: Any, bias: Any) -> Any:
        """Compute softmax attention of (batch, heads, length, size), as (batch, length, heads * size). k and v may have fewer heads."""

    def rotate(self, x: Any, cos: Any, sin: Any) -> Any:
        """Apply rotary position embeddings."""

    def slot_bias(self, slots: Any, slot: Any) -> Any:
        """Return 0 for the slots up to `slot` and -1e9 for later ones, as (1, 1, 1, slots)."""

    def update(self, cache: Any, slots: Any, slot: Any, x: Any) -> Any:
        """Return the (batch, heads, slots, size) cache with x at position `slot`."""

    def conv(self, x: Any, w: Any, b: Any, stride: int, pad: int) -> Any:
        """Compute a two-dimensional convolution."""

    def max_pool(self, x: Any) -> Any:
        """Take the maximum over 3 x 3 windows, with strides 2 and pads 1."""

    def mean(self, x: Any, axes: Sequence[int]) -> Any:
        """Return the mean over axes."""

    def best(self, x: Any) -> Any:
        """Return the index of the largest element of the last axis."""


class Jax:
    """The operations in JAX."""

    def __init__(self, dtype: str) -> None:
        import jax
        import jax.numpy as jnp

        self.jax, self.jnp, self.dtype = jax, jnp, dtype

    def convert(self, x: Any) -> Any:
        """Convert a float input to the type of the computation."""
        return x.astype(self.dtype)

    def result(self, x: Any) -> Any:
        """Convert an output to float32."""
        return x.astype("float32")

    def add(self, x: Any, y: Any) -> Any:
        """Return x + y."""
        return x + y

    def mul(self, x: Any, y: Any) -> Any:
        """Return x * y."""
        return x * y

    def embed(self, table: Any, ids: Any) -> Any:
        """Return the rows of `table` at `ids`."""
        return table[ids]

    def linear(self, x: Any, w: Any, b: Any = None) -> Any:
        """Return x w + b."""
        return x @ w if b is None else x @ w + b

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        """Normalize the last axis by mean and deviation, computed in float32."""
        wide = x.astype("float32")
        centred = wide - wide.mean(-1, keepdims=True)
        normal = centred * self.jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return normal.astype(x.dtype) * scale + bias

    def rms_norm(self, x: Any, scale: Any) -> Any:
        """Normalize the last axis by the root of the mean square, computed in float32."""
        wide = x.astype("float32")
        return (wide * self.jax.lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype) * scale

    def activate(self, name: str, x: Any) -> Any:
        """Apply an activation function by its ONNX name."""
        return self.jax.nn.gelu(x, approximate=False) if name == "Gelu" else getattr(self.jax.nn, name.lower())(x)

    def key_bias(self, mask: Any) -> Any:
        """Return the bias of a mask of keys."""
        return ((mask - 1) * 1e9).astype(self.dtype)[:, None, None]

    def split_heads(self, x: Any, heads: int, size: int) -> Any:
        """Split the last axis into heads."""
        return x.reshape(*x.shape[:2], heads, size).swapaxes(1, 2)

    def attention(self, q: Any, k: Any, v: Any, bias: Any) -> Any:
        """Compute attention by matrix products."""
        batch, heads, length, size = q.shape
        grouped = q.reshape(batch, k.shape[1], -1, size)
        scores = (grouped @ k.swapaxes(-1, -2)).reshape(batch, heads, length, -1) * np.array(size**-0.5, self.dtype) + bias
        shares = self.jax.nn.softmax(scores, -1).reshape(*grouped.shape[:3], -1)
        return (shares @ v).reshape(q.shape).swapaxes(1, 2).reshape(batch, length, -1)

    def rotate(self, x: Any, cos: Any, sin: Any) -> Any:
        """Apply rotary position embeddings."""
        left, right = self.jnp.split(x, 2, -1)
        return x * cos + self.jnp.concatenate([-right, left], -1) * sin

    def slot_bias(self, slots: Any, slot: Any) -> Any:
        """Return the bias of slots that are not filled yet."""
        return self.jnp.where(slots <= slot, 0, -1e9).astype(self.dtype)

    def update(self, cache: Any, slots: Any, slot: Any, x: Any) -> Any:
        """Return the cache with x at position `slot`."""
        return self.jax.lax.dynamic_update_slice_in_dim(cache, x, slot[0], 2)

    def conv(self, x: Any, w: Any, b: Any, stride: int, pad: int) -> Any:
        """Compute a two-dimensional convolution."""
        y = self.jax.lax.conv_general_dilated(x, w, (stride, stride), [(pad, pad)] * 2)
        return y + b[:, None, None]

    def max_pool(self, x: Any) -> Any:
        """Take the maximum over 3 x 3 windows, with strides 2 and pads 1."""
        low = np.array(-np.inf, self.dtype)
        pads = [(0, 0), (0, 0), (1, 1), (1, 1)]
        return self.jax.lax.reduce_window(x, low, self.jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), pads)

    def mean(self, x: Any, axes: Sequence[int]) -> Any:
        """Return the mean over axes."""
        return x.mean(tuple(axes))

    def best(self, x: Any) -> Any:
        """Return the index of the largest element of the last axis."""
        return self.jnp.argmax(x, -1)


class Torch:
    """The operations in PyTorch."""

    def __init__(self, dtype: str) -> None:
        import torch

        self.torch, self.functional, self.dtype = torch, torch.nn.functional, getattr(torch, dtype)

    def convert(self, x: Any) -> Any:
        """Convert a float input to the type of the computation."""
        return x.to(self.dtype)

    def result(self, x: Any) -> Any:
        """Convert an output to float32."""
        return x.float()

    def add(self, x: Any, y: Any) -> Any:
        """Return x + y."""
        return x + y

    def mul(self, x: Any, y: Any) -> Any:
        """Return x * y."""
        return x * y

    def embed(self, table: Any, ids: Any) -> Any:
        """Return the rows of `table` at `ids`."""
        return self.functional.embedding(ids, table)

    def linear(self, x: Any, w: Any, b: Any = None) -> Any:
        """Return x w + b."""
        return self.functional.linear(x, w.t(), b)

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        """Normalize the last axis by mean and deviation."""
        return self.functional.layer_norm(x, scale.shape, scale, bias, 1e-5)

    def rms_norm(self, x: Any, scale: Any) -> Any:
        """Normalize the last axis by the root of the mean square."""
        return self.functional.rms_norm(x, scale.shape, scale, 1e-5)

    def activate(self, name: str, x: Any) -> Any:
        """Apply an activation function by its ONNX name."""
        return getattr(self.functional, name.lower())(x)

    def key_bias(self, mask: Any) -> Any:
        """Return the bias of a mask of keys."""
        return ((mask - 1) * 1e9).to(self.dtype)[:, None, None]

    def split_heads(self, x: Any, heads: int, size: int) -> Any:
        """Split the last axis into heads."""
        return x.view(*x.shape[:2], heads, size).transpose(1, 2)

    def attention(self, q: Any, k: Any, v: Any, bias: Any) -> Any:
        """Compute attention with PyTorch's fused function."""
        fewer = k.shape[1] != q.shape[1]
        found = self.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=fewer)
        return found.transpose(1, 2).flatten(2)

    def rotate(self, x: Any, cos: Any, sin: Any) -> Any:
        """Apply rotary position embeddings."""
        left, right = x.chunk(2, -1)
        return x * cos + self.torch.cat([-right, left], -1) * sin

    def slot_bias(self, slots: Any, slot: Any) -> Any:
        """Return the bias of slots that are not filled yet."""
        return self.torch.where(slots <= slot, 0.0, -1e9).to(self.dtype)

    def update(self, cache: Any, slots: Any, slot: Any, x: Any) -> Any:
        """Write x to the cache, in place."""
        return cache.index_copy_(2, slot, x)

    def conv(self, x: Any, w: Any, b: Any, stride: int, pad: int) -> Any:
        """Compute a two-dimensional convolution."""
        return self.functional.conv2d(x, w, b, stride, pad)

    def max_pool(self, x: Any) -> Any:
        """Take the maximum over 3 x 3 windows, with strides 2 and pads 1."""
        return self.functional.max_pool2d(x, 3, 2, 1)

    def mean(self, x: Any, axes: Sequence[int]) -> Any:
        """Return the mean over axes."""
        return x.mean(tuple(axes))

    def best(self, x: Any) -> Any:
        """Return the index of the largest element of the last axis."""
        return x.argmax(-1)


class Onnx:
    """The operations as nodes of an ONNX model, as exporters write them. Values are names."""

    def __init__(self, dtype: str) -> None:
        self.type = {"float32": TensorProto.FLOAT, "bfloat16": TensorProto.BFLOAT16}[dtype]
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def constant(self, values: float | Sequence[int]) -> str:
        """Add a constant and return its name: a number of the computed type, or a list of int64."""
        name = f"constant_{len(self.constants)}"
        if isinstance(values, float):
            made = helper.make_tensor(name, self.type, [], [values])
        else:
            made = helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
        self.constants.append(made)
        return name

    def convert(self, x: str) -> str:
        """Convert a float input to the type of the computation."""
        return self.node("Cast", x, to=self.type)

    def result(self, x: str) -> str:
        """Convert an output to float32."""
        return self.node("Cast", x, to=TensorProto.FLOAT)

    def add(self, x: str, y: str) -> str:
        """Return x + y."""
        return self.node("Add", x, y)

    def mul(self, x: str, y: str) -> str:
        """Return x * y."""
        return self.node("Mul", x, y)

    def embed(self, table: str, ids: str) -> str:
        """Return the rows of `table` at `ids`."""
        return self.node("Gather", table, ids)

    def linear(self, x: str, w: str, b: str | None = None) -> str:
        """Return x w + b."""
        y = self.node("MatMul", x, w)
        return y if b is None else self.node("Add", y, b)

    def layer_norm(self, x: str, scale: str, bias: str) -> str:
        """Normalize the last axis by mean and deviation."""
        return self.node("LayerNormalization", x, scale, bias, epsilon=1e-5)

    def rms_norm(self, x: str, scale: str) -> str:
        """Normalize the last axis with primitive operators, in float32."""
        wide = self.node("Cast", x, to=TensorProto.FLOAT)
        mean = self.node("ReduceMean", self.node("Mul", wide, wide), self.constant([-1]))
        small = self.node("Cast", self.constant(1e-5), to=TensorProto.FLOAT)
        normal = self.node("Div", wide, self.node("Sqrt", self.node("Add", mean, small)))
        return self.node("Mul", self.convert(normal), scale)

    def activate(self, name: str, x: str) -> str:
        """Apply an activation function. Silu is x * Sigmoid(x)."""
        return self.node("Mul", x, self.node("Sigmoid", x)) if name == "Silu" else self.node(name, x)

    def key_bias(self, mask: str) -> str:
        """Return the bias of a mask of keys."""
        less = self.node("Sub", self.convert(mask), self.constant(1.0))
        return self.node("Unsqueeze", self.node("Mul", less, self.constant(1e9)), self.constant([1, 2]))

    def split_heads(self, x: str, heads: int, size: int) -> str:
        """Split the last axis into heads."""
        return self.node("Transpose", self.node("Reshape", x, self.constant([0, 0, heads, size])), perm=[0, 2, 1, 3])

    def attention(self, q: str, k: str, v: str, bias: str) -> str:
        """Compute attention with primitive operators."""
        heads, fewer, size = self.sizes
        if fewer != heads:
            k, v = (self._repeat(x, heads, fewer, size) for x in (k, v))
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.node("Add", self.node("Mul", scores, self.constant(size**-0.5)), bias)
        y = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        return self.node("Reshape", self.node("Transpose", y, perm=[0, 2, 1, 3]), self.constant([0, 0, heads * size]))

    sizes: tuple[int, int, int] = (1, 1, 1)
    """The heads of q, the heads of k, and their size, because names have no shapes."""

    def _repeat(self, x: str, heads: int, fewer: int, size: int) -> str:
        wide = self.node("Expand", self.node("Unsqueeze", x, self.constant([2])), self.constant([1, 1, heads // fewer, 1, 1]))
        return self.node("Reshape", wide, self.constant([0, heads, -1, size]))

    def rotate(self, x: str, cos: str, sin: str) -> str:
        """Apply rotary position embeddings."""
        size = self.sizes[2]
        left, right = (
            self.node("Slice", x, self.constant([begin]), self.constant([begin + size // 2]), self.constant([-1]))
            for begin in (0, size // 2)
        )
        turned = self.node("Concat", self.node("Neg", right), left, axis=-1)
        return self.node("Add", self.node("Mul", x, cos), self.node("Mul", turned, sin))

    def slot_bias(self, slots: str, slot: str) -> str:
        """Return the bias of slots that are not filled yet."""
        return self.node("Where", self.node("LessOrEqual", slots, slot), self.constant(0.0), self.constant(-1e9))

    def update(self, cache: str, slots: str, slot: str, x: str) -> str:
        """Select x at position `slot`, and the cache elsewhere."""
        here = self.node("Unsqueeze", self.node("Equal", slots, slot), self.constant([1]))
        return self.node("Where", here, x, cache)

    def conv(self, x: str, w: str, b: str, stride: int, pad: int) -> str:
        """Compute a two-dimensional convolution."""
        return self.node("Conv", x, w, b, strides=[stride] * 2, pads=[pad] * 4)

    def max_pool(self, x: str) -> str:
        """Take the maximum over 3 x 3 windows, with strides 2 and pads 1."""
        return self.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

    def mean(self, x: str, axes: Sequence[int]) -> str:
        """Return the mean over axes."""
        return self.node("ReduceMean", x, self.constant(list(axes)), keepdims=0)

    def best(self, x: str) -> str:
        """Return the index of the largest element of the last axis."""
        return self.node("ArgMax", x, axis=-1, keepdims=0)

    def model(
        self,
        weights: Mapping[str, Array],
        inputs: Mapping[str, tuple[Any, Sequence[int | str]]],
        outputs: Sequence[tuple[str, Any]],
    ) -> bytes:
        """Return the model as bytes. `inputs` have NumPy's element types and shapes, `outputs` ONNX's element types."""
        kept = [self._tensor(name, array) for name, array in weights.items()]
        graph = helper.make_graph(
            self.nodes,
            "benchmark",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
                for name, (kind, shape) in inputs.items()
            ],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
            [*kept, *self.constants],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        return bytes(made.SerializeToString())

    def _tensor(self, name: str, array: Array) -> TensorProto:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return TensorProto(name=name, data_type=kind, dims=array.shape, raw_data=array.tobytes())
