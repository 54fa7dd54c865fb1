"""A whole execution provider in 25 lines: NumPy as an accelerator, in front of the CPU provider.

    python examples/provider_in_25_lines.py

A `KernelProvider` is made of a function for each operator. ort_lite asks it what it takes, joins that into partitions, gives the rest
to the CPU provider, and can say of every node who runs it and why nobody else does. `docs/writing-a-provider.md` goes on from here.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ort_lite
from ort_lite.graph import Node
from ort_lite.provider.kernels import Kernel, KernelProvider, KernelRegistry

FOLDER = Path(__file__).parent / "digits"

# The provider, from here ...
numpy_kernels = KernelRegistry()
numpy_kernels.add("Relu", lambda x: np.maximum(x, 0), since=6, types={"float32"})
numpy_kernels.add("Add", np.add, since=7, types={"float32"})
numpy_kernels.add("Mul", np.multiply, since=7, types={"float32"})
numpy_kernels.add("Sub", np.subtract, since=7, types={"float32"})


@numpy_kernels.kernel("Softmax", since=13, types={"float32"})
def softmax(node: Node) -> Kernel:
    axis = node.attr("axis", -1)

    def run(x: NDArray[np.float32]) -> NDArray[np.float32]:
        powers = np.exp(x - x.max(axis, keepdims=True))
        shares: NDArray[np.float32] = powers / powers.sum(axis, keepdims=True)
        return shares

    return run


class NumpyExecutionProvider(KernelProvider):
    name = "NumpyExecutionProvider"
    kernels = numpy_kernels


# ... to here.


def digits(session: ort_lite.InferenceSession, images: NDArray[np.uint8]) -> NDArray[np.int64]:
    """(n, 1, 8, 8) pixels from 0 to 16 -> (n,) digits."""
    (probabilities,) = session.run(["probabilities"], {"images": images})
    read: NDArray[np.int64] = probabilities.argmax(1)
    return read


def main() -> None:
    model = FOLDER / "digits_cnn.onnx"
    session = ort_lite.InferenceSession(model, providers=[NumpyExecutionProvider, "CPUExecutionProvider"])
    for node, said in session.explain().verdicts().items():
        print(f"{node:<15}{said['NumpyExecutionProvider']}")
    with np.load(FOLDER / "test_images.npz") as data:
        right = (digits(session, data["images"]) == data["labels"]).sum()
        print(f"\n{right} of {len(data['labels'])} handwritten digits read right")


if __name__ == "__main__":
    main()
