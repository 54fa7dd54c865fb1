"""Changes that a session's options make to a newly loaded model: free dimensions and initialisers."""

from collections.abc import Mapping

from ort_lite.errors import InvalidArgument
from ort_lite.graph.model import Model
from ort_lite.graph.types import TensorType
from ort_lite.options.options import SessionOptions
from ort_lite.shapes.dims import substitute


def apply_overrides(model: Model, options: SessionOptions) -> None:
    """Apply the options' free-dimension overrides and replacement initialisers to a newly loaded model."""
    by_name, by_denotation = options.free_dimensions
    override_dimensions(model, by_name, by_denotation)
    for name, given in options.initializers.items():
        value = model.graph.initializers.get(name)
        if value is None or value.constant is None:
            raise InvalidArgument(f"add_initializer: the model has no initialiser {name!r}")
        array = given.numpy() if hasattr(given, "numpy") else given
        if array.dtype != value.constant.dtype or array.shape != value.constant.shape:
            came, expected = (f"{a.dtype}{list(a.shape)}" for a in (array, value.constant))
            raise InvalidArgument(f"add_initializer: {name!r} is {came}; the model's is {expected}")
        value.constant = array


def override_dimensions(model: Model, by_name: Mapping[str, int], by_denotation: Mapping[str, int] | None = None) -> None:
    """Replace free dimensions of the model's inputs by numbers. Names that no input has are ignored, as in onnxruntime.

    Denotations ignore case. A denotation overrides only its own dimension, a name all dimensions of that name. Raises
    InvalidArgument for a dimension that already has another size or has two overrides.
    """
    wanted = {name.lower(): size for name, size in (by_denotation or {}).items()}
    for value in model.graph.inputs:
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            shape = [substitute(dim, by_name) for dim in value.type.shape]
            for axis, denotation in enumerate(model.denotations.get(value.name, ())):
                size = wanted.get(denotation.lower()) if denotation else None
                if size is None:
                    continue
                if isinstance(shape[axis], int) and shape[axis] != size:
                    raise InvalidArgument(
                        f"input {value.name!r} has {shape[axis]} in dimension {axis}; the override by its denotation "
                        f"{denotation!r} is {size}"
                    )
                shape[axis] = size
            value.type = value.type.replace(shape=tuple(shape))
