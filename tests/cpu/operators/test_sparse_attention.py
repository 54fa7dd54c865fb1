"""SparseAttention of com.microsoft, against onnxruntime, which writes to the memory of the past."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from tests.cpu.check import run_op
from tests.cpu.operators.test_microsoft_forms import HOW

HEADS, KV_HEADS, SIZE, BLOCK, BLOCKS = 4, 2, 16, 16, 5
LENGTH = BLOCK * BLOCKS


def draw(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def layouts(count: int, seed: int = 0) -> tuple[Array, Array]:
    """Draw layouts with the diagonal, and some of what is below."""
    mask = np.tril(np.random.default_rng(seed).random((count, BLOCKS, BLOCKS)) < 0.4) | np.eye(BLOCKS, dtype=bool)
    starts = np.concatenate([np.zeros((count, 1), int), mask.sum(2).cumsum(1)], 1).astype(np.int32)
    columns = np.full((count, starts[:, -1].max()), -1, np.int32)
    for layout, found in zip(mask, columns, strict=True):
        found[: layout.sum()] = np.nonzero(layout)[1]
    return starts, columns


def feeds(
    batch: int, rows: int, total: int, lengths: list[int], count: int, packed: bool, rotary: bool, dtype: str
) -> list[Any]:
    q, k, v = (
        draw(batch, rows, heads * SIZE, dtype=dtype, seed=seed) for seed, heads in enumerate((HEADS, KV_HEADS, KV_HEADS))
    )
    past = [draw(batch, KV_HEADS, LENGTH, SIZE, dtype=dtype, seed=seed) for seed in (3, 4)]
    inputs = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
    angles = np.arange(LENGTH)[:, None] / 10 ** np.linspace(0, 3, SIZE // 2)
    caches = [np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)] if rotary else [None, None]
    return [*inputs, *past, *layouts(count), np.array([total], np.int32), np.array(lengths, np.int32), *caches]


def expect(inputs: list[Any], attributes: dict[str, Any]) -> list[Array]:
    """Run onnxruntime with past and present in the same memory.

    Each batch is run alone: where lengths differ, onnxruntime reads the scores of all but the first at wrong offsets.
    """
    lengths = inputs[8]
    if len(lengths) > 1:
        each = [x is not None and len(x) == len(lengths) and i not in (5, 6, 9, 10) for i, x in enumerate(inputs)]
        runs = []
        for b, length in enumerate(lengths):
            alone = [x[b : b + 1] if batched else x for x, batched in zip(inputs, each, strict=True)]
            alone[7] = np.array([length], np.int32)
            runs.append(expect(alone, attributes))
        return [np.concatenate(found) for found in zip(*runs, strict=True)]
    kind = onnx.helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    names = [f"in{i}" if x is not None else "" for i, x in enumerate(inputs)]
    node = onnx.helper.make_node("SparseAttention", names, ["y", "keys", "values"], domain="com.microsoft", **attributes)
    given = [(name, x) for name, x in zip(names, inputs, strict=True) if name]
    values = [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in given]
    outputs = [onnx.helper.make_tensor_value_info(name, kind, None) for name in ("y", "keys", "values")]
    imports = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", values, outputs), opset_imports=imports, ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    bound = {name: onnxruntime.OrtValue.ortvalue_from_numpy(x.copy()) for name, x in given}
    for name, value in bound.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y")
    binding.bind_ortvalue_output("keys", bound["in3"])
    binding.bind_ortvalue_output("values", bound["in4"])
    session.run_with_iobinding(binding)
    return [*binding.copy_outputs_to_cpu()]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(("rows", "total", "lengths"), [(21, 21, [21, 21]), (1, 50, [50, 17]), (3, 70, [70, 40])])
def test_forms(rows: int, total: int, lengths: list[int], count: int, packed: bool, rotary: bool, dtype: str) -> None:
    inputs = feeds(2, rows, total, lengths, count, packed, rotary, dtype)
    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "sparse_block_size": BLOCK, "do_rotary": int(rotary)}
    want = expect(inputs, attributes)
    found = run_op("SparseAttention", inputs, attributes, outputs=3, **HOW)
    tolerance = 2e-5 if dtype == "float32" else 4e-3
    np.testing.assert_allclose(found[0], want[0], rtol=tolerance, atol=tolerance)
    for b, length in enumerate(lengths):
        for got, wanted in zip(found[1:], want[1:], strict=True):
            np.testing.assert_allclose(got[b, :, :length], wanted[b, :, :length], rtol=tolerance, atol=tolerance)


def change(inputs: list[Any], index: int, position: tuple[int, ...], value: int) -> list[Any]:
    """Return the inputs with one number changed."""
    inputs[index] = inputs[index].copy()
    inputs[index][position] = value
    return inputs


@pytest.mark.parametrize(
    ("index", "position", "value", "message"),
    [
        (5, (1, 3), 99, "row 2 of layout 1"),
        (6, (0, 0), 5, "row 0 of layout 0"),
        (8, (1,), 2, "length 2 of batch 1"),
        (8, (0,), 71, "out of range"),
        (7, (0,), 2, "total_sequence_length is 2, with 3 new rows"),
    ],
)
def test_what_does_not_fit(index: int, position: tuple[int, ...], value: int, message: str) -> None:
    inputs = change(feeds(2, 3, 70, [40, 70], 2, False, False, "float32"), index, position, value)
    if index == 6:
        inputs = change(feeds(2, 16, 16, [16, 16], 2, False, False, "float32"), index, position, value)
    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "sparse_block_size": BLOCK}
    with pytest.raises(InvalidArgument, match=message):
        run_op("SparseAttention", inputs, attributes, outputs=3, **HOW)
