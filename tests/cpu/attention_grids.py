"""Cases of GroupQueryAttention and MultiHeadAttention, with the parameters of test_gqa_cpu*.py and test_mha.py of onnxruntime."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.cpu.grid_cases import Case, Grid, normal
from tests.cpu.operators.test_quantized_cache import pack

MOST_SCORES = 1 << 25
"""onnxruntime stores all scores: more take gigabytes."""
MOST_NUMBERS = 1 << 23
"""The numbers of a cache: larger ones take seconds."""


def _new_rows(form: str, rows: int) -> tuple[int, int, int]:
    """Return the new rows, all rows and those of the past."""
    kind, room = form.split("-")
    new = {"prompt": rows, "step": 1, "rows": 5}[kind]
    total = rows if kind == "prompt" else rows + new
    return new, total, total + 8 if room == "room" else total - new


def _grouped_fits(form: str, batch: int, rows: int, heads: tuple[int, int], size: int, rotary: int, **others: Any) -> bool:
    new, total, before = _new_rows(form, rows)
    if form.startswith("rows") and batch > 1:
        return False
    small = batch * heads[0] * new * total <= MOST_SCORES and batch * heads[1] * max(total, before) * size <= MOST_NUMBERS
    return small and not (rotary and size % 16)


def grouped(
    rng: np.random.Generator,
    form: str,
    dtype: str,
    batch: int,
    rows: int,
    heads: tuple[int, int],
    size: int,
    packed: bool,
    rotary: int,
    given: str,
    window: bool,
    softcap: float,
    sink: str,
    stage: int,
) -> Case:
    """Draw a prompt, one step behind `rows` keys, or several rows behind a past, in a buffer with room or in one that grows."""
    many, few = heads
    new, total, before = _new_rows(form, rows)
    whole = form.startswith("prompt") or form.endswith("grows")
    ends = [total] * batch if whole else [int(x) for x in rng.integers(new, total + 1, batch)]
    own = _rows(rng, dtype, batch, new, [many * size, few * size, few * size], packed)
    past = [normal(rng, dtype, batch, few, before, size) for _ in range(2)] if before else [None, None]
    turns = [rng.uniform(-1, 1, (total + 8, size // 2)).astype(dtype) for _ in range(2)] if rotary else [None, None]
    positions = np.stack([np.arange(end - new, end) for end in ends]) if rotary and "ids" in given else None
    inputs = [*own, *past, np.array(ends, np.int32) - 1, np.array(total, np.int32), *turns, positions]
    added = _bias(rng, dtype, batch, many, new, total) if "bias" in given else None
    inputs += [added, normal(rng, dtype, many) if sink == "heads" else None]
    attributes = {
        "num_heads": many,
        "kv_num_heads": few,
        "do_rotary": int(rotary > 0),
        "rotary_interleaved": int(rotary == 2),
        "softcap": softcap,
        "local_window_size": int(rng.integers(1, total + 1)) if window else -1,
        "smooth_softmax": int(sink == "smooth"),
        "qk_output": stage * (ends == [total] * batch),  # onnxruntime leaves scores of keys that do not count as they were
    }
    outputs = [dtype] * (4 if attributes["qk_output"] else 3)
    return Case(inputs, attributes, outputs, 2e-5 if dtype == "float32" else 1e-2, ends=ends)


def _rows(rng: np.random.Generator, dtype: str, batch: int, new: int, widths: list[int], packed: bool) -> list[Array | None]:
    """Draw rows of queries, keys and values, or of all three side by side."""
    if packed:
        return [normal(rng, dtype, batch, new, sum(widths)), None, None]
    return [normal(rng, dtype, batch, new, n) for n in widths]


def _bias(rng: np.random.Generator, dtype: str, batch: int, heads: int, new: int, total: int) -> Array:
    return normal(rng, dtype, *(int(rng.choice([1, n])) for n in (batch, heads)), new, total)


def grouped_codes(
    rng: np.random.Generator,
    bits: int,
    kind: str,
    dtype: str,
    batch: int,
    rows: int,
    heads: tuple[int, int],
    size: int,
    form: str,
    packed: bool,
    bias: bool,
) -> Case:
    """Draw a prompt or a step in a cache of codes."""
    many, few = heads
    step = form == "step"
    new, total = (1 if step else rows), rows
    own = _rows(rng, dtype, batch, new, [many * size, few * size, few * size], packed)
    top = 2 ** (bits - 1)
    past = [pack(rng.integers(-top, top, (batch, few, total, size)), bits) for _ in range(2)]
    scales = [rng.uniform(2, 3, few * size if kind == "PER_CHANNEL" else 1).astype(np.float32) / top for _ in range(2)]
    ends = [int(x) for x in rng.integers(new, total + 1, batch)] if step else [total] * batch
    inputs = [*own, *past, np.array(ends, np.int32) - 1, np.array(total, np.int32), None, None, None]
    inputs += [_bias(rng, dtype, batch, many, new, total) if bias else None, None, *scales]
    attributes: dict[str, Any] = {"num_heads": many, "kv_num_heads": few, "k_quant_type": kind, "v_quant_type": kind}
    stored = past[0].dtype.name
    # onnxruntime may multiply queries and shares as codes of 8 bits, too
    return Case(inputs, attributes | {"kv_cache_bit_width": bits}, [dtype, stored, stored], 0.1, ends=ends)


def _multi_head_fits(form: str, batch: int, rows: int, heads: int, size: int, **others: Any) -> bool:
    new = 1 if form == "past" else rows
    return batch * heads * new * (rows + 1) <= MOST_SCORES and batch * heads * rows * size <= MOST_NUMBERS


def multi_head(
    rng: np.random.Generator,
    form: str,
    batch: int,
    rows: int,
    heads: int,
    size: int,
    masks: str,
    causal: int,
    biased: bool,
    added: str,
) -> Case:
    """Draw attention without a cache, to heads of another one, or with a cache that it fills or appends to."""
    new = 1 if form == "past" else rows
    total = new + (rows if form == "past" else 0)
    q = normal(rng, "float32", batch, new, heads * size)
    shape = (batch, heads, rows, size) if form == "cross" else (batch, new, heads * size)
    k, v = (normal(rng, "float32", *shape) for _ in range(2))
    bias = normal(rng, "float32", 3 * heads * size).copy() if biased else None
    if bias is not None and form == "cross":
        bias[heads * size :] = 0
    lengths = rng.integers(1, total + 1, batch)
    mask: Array | None = None
    if masks == "lengths":
        mask = lengths.astype(np.int32)
    elif masks == "keys":
        mask = (np.arange(total) < lengths[:, None]).astype(np.int32)
    planes = [1 if part in added else n for part, n in (("batch", batch), ("heads", heads))]
    addends = normal(rng, "float32", *planes, new, total) if added else None
    past = [normal(rng, "float32", batch, heads, rows, size) for _ in range(2)] if form == "past" else []
    outputs = ["float32"] * (3 if form in ("past", "fills") else 1)
    return Case([q, k, v, bias, mask, addends, *past], {"num_heads": heads, "unidirectional": causal}, outputs, 2e-5)


SIZES = (32, 40, 48, 64, 80, 96, 128, 160, 192, 224, 256)
GROUPED = Grid(
    {
        "form": ("prompt-grows", "prompt-room", "step-grows", "step-room", "rows-grows", "rows-room"),
        "dtype": ("float32", "float16"),
        "batch": (1, 3, 5),
        "rows": (35, 127, 128, 200, 240, 256, 339, 799, 1024, 2000, 2048, 5000),
        "heads": ((6, 6), (6, 3), (9, 9), (9, 3), (32, 8)),
        "size": SIZES,
        "packed": (False, True),
        "rotary": (0, 1, 2),
        "given": ("", "bias", "ids", "ids and bias"),
        "window": (False, True),
        "softcap": (0.0, 50.0),
        "sink": ("", "smooth", "heads"),
        "stage": (0, 1, 2),
    },
    grouped,
    _grouped_fits,
)
CODES = Grid(
    {
        "bits": (8, 4),
        "kind": ("PER_TENSOR", "PER_CHANNEL"),
        "dtype": ("float32", "float16"),
        "batch": (1, 2, 3),
        "rows": (4, 8, 16, 32, 64, 128),
        "heads": ((2, 1), (4, 2), (4, 1), (8, 2), (4, 4)),
        "size": (8, 16, 32, 64, 128),
        "form": ("prompt", "step"),
        "packed": (False, True),
        "bias": (False, True),
    },
    grouped_codes,
)
MULTI_HEAD = Grid(
    {
        "form": ("plain", "cross", "fills", "past"),
        "batch": (1, 2, 3),
        "rows": (1, 15, 16, 127, 128, 255, 256, 384, 512, 2048),
        "heads": (1, 2, 3, 4, 16),
        "size": (8, 16, *SIZES),
        "masks": ("", "lengths", "keys"),
        "causal": (0, 1),
        "biased": (False, True),
        "added": ("", "whole", "one batch", "one heads", "one batch, heads"),
    },
    multi_head,
    _multi_head_fits,
)
