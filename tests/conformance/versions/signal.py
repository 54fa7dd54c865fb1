"""Fourier transforms and windows."""

from typing import Any

import numpy as np

from ort_lite.dtypes import FLOATS, Array, from_onnx, to_numpy
from tests.conformance.versions.cases import Case, case
from tests.conformance.versions.casting import CODES
from tests.conformance.versions.schemas import schemas, variables
from tests.cpu.check import ramp

REAL, COMPLEX = ramp((2, 6, 3, 1)), ramp((2, 6, 3, 2))


def transform(
    x: Array, length: Array | None = None, at: Array | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Array:
    """Complex numbers are pairs along the last axis, which negative axes count."""
    along = axis if at is None else int(at)
    along = along if along >= 0 else along + x.ndim
    size = x.shape[along] if length is None else int(length)
    wide = x.astype(np.float64)
    numbers = wide[..., 0] + (1j * wide[..., 1] if x.shape[-1] == 2 else 0)
    if inverse and onesided:
        return np.asarray(np.fft.irfft(numbers, size, along))[..., None].astype(x.dtype)
    made = (np.fft.ifft if inverse else np.fft.fft)(numbers, size, along)
    if onesided:
        made = np.take(made, range(size // 2 + 1), along)
    return np.stack([made.real, made.imag], -1).astype(x.dtype)


_LOOSE: dict[str, Any] = {"oracle": transform, "rtol": 1e-4, "atol": 1e-5}


def transforms(op_version: dict[str, Any], axis: dict[str, Any], place: tuple[Array, ...]) -> list[Case]:
    """Along axis 1; then along 2, named by the attribute `axis` or by the input in that place."""
    how: dict[str, Any] = _LOOSE | op_version
    plain = how | {"types": ()}
    first = [np.array(1)] * len(place)
    unsaid = [None, *first] if place else []
    return [
        case("DFT", REAL, *unsaid, constants=(2,), **how),
        case("DFT", COMPLEX, *unsaid, constants=(2,), inverse=1, **plain),
        case("DFT", REAL, *unsaid, constants=(2,), onesided=1, **plain),
        case("DFT", REAL, np.array(8), *first, constants=(1, 2), **plain),
        case("DFT", COMPLEX, np.array(5), *first, constants=(1, 2), **plain),
        case("DFT", COMPLEX, None, *place, **axis, **plain),
    ]


TRANSFORMS = [
    *transforms({"until": 19}, {"axis": 2}, ()),
    *transforms({"since": 20}, {}, (np.array(2),)),
    case("DFT", COMPLEX, since=20, types=(), oracle=lambda x: transform(x, axis=-2), rtol=1e-4, atol=1e-5),
]

_SIGNAL = ramp((2, 20, 1))
_WINDOW = ramp((8,), low=0.1, high=1)


def short_time(
    signal: Array, step: Array, window: Array | None = None, length: Array | None = None, onesided: int = 1
) -> Array:
    size = int(length) if length is not None else len(window) if window is not None else 0
    values = signal.astype(np.float64)
    numbers = values[..., 0] + (1j * values[..., 1] if signal.shape[-1] == 2 else 0)
    starts = range(0, numbers.shape[1] - size + 1, int(step))
    frames = np.stack([numbers[:, start : start + size] * (1 if window is None else window) for start in starts], 1)
    made = np.fft.fft(frames, axis=-1)
    made = made[..., : size // 2 + 1] if onesided else made
    return np.stack([made.real, made.imag], -1).astype(signal.dtype)


_STFT: dict[str, Any] = {"oracle": short_time, "constants": (1, 3), "rtol": 1e-4, "atol": 1e-5}
SHORT = [
    case("STFT", _SIGNAL, np.array(4), _WINDOW, np.array(8), **_STFT),
    case("STFT", _SIGNAL, np.array(3), _WINDOW, types=(), **_STFT),
    case("STFT", _SIGNAL, np.array(5), None, np.array(6), types=(), onesided=0, **_STFT),
    case("STFT", ramp((1, 12, 2)), np.array(4), _WINDOW, np.array(8), types=(), onesided=0, **_STFT),
]


_TERMS = {"HannWindow": (0.5, -0.5), "HammingWindow": (25 / 46, -21 / 46), "BlackmanWindow": (0.42, -0.5, 0.08)}


def windows(op_type: str) -> list[Case]:
    size = np.array(7, np.int64)

    def cosines(size: Array, periodic: int = 1, output_datatype: int = 1) -> Array:
        turns = 2 * np.pi * np.arange(int(size)) / (int(size) - 1 + periodic)
        made = sum(factor * np.cos(k * turns) for k, factor in enumerate(_TERMS[op_type]))
        return np.asarray(made).astype(to_numpy(from_onnx(output_datatype)))

    types = variables(schemas()["", op_type, 17])["T2"]
    return [
        *(
            case(op_type, size, types=(), constants=(0,), output_datatype=CODES[dtype], oracle=cosines)
            for dtype in types
            if dtype in FLOATS
        ),
        case(op_type, size, oracle=cosines),
        case(op_type, size, types=(), periodic=0, oracle=cosines),
        case(op_type, np.array(1), types=(), oracle=cosines),
    ]


_MEL = (np.array(8), np.array(16), np.array(8192), np.array(0, np.float32), np.array(4096, np.float32))
MEL = [
    case("MelWeightMatrix", *_MEL, constants=(0, 1, 2, 3, 4)),
    *(
        case("MelWeightMatrix", *_MEL, constants=(0, 1, 2, 3, 4), types=(), output_datatype=CODES[dtype])
        for dtype in variables(schemas()["", "MelWeightMatrix", 17])["T3"]
        if dtype != "float32"
    ),
]

CASES: tuple[Case, ...] = (
    *TRANSFORMS,
    *SHORT,
    *windows("HannWindow"),
    *windows("HammingWindow"),
    *windows("BlackmanWindow"),
    *MEL,
)
