"""Models of products and convolutions of bytes, for all pairs of signednesses: the kernels that such operators may ask for."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import onnx.parser
from onnx import numpy_helper

from ort_lite.dtypes import Array
from tests.cpu.byte_products import SIGNS, bytes_of

PAIRS_OF_SIGNS = [(left, right) for left in SIGNS for right in SIGNS]
HEAD = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'


class Convolution(NamedTuple):
    """The shapes of the image and of the filters, groups, pads and stride of a convolution."""

    image: tuple[int, ...]
    filters: tuple[int, ...]
    groups: int = 1
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    stride: int = 1

    @property
    def attributes(self) -> str:
        """The attributes as text."""
        return f"pads = {list(self.pads)}, group = {self.groups}, strides = {[self.stride] * 2}"


CONVOLUTIONS = {
    "pointwise": Convolution((2, 5, 4, 9), (33, 5, 1, 1)),
    "lines": Convolution((1, 16, 9, 34), (40, 16, 3, 3), pads=(1, 1, 1, 1)),
    "lines with a stride": Convolution((2, 3, 12, 13), (8, 3, 5, 5), pads=(2, 2, 2, 2), stride=2),
    "gathered": Convolution((1, 6, 9, 8), (70, 3, 3, 2), 2, (1, 0, 1, 2)),
    "depthwise": Convolution((1, 20, 7, 8), (20, 1, 3, 3), 20, (1, 1, 1, 1)),
    "depthwise with a stride": Convolution((2, 37, 11, 18), (37, 1, 5, 3), 37, (2, 1, 2, 1), 2),
    "many depthwise": Convolution((1, 130, 6, 33), (130, 1, 3, 3), 130, (1, 1, 1, 1)),
}


class Model(NamedTuple):
    """A model, its constants, and which of these its nodes read."""

    data: bytes
    constants: Mapping[str, Array]


def _zeros(dtype: str, wide: bool) -> Array:
    """The zero point in the middle, or one that takes differences out of the range of bytes."""
    return np.array((3 if dtype == "uint8" else 90) if wide else (128 if dtype == "uint8" else 0), dtype)


def _made(inputs: list[str], outputs: list[str], nodes: list[str], constants: Mapping[str, Array]) -> Model:
    text = f"{HEAD} g ({', '.join(inputs)}) => ({', '.join(outputs)}) {{ {' '.join(nodes)} }}"
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return Model(model.SerializeToString(), constants)


def matmuls(k: int, n: int, wide: bool) -> Model:
    """Products of a_uint8, a_int8 (M, k) and f (M, k) by constants (k, n), with zero points of all kinds.

    wide: zero points of the constants take them out of the range of bytes.
    """
    scales = {"sa": np.float32(0.02), "sy": np.float32(0.3), "sb": np.linspace(1e-3, 0.3, n, dtype=np.float32)}
    constants: dict[str, Array] = {name: np.asarray(value) for name, value in scales.items()}
    constants["bias"] = np.linspace(-3, 3, n, dtype=np.float32)
    constants["addends"] = (np.arange(n, dtype=np.int32) - n // 2) * 321
    inputs, outputs, nodes = (
        [f"float[M, {k}] f"],
        ["uint8[] q", "float[] s", "uint8[] z"],
        ["q, s, z = DynamicQuantizeLinear(f)"],
    )
    for sign in SIGNS:
        b = bytes_of(k, n, seed=k, dtype=sign)
        constants |= {f"b_{sign}": b, f"t_{sign}": np.ascontiguousarray(b.T), f"zb_{sign}": _zeros(sign, wide)}
        constants |= {f"za_{sign}": _zeros(sign, True), f"zc_{sign}": bytes_of(n, seed=7, dtype=sign)}
        inputs += [f"{sign}[M, {k}] a_{sign}", f"{sign}[M, 1] rows_{sign}"]
        nodes.append(f"d_{sign} = com.microsoft.DynamicQuantizeMatMul(f, b_{sign}, sb, zd_{sign}, bias)")
        constants[f"zd_{sign}"] = np.full(n, _zeros(sign, wide), sign)
        outputs.append(f"float[] d_{sign}")
    for left, right in PAIRS_OF_SIGNS:
        end, x, w = f"{left}_{right}", f"a_{left}", f"b_{right}"
        nodes += [
            f"x_{end} = MatMulInteger({x}, {w}, za_{left}, zb_{right})",
            f"c_{end} = MatMulInteger({x}, {w}, za_{left}, zc_{right})",
            f"r_{end} = MatMulInteger({x}, {w}, rows_{left}, zb_{right})",
            f"y_{end} = QLinearMatMul({x}, sa, za_{left}, {w}, sb, zv_{right}, sy, za_{left})",
            f"g_{end} = com.microsoft.QGemm<transB = 1>({x}, sa, za_{left}, t_{right}, sb, zv_{right}, addends, sy, za_{left})",
            f"h_{end} = com.microsoft.QGemm<transB = 1>({x}, sa, za_{left}, t_{right}, sb, zv_{right}, addends)",
        ]
        constants[f"zv_{right}"] = constants[f"zd_{right}"]
        kinds = {"x": "int32", "c": "int32", "r": "int32", "y": left, "g": left, "h": "float"}
        outputs += [f"{kind}[] {name}_{end}" for name, kind in kinds.items()]
    return _made(inputs, outputs, nodes, constants)


def convolutions(name: str, wide: bool) -> Model:
    """ConvInteger and QLinearConv of x_uint8 and x_int8 by constant filters, see CONVOLUTIONS."""
    case = CONVOLUTIONS[name]
    count, attributes = case.filters[0], case.attributes
    constants: dict[str, Array] = {"sx": np.array(0.02, np.float32), "sy": np.array(0.3, np.float32)}
    constants |= {"sw": np.linspace(1e-3, 0.3, count, dtype=np.float32), "bias": np.arange(count, dtype=np.int32) * 97 - 400}
    inputs: list[str] = []
    outputs: list[str] = []
    nodes: list[str] = []
    for sign in SIGNS:
        constants |= {f"w_{sign}": bytes_of(*case.filters, seed=3, dtype=sign), f"zw_{sign}": _zeros(sign, wide)}
        constants[f"zx_{sign}"] = _zeros(sign, True)
        constants[f"zv_{sign}"] = np.full(count, _zeros(sign, wide), sign)
        inputs.append(f"{sign}[{', '.join(map(str, case.image))}] x_{sign}")
    for left, right in PAIRS_OF_SIGNS:
        end = f"{left}_{right}"
        nodes += [
            f"c_{end} = ConvInteger<{attributes}>(x_{left}, w_{right}, zx_{left}, zw_{right})",
            f"y_{end} = QLinearConv<{attributes}>(x_{left}, sx, zx_{left}, w_{right}, sw, zv_{right}, sy, zx_{left}, bias)",
        ]
        outputs += [f"int32[] c_{end}", f"{left}[] y_{end}"]
    return _made(inputs, outputs, nodes, constants)


def models() -> Iterator[bytes]:
    """All of them, at one size."""
    for wide in (False, True):
        yield matmuls(64, 33, wide).data
        for name in CONVOLUTIONS:
            yield convolutions(name, wide).data
