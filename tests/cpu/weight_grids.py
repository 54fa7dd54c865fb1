"""Cases of MatMulNBits, GatherBlockQuantized, MoE and QMoE, with the parameters of matmul_*bits_test.cc,
gather_block_quantized_op_test.cc, moe_test.cc, test_moe_cpu.py and test_qmoe_cpu.py of onnxruntime.
"""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.cpu.grid_cases import Case, Grid, normal
from tests.cpu.operators.test_experts import draw_codes
from tests.cpu.operators.test_gather_blocks import operands as blocks_of
from tests.cpu.operators.test_matmul_n_bits import operands as weights_of


def _weights_fit(bits: int, zeros: str, level: int, groups: str, fed: str, **others: Any) -> bool:
    """Return True for forms that onnxruntime takes, and in which it does not ignore the zero points."""
    if (zeros == "floats" and bits == 8) or (groups and bits != 4):
        return False
    return zeros != "uint8" or not (groups or (fed == "zeros" and level == 4))


def weights(
    rng: np.random.Generator,
    bits: int,
    dtype: str,
    batch: tuple[int, ...],
    m: int,
    n: int,
    k: int,
    size: int,
    zeros: str,
    level: int,
    groups: str,
    biased: bool,
    flat: bool,
    fed: str,
) -> Case:
    """Draw MatMulNBits. The tolerance is the most by which two ways to round activations to 8 bits, or sums, can differ."""
    packed, scales, points = weights_of(n, k, size, bits, {"floats": dtype}.get(zeros, zeros))
    assert packed is not None and scales is not None
    a = normal(rng, dtype, *batch, m, k)
    bias = normal(rng, dtype, n) if biased else None
    blocks = -(-k // size)
    of = np.arange(blocks * size) // size
    if groups == "any":
        of = rng.permutation(of)
    codes = (packed[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1).reshape(n, -1)
    middle: Any = np.full((n, blocks), 1 << (bits - 1))
    if points is not None and zeros == "floats":
        middle = points.astype(np.float64)
    elif points is not None:
        middle = (points[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1).reshape(n, -1)[:, :blocks]
    values = np.abs((codes - 1.0 * middle[:, of]) * scales.astype(np.float64)[:, of])[:, :k]
    most = np.abs(a).astype(np.float64) @ values.T
    step = np.abs(a).max(initial=0, axis=-1, keepdims=True) / 127 * values.sum(1)
    atol: Any = most * (2e-6 if dtype == "float32" else 4e-3) + (step if level == 4 else 0)
    scales, points = (x if x is None or not flat else x.reshape(-1) for x in (scales.astype(dtype), points))
    inputs = [a, packed, scales, points, of.astype(np.int32) if groups else None, bias]
    attributes = {"N": n, "K": k, "block_size": size, "bits": bits, "accuracy_level": level}
    given = [i for i in {"": (1, 2, 3, 4, 5), "zeros": (1, 2, 4, 5), "all": ()}[fed] if inputs[i] is not None]
    return Case(inputs, attributes, [dtype], atol, 1e-3 if dtype == "float16" else 1e-5, given)


def _gathered_fits(dtype: str, bits: int, shape: tuple[int, ...], axis: int, along: int, **others: Any) -> bool:
    rank = len(shape)
    if max(axis, along) >= rank or min(axis, along) < -rank:
        return False
    if dtype != "uint8":
        return bits == 4
    return axis % rank == 0 and along % rank == rank - 1 and shape[-1] % (8 // bits) == 0


def gathered(
    rng: np.random.Generator,
    dtype: str,
    bits: int,
    shape: tuple[int, ...],
    size: int,
    axis: int,
    along: int,
    kind: str,
    places: tuple[int, ...],
    zeros: bool,
    fed: bool,
) -> Case:
    """Draw GatherBlockQuantized."""
    data, scales, points = blocks_of(shape, dtype, along, zeros, size=size, bits=bits)
    indices = rng.integers(-shape[axis], shape[axis], places).astype(kind)
    attributes = {"bits": bits, "block_size": size, "gather_axis": axis, "quantize_axis": along}
    constants = [k for k, x in ((0, data), (1, indices), (2, scales), (3, points)) if x is not None and (k != 1 or not fed)]
    return Case([data, indices, scales, points], attributes, ["float32"], 0, 0, constants)


def experts(
    rng: np.random.Generator,
    tokens: tuple[int, ...],
    count: int,
    k: int,
    normalize: int,
    kind: str,
    dtype: str,
    sizes: tuple[int, int],
    biased: bool,
) -> Case:
    """Draw MoE."""
    (hidden, inner), fused = sizes, 2 if kind == "swiglu" else 1
    inputs: list[Array | None] = [normal(rng, dtype, *tokens, hidden), normal(rng, dtype, int(np.prod(tokens)), count)]
    for rows, columns in ((fused * inner, hidden), (hidden, inner)):
        inputs.append(normal(rng, dtype, count, rows, columns) / np.sqrt(columns).astype(dtype))
        inputs.append(normal(rng, dtype, count, rows) if biased else None)
    attributes = {"k": k, "normalize_routing_weights": normalize, "activation_type": kind, **_gates(kind)}
    return Case(inputs, attributes, [dtype], 5e-5 if dtype == "float32" else 2e-2, 1e-3)


def _quantized_fits(bits: int, zeros: bool, **others: Any) -> bool:
    return bits != 2 or zeros


def quantized_experts(
    rng: np.random.Generator,
    tokens: tuple[int, ...],
    bits: int,
    size: int,
    zeros: bool,
    kind: str,
    count: int,
    k: int,
    normalize: int,
    biased: bool,
    routed: bool,
) -> Case:
    """Draw QMoE."""
    hidden, inner, fused = 128, 256, 2 if kind == "swiglu" else 1
    first = draw_codes(count, fused * inner, hidden, bits, size, zeros, "float32")
    second = draw_codes(count, hidden, inner, bits, size, zeros, "float32")
    rows = int(np.prod(tokens))
    x, router = normal(rng, "float32", *tokens, hidden) / 4, normal(rng, "float32", rows, count)
    biases = [normal(rng, "float32", count, n) if biased else None for n in (fused * inner, hidden)]
    inputs = [x, router, *first[:2], biases[0], *second[:2], biases[1], None, None, None, first[2], second[2]]
    inputs += [None, rng.uniform(0.1, 1, (rows, count)).astype(np.float32)] if routed else []
    attributes = {"k": k, "expert_weight_bits": bits, "activation_type": kind, "normalize_routing_weights": normalize}
    shares = k if routed and not normalize else 1  # their sum, at most
    atol = 0.3 * shares if bits == 2 and size else 1e-2  # there onnxruntime multiplies activations as codes of 8 bits
    return Case(inputs, attributes | _gates(kind) | ({"block_size": size} if size else {}), ["float32"], atol, 2e-4)


def _gates(kind: str) -> dict[str, Any]:
    if kind != "swiglu":
        return {}
    return {"swiglu_fusion": 1, "swiglu_limit": 7.0, "activation_alpha": 1.702, "activation_beta": 1.0}


TOKENS = ((1, 32), (2, 16), (1, 16), (2, 32), (1, 128), (3,))
KINDS = ("relu", "gelu", "silu", "identity", "swiglu")
WEIGHTS = Grid(
    {
        "bits": (2, 4, 8),
        "dtype": ("float32", "float16"),
        "batch": ((), (1,), (2,), (4,), (8,)),
        "m": (1, 2, 4, 8, 32, 100, 199),
        "n": (1, 2, 4, 8, 16, 32, 40, 64, 128, 256, 288),
        "k": (16, 32, 64, 93, 128, 192, 256, 260, 384, 512, 576, 768, 1024, 1234, 2048),
        "size": (16, 32, 64, 128, 256),
        "zeros": ("", "uint8", "floats"),
        "level": (0, 1, 2, 4),
        "groups": ("", "in order", "any"),
        "biased": (False, True),
        "flat": (False, True),
        "fed": ("", "zeros", "all"),
    },
    weights,
    _weights_fit,
)
GATHERED = Grid(
    {
        "dtype": ("uint8", "int4", "uint4"),
        "bits": (2, 4, 8),
        "shape": ((5, 48), (2, 80), (3, 2, 80), (2, 3, 17), (2, 3, 18), (2, 3, 32), (7, 256), (2, 3, 4), (40, 3, 4)),
        "size": (16, 32, 64, 128),
        "axis": (0, 1, 2, -1, -2, -3),
        "along": (0, 1, 2, -1, -2, -3),
        "kind": ("int32", "int64"),
        "places": ((1,), (2, 3), (), (0,), (2, 1)),
        "zeros": (False, True),
        "fed": (False, True),
    },
    gathered,
    _gathered_fits,
)
EXPERTS = Grid(
    {
        "tokens": TOKENS,
        "count": (2, 4, 16),
        "k": (1, 2, 4),
        "normalize": (0, 1),
        "kind": KINDS,
        "dtype": ("float32", "float16"),
        "sizes": ((64, 96), (64, 256), (4, 8)),
        "biased": (False, True),
    },
    experts,
    lambda count, k, **others: k <= count,
)
QUANTIZED_EXPERTS = Grid(
    {
        "tokens": TOKENS,
        "bits": (2, 4, 8),
        "size": (0, 32, 64, 128),
        "zeros": (False, True),
        "kind": KINDS,
        "count": (4, 8),
        "k": (1, 2, 4),
        "normalize": (0, 1),
        "biased": (False, True),
        "routed": (False, True),
    },
    quantized_experts,
    _quantized_fits,
)
