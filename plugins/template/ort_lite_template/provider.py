"""TemplateExecutionProvider: one function per operator; ort-lite does the rest."""

from typing import ClassVar

import numpy as np

from ort_lite.graph import Node
from ort_lite.provider.kernels import Kernel, KernelProvider, KernelRegistry

FLOAT = {"float32"}
operators = KernelRegistry()
operators.add("Abs", np.abs, since=6, types=FLOAT)
operators.add("Add", np.add, since=7, types=FLOAT)
operators.add("Mul", np.multiply, since=7, types=FLOAT)
operators.add("Neg", np.negative, since=6, types=FLOAT)
operators.add("Relu", lambda x: np.maximum(x, 0), since=6, types=FLOAT)


@operators.kernel("LeakyRelu", since=6, types=FLOAT)
def leaky_relu(node: Node) -> Kernel:
    """Return the kernel of one node, with its attributes bound. Spec: ONNX LeakyRelu-16."""
    alpha = np.float32(node.attr("alpha", 0.01))
    return lambda x: np.where(x < 0, alpha * x, x)


class TemplateExecutionProvider(KernelProvider):
    """Float32 operators, one NumPy function each."""

    name: ClassVar[str] = "TemplateExecutionProvider"
    kernels: ClassVar[KernelRegistry] = operators
