"""Parts of a ModelProto: declarations of inputs and outputs, initializers, and inlined functions."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array, from_numpy, to_onnx


def initializer(array: Array, name: str) -> Any:
    """Return an array as a TensorProto with a name."""
    from onnx import numpy_helper

    return numpy_helper.from_array(array, name)


def array_of(tensor: Any) -> Array:
    """Return the elements of a TensorProto as an array."""
    from onnx import numpy_helper

    return np.asarray(numpy_helper.to_array(tensor))


def output(name: str) -> Any:
    """Return an output without a declared type."""
    from onnx import ValueInfoProto

    return ValueInfoProto(name=name)


def declaration(name: str, contents: Any, style: str = "fixed") -> Any:
    """Declare an input with these contents; None if they do not tell their type. `style`: "open" leaves out the sizes."""
    from onnx import helper

    if isinstance(contents, np.ndarray):
        sizes: list[int | None] = [*contents.shape] if style == "fixed" else [None] * contents.ndim
        return helper.make_tensor_value_info(name, to_onnx(from_numpy(contents.dtype)), sizes)
    if isinstance(contents, list) and contents and isinstance(contents[0], np.ndarray):
        return helper.make_tensor_sequence_value_info(name, to_onnx(from_numpy(contents[0].dtype)), None)
    return None


def without_functions(model: Any) -> Any:
    """Return a model with the nodes of its functions in place of the calls."""
    from onnx import inliner

    return inliner.inline_local_functions(model)
