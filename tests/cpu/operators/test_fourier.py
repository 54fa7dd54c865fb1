"""DFT and STFT."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, OrtLiteError
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, op_program, ramp, run_op


def parts(z: Array, dtype: str) -> Array:
    return np.stack([z.real, z.imag], -1).astype(dtype)


def signal(x: Array) -> Array:
    return x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1].astype(np.float64)


def transformed(x: Array, length: Array | None, axis: Array, inverse: int = 0, onesided: int = 0) -> Array:
    n = None if length is None else int(length)
    along = int(axis) % x.ndim
    if inverse and onesided:
        return np.fft.irfft(signal(x), n, along)[..., None].astype(x.dtype)
    z = (np.fft.ifft if inverse else np.fft.fft)(signal(x).astype(np.complex128), n, along)
    return parts(z.take(range(z.shape[along] // 2 + 1), along) if onesided else z, x.dtype.name)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 10, 17, 84, 106])
@pytest.mark.parametrize("complex_", [1, 2])
def test_any_length_matches_numpy(n: int, complex_: int) -> None:
    check_op("DFT", ramp((2, n, 3, complex_)), None, np.array(1), opset=20, atol=1e-5, constants=[2], expected=transformed)


@pytest.mark.parametrize("length", [None, 5, 8, 12])
@pytest.mark.parametrize(("inverse", "onesided"), [(0, 1), (1, 0), (1, 1)])
def test_lengths_cut_and_fill(length: int | None, inverse: int, onesided: int) -> None:
    x = ramp((2, 7, 1 if onesided and not inverse else 2), "float64")
    how: dict[str, Any] = {"opset": 20, "rtol": 1e-9, "atol": 1e-12, "constants": [1, 2], "expected": transformed}
    points = None if length is None else np.array(length)
    check_op("DFT", x, points, np.array(-2), inverse=inverse, onesided=onesided, **how)


@pytest.mark.parametrize("n", [10, 12, 55, 84])
def test_float32_rounds_as_numpy_does(n: int) -> None:
    """To the bit, as the suite of onnx wants it where exact values cancel. NumPy's other transforms of complex64 are complex128."""
    x = np.random.default_rng(n).standard_normal((3, n, 2)).astype(np.float32)
    [y] = run_op("DFT", [x, None, np.array(1)], {"inverse": 1}, opset=20, constants=[2])
    np.testing.assert_array_equal(y, parts(np.fft.ifft(x[..., 0] + 1j * x[..., 1], axis=1), "float32"))


@pytest.mark.parametrize("n", [9, 10, 53])
def test_the_transform_of_a_real_signal_is_hermitian_to_the_bit(n: int) -> None:
    [y] = run_op("DFT", [ramp((n, 1)), None, np.array(0)], opset=20, constants=[2])
    np.testing.assert_array_equal(y, y[-np.arange(n)] * np.array([1, -1], np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_number_of_a_constant_signal_is_exactly_zero(dtype: str) -> None:
    """Of frames of 5 to 512 samples; nor is it more than a product with rounded sines leaves. Silence stays silence."""
    unit = float(np.finfo(dtype).eps)
    program = op_program("DFT", [ramp((2, 7, 1), dtype), None, np.array(1)], {"onesided": 1}, opset=20, constants=[2])
    for n in [*range(5, 70), 100, 200, 441, 480, 500, 512]:
        x = np.stack([np.full((n, 1), 0.7, dtype), np.zeros((n, 1), dtype)])
        y = np.hypot(*np.moveaxis(program([x])[0], -1, 0))
        assert (y[0] > 0).all() and (y[0, 1:] < n * unit).all(), n
        assert (y[1] == 0).all(), n


def test_frames_of_a_constant_signal_have_no_exact_zeros() -> None:
    for n in (12, 20):
        [y] = run_op("STFT", [np.full((1, 60, 1), 0.3, np.float32), np.array(5), ramp((n,)) * 0 + 1], {}, constants=[1])
        assert np.hypot(y[..., 0], y[..., 1]).min() > 0


def framed(x: Array, step: int, window: Array, onesided: int) -> Array:
    starts = range(0, x.shape[1] - len(window) + 1, step)
    frames = np.stack([signal(x)[:, s : s + len(window)] * window for s in starts], 1)
    return parts(np.fft.rfft(frames) if onesided else np.fft.fft(frames), x.dtype.name)


@pytest.mark.parametrize(("complex_", "onesided"), [(1, 1), (1, 0), (2, 0)])
def test_stft_of_windowed_frames(complex_: int, onesided: int) -> None:
    x, window = ramp((2, 50, complex_)), ramp((12,), low=0.1, high=1)
    wanted = framed(x, 5, window, onesided)
    check_op("STFT", x, np.array(5), window, onesided=onesided, atol=1e-5, constants=[1], expected=wanted)


def test_the_parts_of_numbers_are_no_axis() -> None:
    with pytest.raises(NotSupported, match="axis 1 is that of real and imaginary parts"):
        run_op("DFT", [ramp((4, 2))], {"axis": 1}, opset=17)


@pytest.mark.parametrize("parts", [0, 3])
@pytest.mark.parametrize("fixed", [True, False])
def test_numbers_have_one_part_or_two(parts: int, fixed: bool) -> None:
    with pytest.raises(InvalidArgument, match=f"(is {parts}; it should be|have {parts} parts, expected) 1 or 2"):
        run_op("DFT", [ramp((2, 4, parts))], {"axis": 1}, opset=17, fixed=fixed)
    with pytest.raises(InvalidArgument, match=f"(is {parts}; it should be|have {parts} parts, expected) 1 or 2"):
        run_op("STFT", [ramp((2, 40, parts)), np.array(4), None, np.array(8)], {"onesided": 0}, fixed=fixed, constants=[1, 3])


@pytest.mark.parametrize("length", [0, -1, -(2**63)])
@pytest.mark.parametrize("constants", [(1, 2), (2,)], ids=str)
def test_a_transform_of_no_points_has_no_numbers(length: int, constants: tuple[int, ...]) -> None:
    inputs = [ramp((2, 4, 1)), np.array(length), np.array(1)]
    with pytest.raises(OrtLiteError, match=r"DFT 'node'.*dft_length, .*has the element"):
        run_op("DFT", inputs, {"onesided": 1}, opset=20, constants=constants)


@pytest.mark.parametrize(
    ("step", "window", "message"),
    [
        (0, 8, "frame_step, .*has the element 0"),
        (-4, 8, "frame_step, .*has the element -4"),
        (4, 7, "a window of 7 for frames of 8"),
        (4, 9, "a window of 9 for frames of 8"),
    ],
)
@pytest.mark.parametrize("constants", [(1, 3), ()], ids=str)
def test_frames_and_their_window_fit(step: int, window: int, message: str, constants: tuple[int, ...]) -> None:
    inputs = [ramp((1, 40, 1)), np.array(step), ramp((window,)), np.array(8)]
    with pytest.raises(OrtLiteError, match=message):
        run_op("STFT", inputs, {}, constants=constants)
