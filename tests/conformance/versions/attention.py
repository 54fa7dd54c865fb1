"""Attention and what goes with it."""

from typing import Any

import numpy as np

from tests.conformance.versions.cases import Case, case
from tests.conformance.versions.models import convert
from tests.cpu.check import ints, ramp

Q, K, V = ramp((2, 2, 3, 4), low=-1, high=1), ramp((2, 2, 5, 4), low=-1, high=1), ramp((2, 2, 5, 6), low=-1, high=1)
FLAT_Q, FLAT_K, FLAT_V = ramp((2, 3, 8), low=-1, high=1), ramp((2, 5, 8), low=-1, high=1), ramp((2, 5, 12), low=-1, high=1)
MASK = np.tril(np.ones((3, 5), bool))
PAST = ramp((2, 2, 2, 4), low=-1, high=1), ramp((2, 2, 2, 6), low=-1, high=1)
_HEADS: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2}
_CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
_PLAIN: dict[str, Any] = {"types": (), **_CLOSE}
ATTENTIONS = [
    case("Attention", Q, K, V, ramp((2, 1, 3, 5)), **_CLOSE),  # the mask has the most types
    case("Attention", Q, K, V, MASK, **_PLAIN),
    *(
        case("Attention", *(convert(value, dtype) for value in (Q, K, V)), **_PLAIN)
        for dtype in ("float32", "float64", "float16")
    ),
    case("Attention", Q, K, V, ramp((2, 1, 3, 5)), scale=0.3, softcap=2.0, **_PLAIN),
    case("Attention", Q, K, V, is_causal=1, **_PLAIN),
    case("Attention", FLAT_Q, FLAT_K, FLAT_V, **_HEADS, **_PLAIN),
    case("Attention", ramp((2, 4, 3, 4)), K, V, **_PLAIN),
    case("Attention", Q, K, V, None, *PAST, outputs=3, **_PLAIN),
    *(
        case("Attention", Q, K, V, MASK, outputs=(True, False, False, True), qk_matmul_output_mode=mode, **_PLAIN)
        for mode in range(4)
    ),
    case("Attention", Q, K, V, None, None, None, ints(4, 2), since=24, **_PLAIN),
    case("Attention", Q, Q, V[:, :, :3], since=25, is_causal=1, left_window_size=1, **_PLAIN),
]

X4, X3 = ramp((2, 2, 3, 8)), ramp((2, 3, 16))
COS, SIN = ramp((6, 4), low=-1, high=1), ramp((6, 4), low=-0.9, high=1)
_IDS = np.array([[0, 1, 2], [3, 4, 5]])
ROTATIONS = [
    case("RotaryEmbedding", X4, COS, SIN, _IDS),
    case("RotaryEmbedding", X4, COS[_IDS], SIN[_IDS], types=()),
    case("RotaryEmbedding", X4, COS, SIN, _IDS, types=(), interleaved=1),
    case("RotaryEmbedding", X3, COS, SIN, _IDS, types=(), num_heads=2),
    case("RotaryEmbedding", X4, COS[:, :2], SIN[:, :2], _IDS, types=(), rotary_embedding_dim=4),
]

_SIGNAL, _KERNEL = ramp((2, 3, 6)), ramp((3, 1, 4))
CONVOLUTIONS = [
    case("CausalConvWithState", _SIGNAL, _KERNEL, outputs=2, **_CLOSE),
    case("CausalConvWithState", _SIGNAL, _KERNEL, ramp((3,)), ramp((2, 3, 3)), outputs=2, activation="silu", **_PLAIN),
]

_HEADED: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2, "outputs": 2}
_LINEAR = tuple(ramp((1, 4, 8), low=-0.6, high=0.6 + k / 10) for k in range(3))
_STATE, _DECAY, _BETA = ramp((1, 2, 4, 4)), ramp((1, 4, 2), low=-1, high=-0.1), ramp((1, 4, 2), low=0.1, high=0.9)
LINEARS = [
    case("LinearAttention", *_LINEAR, _STATE, _DECAY, _BETA, **_HEADED, **_CLOSE),
    case("LinearAttention", *_LINEAR, update_rule="linear", **_HEADED, **_PLAIN),
    case("LinearAttention", *_LINEAR, _STATE, _DECAY, update_rule="gated", scale=0.5, **_HEADED, **_PLAIN),
    case("LinearAttention", *_LINEAR, _STATE, None, _BETA, update_rule="delta", **_HEADED, **_PLAIN),
]

CASES: tuple[Case, ...] = (*ATTENTIONS, *ROTATIONS, *CONVOLUTIONS, *LINEARS)
