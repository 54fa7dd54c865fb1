"""Cases of GatedDeltaNet and VarlenCausalConvWithState, with the parameters of gated_delta_net_op_test.cc and
causal_conv_with_state_op_test.cc of onnxruntime.
"""

from typing import Any

import numpy as np

from tests.cpu.grid_cases import Case, Grid, normal


def _delta_fits(
    update_rule: str, dtype: str, gates: str, form: str, gate_activation: str, stateful: bool, **others: Any
) -> bool:
    """Return True if the gates have a type that goes with the queries', and offsets or a state tell the number of requests."""
    known = stateful or form == "ragged"
    return gates in ("float32", dtype) and known and (gate_activation == "none" or "gated" in update_rule)


def delta_net(
    rng: np.random.Generator,
    rule: str,
    dtype: str,
    gates: str,
    form: str,
    rows: int,
    heads: tuple[int, int],
    sizes: tuple[int, int],
    act: str,
    stateful: bool,
    kept: int,
) -> Case:
    """Draw requests of `rows` tokens each; ragged ones have a token, `rows` tokens and two."""
    (few, many), (size, width) = heads, sizes
    lengths = [1, rows, 2] if form == "ragged" else [rows, rows]
    tokens, batch = sum(lengths), len(lengths)
    lead = (batch, rows) if form in ("rank 4", "packed") else (tokens,)
    q, k, v = (normal(rng, dtype, *lead, n, d) / 2 for n, d in ((few, size), (few, size), (many, width)))
    k /= np.sqrt(np.square(k.astype(np.float32)).sum(-1, keepdims=True) + 1e-3).astype(dtype)
    inputs: list[Any] = [q, k, v]
    if form == "packed":
        inputs = [np.concatenate([x.reshape(*lead, -1) for x in (q, k, v)], -1), None, None]
    inputs.append(np.cumsum([0, *lengths]).astype(np.int32) if form == "ragged" else None)
    inputs.append((-rng.uniform(0.01, 0.1, (*lead, many))).astype(gates) if "gated" in rule else None)
    inputs.append(rng.uniform(0.25, 0.75, (*lead, many)).astype(gates) if "delta" in rule else None)
    inputs.append(normal(rng, "float32", batch, many, width, size) / 20 if stateful else None)
    inputs += [normal(rng, "float32", many) / 10 if act != "none" else None for _ in range(2)]
    attributes = {"update_rule": rule, "gate_activation": act, "qk_l2_norm": int(rng.integers(0, 2))}
    if kept:
        inputs.append(rng.integers(-1, kept + 2, batch).astype(np.int32))
        attributes["state_update_capacity"] = kept
    outputs = [dtype, "float32", *(["float32"] if kept else [])]
    return Case(inputs, attributes, outputs, 2e-5 if dtype == "float32" else 4e-3, 1e-4 if dtype == "float32" else 4e-3)


def convolution(
    rng: np.random.Generator,
    dtype: str,
    lengths: tuple[int, ...],
    channels: int,
    taps: int,
    dilation: int,
    act: str,
    biased: bool,
    kept: int,
) -> Case:
    """Draw packed requests of a causal convolution."""
    before = (taps - 1) * dilation
    inputs: list[Any] = [normal(rng, dtype, sum(lengths), channels), normal(rng, dtype, channels, 1, taps) / 4]
    inputs += [np.cumsum([0, *lengths]).astype(np.int32), normal(rng, dtype, channels) if biased else None]
    inputs.append(normal(rng, dtype, len(lengths), channels, before))
    attributes: dict[str, Any] = {"activation": act, "dilation": dilation}
    if kept:
        inputs.append(rng.integers(0, kept + 2, len(lengths)).astype(np.int32))
        attributes["state_update_capacity"] = kept
    return Case(inputs, attributes, [dtype] * (3 if kept else 2), 2e-5 if dtype == "float32" else 1e-2)


DELTA_NET = Grid(
    {
        "update_rule": ("linear", "gated", "delta", "gated_delta"),
        "dtype": ("float32", "float16"),
        "gates": ("float32", "float16"),
        "form": ("rank 3", "rank 4", "packed", "ragged"),
        "rows": (1, 4, 65, 128),
        "heads": ((1, 1), (1, 2), (2, 6)),
        "sizes": ((8, 5), (64, 1), (64, 32), (128, 128)),
        "gate_activation": ("none", "qwen"),
        "stateful": (True, False),
        "state_update_capacity": (0, 7),
    },
    delta_net,
    _delta_fits,
)
CONVOLUTION = Grid(
    {
        "dtype": ("float32", "float16"),
        "lengths": ((3, 1, 2), (1, 1, 1, 1), (6,), (2, 0, 3)),
        "channels": (4, 33, 513),
        "taps": (1, 2, 3, 5, 50),
        "dilation": (1, 2, 3),
        "activation": ("none", "silu", "swish"),
        "biased": (True, False),
        "state_update_capacity": (0, 1, 3),
    },
    convolution,
)
