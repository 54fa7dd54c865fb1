"""The parameter grids of onnxruntime's own tests of the operators of language models, on random feeds, against onnxruntime.

    python -m tests.cpu.language_grids [OPERATOR...] [--share PART]    every case takes hours; `test_language_grids.py` takes 40 each

The grids are those of test_gqa_cpu.py, test_gqa_cpu_quantized.py, test_mha.py, test_op_matmul_*bits.py, test_moe_cpu.py and
test_qmoe_cpu.py, and of the C++ tests of MatMulNBits and GatherBlockQuantized. Options that those tests take in turn are drawn here.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from tests.cpu.check import run_op
from tests.cpu.operators.test_experts import draw_codes
from tests.cpu.operators.test_gather_blocks import operands as blocks_of
from tests.cpu.operators.test_matmul_n_bits import operands as weights_of
from tests.cpu.operators.test_quantized_cache import pack
from tests.cpu.ort import ort_op

MOST_SCORES = 1 << 25
"""onnxruntime stores all scores: more take gigabytes."""
MICROSOFT: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


class Case(NamedTuple):
    """One node with its inputs, and how far its outputs may be from onnxruntime's."""

    inputs: list[Array | None]
    attributes: dict[str, Any]
    outputs: Sequence[str]
    """Element types."""
    atol: float | Array
    """The tolerance of the first output; the others are compared more closely."""
    rtol: float = 1e-4
    constants: Sequence[int] = ()
    ends: Sequence[int] = ()
    """The valid rows of caches (B, heads, rows, size), if any are not."""


Parameters = tuple[Any, ...]
Grid = tuple[Sequence[Sequence[Any]], Callable[..., Case | None]]
"""The values of each parameter, and a function that makes a case of one value of each and a generator of random numbers."""


def normal(rng: np.random.Generator, dtype: str, *shape: int) -> Array:
    return rng.normal(size=shape).astype(dtype)


