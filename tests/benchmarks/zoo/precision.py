"""Versions of exported models with fewer bits: float16, int8 with QuantizeLinear and DequantizeLinear, and dynamic int8."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxconverter_common import float16
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process


def to_float16(place: Path) -> None:
    """Convert all but inputs and outputs."""
    path = place / "model.onnx"
    model = onnx.load(path)
    (place / "model.onnx.data").unlink(missing_ok=True)
    onnx.save(float16.convert_float_to_float16(model, keep_io_types=True), path)


class Feeds(quantization.CalibrationDataReader):
    """The feeds of a file, once."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as held:
            self._left = [dict(held)]

    def get_next(self) -> Any:
        return self._left.pop() if self._left else None


def quantize_static(place: Path) -> None:
    """Quantize per channel, with ranges from the feeds."""
    path, prepared, quantized = (place / name for name in ("model.onnx", "prepared.onnx", "quantized.onnx"))
    quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
    quantization.quantize_static(
        str(prepared),
        str(quantized),
        Feeds(place / "feeds.npz"),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    prepared.unlink()
    quantized.replace(path)


def quantize_dynamic(place: Path) -> None:
    """Quantize the weights; activations are quantized as the model runs."""
    path, quantized = place / "model.onnx", place / "quantized.onnx"
    quantization.quantize_dynamic(str(path), str(quantized), weight_type=quantization.QuantType.QInt8)
    quantized.replace(path)
