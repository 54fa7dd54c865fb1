"""A provider with a mistake, and how `ort_lite.verify` finds the node.

    python examples/faulty_provider.py

The provider's LayerNormalization divides by the standard deviation of a sample (n - 1) instead of that of the whole (n). Nothing
crashes, and every answer looks plausible. `verify` runs each partition on the CPU provider as well, from the same inputs; where the
two differ it compiles shorter and shorter beginnings of the partition until it has the first node that is wrong. From the command line:
`ort-lite verify model.onnx --provider NAME`.
"""

import numpy as np
import onnx.parser
from numpy.typing import NDArray

import ort_lite
from ort_lite.graph import Node
from ort_lite.provider.kernels import Kernel, KernelProvider, KernelRegistry
from ort_lite.tools.verify.verification_report import VerificationReport

MODEL = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
block (float[N, 8] x, float[8, 16] w1, float[16, 4] w2, float[16] scale) => (float[N, 4] y) {
    wide = MatMul(x, w1)
    positive = Relu(wide)
    normal = LayerNormalization<axis = -1, epsilon = 0.001>(positive, scale)
    narrow = MatMul(normal, w2)
    y = Tanh(narrow)
}""")

Array = NDArray[np.float32]


def normalisation(ddof: int) -> KernelRegistry:
    """The kernels of a provider whose LayerNormalization takes n - ddof for the number of values."""
    registry = KernelRegistry()
    registry.add("MatMul", np.matmul, since=9, types={"float32"})
    registry.add("Relu", lambda x: np.maximum(x, 0), since=6, types={"float32"})
    registry.add("Tanh", np.tanh, since=6, types={"float32"})

    @registry.kernel("LayerNormalization", since=17, types={"float32"})
    def layer_normalization(node: Node) -> Kernel:
        axis, epsilon = node.attr("axis", -1), node.attr("epsilon", 1e-5)

        def run(x: Array, scale: Array) -> Array:
            variance = x.var(axis, keepdims=True, ddof=ddof)
            normal: Array = (x - x.mean(axis, keepdims=True)) / np.sqrt(variance + np.float32(epsilon)) * scale
            return normal

        return run

    return registry


class FaultyExecutionProvider(KernelProvider):
    """Takes n - 1."""

    name = "FaultyExecutionProvider"
    kernels = normalisation(ddof=1)


class RepairedExecutionProvider(KernelProvider):
    """Takes n."""

    name = "RepairedExecutionProvider"
    kernels = normalisation(ddof=0)


def verified(provider: type[KernelProvider]) -> VerificationReport:
    """What verification finds out about the provider, by one feed."""
    rng = np.random.default_rng(0)
    shapes = {"x": (5, 8), "w1": (8, 16), "w2": (16, 4), "scale": (16,)}
    feed = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return ort_lite.verify(MODEL, feed, [provider, "CPUExecutionProvider"])


def main() -> None:
    for provider in (FaultyExecutionProvider, RepairedExecutionProvider):
        print(f"{verified(provider)}\n")


if __name__ == "__main__":
    main()