def grouped(
    rng: np.random.Generator, form: str, dtype: str, batch: int, rows: int, heads: tuple[int, int], size: int
) -> Case | None:
    """Draw a prompt, one step behind `rows` keys, or several rows behind a past, in a buffer with room or in one that grows."""
    many, few = heads
    kind, room_left = form.split("-")
    new = {"prompt": rows, "step": 1, "rows": 5}[kind]
    batch = 1 if kind == "rows" else batch
    total = rows if kind == "prompt" else rows + new
    before = total + 8 if room_left == "room" else total - new
    ends = (
        [total] * batch if kind == "prompt" or room_left == "grows" else [int(x) for x in rng.integers(new, total + 1, batch)]
    )
    packed, rotary, window, sink, smooth, ids, bias, softcap, scores = (bool(x) for x in rng.integers(0, 2, 9))
    if (rotary and size % 16) or batch * many * new * total > MOST_SCORES:
        return None
    widths = [many * size, few * size, few * size]
    own = [normal(rng, dtype, batch, new, n) for n in ([sum(widths)] if packed else widths)]
    past = [normal(rng, dtype, batch, few, before, size) for _ in range(2)] if before else [None, None]
    turns = [rng.uniform(-1, 1, (total + 8, size // 2)).astype(dtype) for _ in range(2)] if rotary else [None, None]
    positions = np.stack([np.arange(end - new, end) for end in ends]) if rotary and ids else None
    added = normal(rng, dtype, *(int(rng.choice([1, n])) for n in (batch, many)), new, total) if bias else None
    inputs = [*own, *[None] * (3 - len(own)), *past, np.array(ends, np.int32) - 1, np.array(total, np.int32), *turns, positions]
    attributes: dict[str, Any] = {"num_heads": many, "kv_num_heads": few, "do_rotary": int(rotary)}
    attributes |= {"rotary_interleaved": int(rng.integers(0, 2)), "softcap": 50.0 * softcap}
    attributes |= {"local_window_size": int(rng.integers(1, total + 1)) if window else -1}
    shown = scores and ends == [total] * batch  # onnxruntime leaves scores of keys that do not count as they were
    attributes |= {"smooth_softmax": int(smooth and not sink), "qk_output": int(rng.integers(1, 3)) * shown}
    inputs += [added, normal(rng, dtype, many) if sink else None]
    return Case(inputs, attributes, [dtype] * (4 if shown else 3), 2e-5 if dtype == "float32" else 1e-2, ends=ends)


def grouped_codes(
    rng: np.random.Generator, bits: int, kind: str, batch: int, rows: int, heads: tuple[int, int], size: int, form: str
) -> Case:
    """Draw a prompt or a step in a cache of codes."""
    many, few = heads
    step = form == "step"
    new, total = (1 if step else rows), rows
    widths = [many * size, few * size, few * size]
    own = [normal(rng, "float32", batch, new, n) for n in ([sum(widths)] if form == "packed" else widths)]
    top = 2 ** (bits - 1)
    past = [pack(rng.integers(-top, top, (batch, few, total, size)), bits) for _ in range(2)]
    scales = [rng.uniform(2, 3, few * size if kind == "PER_CHANNEL" else 1).astype(np.float32) / top for _ in range(2)]
    ends = [int(x) for x in rng.integers(new, total + 1, batch)] if step else [total] * batch
    added = normal(rng, "float32", *(int(rng.choice([1, n])) for n in (batch, many)), new, total) if form == "bias" else None
    inputs = [*own, *[None] * (3 - len(own)), *past, np.array(ends, np.int32) - 1, np.array(total, np.int32)]
    inputs += [None, None, None, added, None, *scales]
    attributes: dict[str, Any] = {"num_heads": many, "kv_num_heads": few, "k_quant_type": kind, "v_quant_type": kind}
    stored = past[0].dtype.name
    # onnxruntime may multiply queries and shares as codes of 8 bits, too
    return Case(inputs, attributes | {"kv_cache_bit_width": bits}, ["float32", stored, stored], 0.1, ends=ends)


def multi_head(
    rng: np.random.Generator, form: str, batch: int, rows: int, heads: int, size: int, masks: str, causal: int, biased: bool
) -> Case | None:
    """Draw attention without a cache, to heads of another one, or with a cache that it fills or appends to."""
    new = 1 if form == "past" else rows
    total = new + (rows if form == "past" else 0)
    q = normal(rng, "float32", batch, new, heads * size)
    shape = (batch, heads, rows, size) if form == "cross" else (batch, new, heads * size)
    k, v = (normal(rng, "float32", *shape) for _ in range(2))
    bias = normal(rng, "float32", 3 * heads * size) if biased else None
    if bias is not None and form == "cross":
        bias[heads * size :] = 0
    lengths = rng.integers(1, total + 1, batch)
    mask: Array | None = None
    if masks == "lengths":
        mask = lengths.astype(np.int32)
    elif masks == "keys":
        mask = (np.arange(total) < lengths[:, None]).astype(np.int32)
    added = (
        normal(rng, "float32", *(int(rng.choice([1, n])) for n in (batch, heads)), new, total) if rng.random() < 0.6 else None
    )
    past = [normal(rng, "float32", batch, heads, rows, size) for _ in range(2)] if form == "past" else []
    outputs = ["float32"] * (3 if form in ("past", "fills") else 1)
    return Case([q, k, v, bias, mask, added, *past], {"num_heads": heads, "unidirectional": causal}, outputs, 2e-5)


def weights(
    rng: np.random.Generator, bits: int, dtype: str, m: int, n: int, k: int, size: int, zeros: str, level: int
) -> Case | None:
    """Draw MatMulNBits. The tolerance is the most by which two ways to round activations to 8 bits, or sums, can differ."""
    if zeros == "floats" and bits != 4:
        return None
    packed, scales, points = weights_of(n, k, size, bits, {"floats": dtype}.get(zeros, zeros))
    assert packed is not None and scales is not None
    a = normal(rng, dtype, m, k)
    bias = normal(rng, dtype, n) if rng.random() < 0.5 else None
    blocks = -(-k // size)
    codes = (packed[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1).reshape(n, blocks, size)
    middle: Any = 1 << (bits - 1)
    if points is not None and zeros == "floats":
        middle = points[..., None].astype(np.float64)
    elif points is not None:
        middle = (points[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1).reshape(n, -1)[:, :blocks, None]
    values = np.abs((codes - 1.0 * middle) * scales[..., None].astype(np.float64)).reshape(n, -1)[:, :k]
    most = np.abs(a).astype(np.float64) @ values.T
    step = np.abs(a).max(initial=0, axis=1, keepdims=True) / 127 * values.sum(1)
    atol: Any = most * (2e-6 if dtype == "float32" else 4e-3) + (step if level == 4 else 0)
    inputs = [a, packed, scales.astype(dtype), points, None, bias]
    attributes = {"N": n, "K": k, "block_size": size, "bits": bits, "accuracy_level": level}
    given = [i for i in (1, 2, 3, 5) if inputs[i] is not None]
    return Case(inputs, attributes, [dtype], atol, 1e-3 if dtype == "float16" else 1e-5, given)


def gathered(
    rng: np.random.Generator, dtype: str, bits: int, shape: tuple[int, ...], size: int, axis: int, kind: str, zeros: bool
) -> Case | None:
    """Draw GatherBlockQuantized."""
    along = len(shape) - 1
    if (dtype != "uint8" and bits != 4) or (dtype == "uint8" and axis) or axis >= len(shape):
        return None
    inputs = blocks_of(shape, dtype, along, zeros, size=size, bits=bits)
    indices = rng.integers(-shape[axis], shape[axis], (2, 3)).astype(kind)
    attributes = {"bits": bits, "block_size": size, "gather_axis": axis, "quantize_axis": along}
    return Case([inputs[0], indices, *inputs[1:]], attributes, ["float32"], 0, 0, [0, 2, 3] if zeros else [0, 2])


def experts(rng: np.random.Generator, tokens: tuple[int, ...], k: int, normalize: int, kind: str, dtype: str) -> Case:
    """Draw MoE of 4 experts."""
    hidden, inner, fused = 64, 96, 2 if kind == "swiglu" else 1
    inputs = [normal(rng, dtype, *tokens, hidden), normal(rng, dtype, int(np.prod(tokens)), 4)]
    for rows, columns in ((fused * inner, hidden), (hidden, inner)):
        inputs += [normal(rng, dtype, 4, rows, columns) / np.sqrt(columns).astype(dtype), normal(rng, dtype, 4, rows)]
    attributes = {"k": k, "normalize_routing_weights": normalize, "activation_type": kind, **_gates(kind)}
    return Case(list(inputs), attributes, [dtype], 5e-5 if dtype == "float32" else 2e-2, 1e-3)


def quantized_experts(
    rng: np.random.Generator, tokens: tuple[int, ...], bits: int, size: int, zeros: bool, kind: str
) -> Case | None:
    """Draw QMoE of 4 experts."""
    if bits == 2 and not zeros:
        return None
    hidden, inner, fused = 128, 256, 2 if kind == "swiglu" else 1
    first = draw_codes(4, fused * inner, hidden, bits, size, zeros, "float32")
    second = draw_codes(4, hidden, inner, bits, size, zeros, "float32")
    x, router = normal(rng, "float32", *tokens, hidden) / 4, normal(rng, "float32", int(np.prod(tokens)), 4)
    biases = [normal(rng, "float32", 4, n) for n in (fused * inner, hidden)]
    inputs = [x, router, *first[:2], biases[0], *second[:2], biases[1], None, None, None, first[2], second[2]]
    attributes = {"k": 2, "expert_weight_bits": bits, "activation_type": kind, "normalize_routing_weights": 1, **_gates(kind)}
    atol = 0.3 if bits == 2 and size else 1e-2  # there onnxruntime multiplies activations as codes of 8 bits
    return Case(inputs, attributes | ({"block_size": size} if size else {}), ["float32"], atol, 2e-4)


def _gates(kind: str) -> dict[str, Any]:
    if kind != "swiglu":
        return {}
    return {"swiglu_fusion": 1, "swiglu_limit": 7.0, "activation_alpha": 1.702, "activation_beta": 1.0}


FORMS = ("prompt-grows", "prompt-room", "step-grows", "step-room", "rows-grows", "rows-room")
LENGTHS = (35, 127, 240, 339, 800, 2000)
SIZES = (32, 40, 48, 64, 80, 96, 128, 160, 192, 224, 256)
HEADS = ((6, 6), (6, 3), (9, 9), (9, 3), (32, 8))
CODED_FORMS = ("separate", "packed", "bias", "step")
CODED_HEADS = ((2, 1), (4, 2), (4, 1), (8, 2))
ROWS = (1, 15, 16, 127, 128, 255, 256, 384, 512)
TOKENS = ((1, 32), (2, 16), (1, 16), (2, 32), (1, 128))
KINDS = ("relu", "gelu", "silu", "identity", "swiglu")
GRIDS: Mapping[str, Sequence[Grid]] = {
    "GroupQueryAttention": [
        ((FORMS, ("float32", "float16"), (1, 3, 5), LENGTHS, HEADS, SIZES), grouped),
        (
            ((8, 4), ("PER_TENSOR", "PER_CHANNEL"), (1, 2, 3), (4, 8, 16, 32, 128), CODED_HEADS, (8, 16, 32, 64), CODED_FORMS),
            grouped_codes,
        ),
    ],
    "MultiHeadAttention": [
        (
            (
                ("plain", "cross", "fills", "past"),
                (1, 2, 3),
                ROWS,
                (1, 2, 3, 4, 16),
                (8, *SIZES),
                ("", "lengths", "keys"),
                (0, 1),
                (False, True),
            ),
            multi_head,
        )
    ],
    "MatMulNBits": [
        (
            (
                (2, 4, 8),
                ("float32", "float16"),
                (1, 2, 100),
                (1, 2, 32, 288),
                (16, 32, 40, 93, 256, 1024, 1234),
                (16, 32, 64, 128, 256),
                ("", "uint8", "floats"),
                (0, 4),
            ),
            weights,
        )
    ],
    "GatherBlockQuantized": [
        (
            (
                ("uint8", "int4", "uint4"),
                (2, 4, 8),
                ((5, 48), (3, 2, 80), (2, 3, 32), (7, 256)),
                (16, 32, 64, 128),
                (0, 1, 2),
                ("int32", "int64"),
                (False, True),
            ),
            gathered,
        )
    ],
    "MoE": [((TOKENS, (1, 2, 4), (0, 1), KINDS, ("float32", "float16")), experts)],
    "QMoE": [((TOKENS, (2, 4, 8), (0, 32, 64), (False, True), KINDS), quantized_experts)],
}


def cases(op_type: str) -> Iterator[tuple[Parameters, Callable[[], Case | None]]]:
    """Yield the parameters of each case and a function that draws it, or returns None for values that do not go together."""
    for number, (values, make) in enumerate(GRIDS[op_type]):
        for at, parameters in enumerate(itertools.product(*values)):
            yield parameters, partial(_draw, make, parameters, (number, at))


def _draw(make: Callable[..., Case | None], parameters: Parameters, seed: tuple[int, int]) -> Case | None:
    return make(np.random.default_rng(seed), *parameters)


def differences(op_type: str, case: Case) -> str:
    """Return how our results differ from onnxruntime's, or ""."""
    outputs = case.outputs
    want = ort_op(op_type, case.inputs, case.attributes, outputs=outputs, constants=case.constants, **MICROSOFT)
    got = run_op(op_type, case.inputs, case.attributes, outputs=len(outputs), constants=case.constants, **MICROSOFT)
    for k, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        if ours.shape != theirs.shape:
            return f"output {k} has shape {ours.shape}, expected {theirs.shape}"
        cache = k in (1, 2)
        found, wanted = (_valid(x, case.ends) if cache and case.ends else x.astype(np.float64) for x in (ours, theirs))
        limit = (1e-5 if cache else case.atol) + case.rtol * np.abs(wanted)
        if not (np.abs(found - wanted) <= limit).all():
            return f"output {k} is off by {np.max(np.abs(found - wanted))}, which may be {np.min(limit)}"
    return ""


def _valid(cache: Array, ends: Sequence[int]) -> Array:
    """Return a cache (B, heads, rows, size) with zeros in rows that do not count."""
    counts = np.arange(cache.shape[2]) < np.array(ends)[:, None]
    return np.where(counts[:, None, :, None], cache.astype(np.float64), 0)


def main() -> None:
    """Run grids, and print each case that differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.cpu.language_grids")
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="the operators (default: all)")
    parser.add_argument("--share", type=float, default=1.0, help="the part of the cases to run (default: 1.0)")
    options = parser.parse_args()
    for op_type in options.operators or GRIDS:
        count = failed = 0
        every = [make for _, make in cases(op_type)]
        for number in np.linspace(0, len(every) - 1, int(len(every) * options.share)).astype(int):
            case = every[number]()
            if case is None:
                continue
            count += 1
            if found := differences(op_type, case):
                failed += 1
                shapes = [None if x is None else x.shape for x in case.inputs]
                print(f"{op_type} of {shapes} with {case.attributes}: {found}", flush=True)
        print(f"{op_type}: {count - failed} of {count} cases match", flush=True)


if __name__ == "__main__":
    main()
