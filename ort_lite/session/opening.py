"""Open a session's model: load it, place its weights in spans and set its parameters."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ort_lite.dtypes import from_numpy
from ort_lite.errors import Fail, InvalidArgument, NoSuchFile, OrtLiteError
from ort_lite.execute.feeds import check_shape
from ort_lite.graph.graph import Value
from ort_lite.graph.model import Model
from ort_lite.graph.types import TensorType
from ort_lite.load.load import load
from ort_lite.load.parse_options import ParseOptions, SerializeOptions
from ort_lite.load.proto import pb
from ort_lite.load.source import ModelSource, ParsedSource
from ort_lite.load.spans import copy_to_span
from ort_lite.load.tolerated import forget_element_shapes
from ort_lite.options.config_keys import (
    CONTEXT_PATH,
    INITIALIZERS_FOLDER,
    LOAD_FORMAT,
    OPTIMIZED_BESIDE,
    OPTIMIZED_LEAST,
    SAVE_FORMAT,
)
from ort_lite.options.options import SessionOptions
from ort_lite.plugins.rooms import hook
from ort_lite.provider.context_nodes import is_context
from ort_lite.transform.contract import all_graphs

if TYPE_CHECKING:
    from ort_lite.load.supplied import Supplied

Params = Mapping[str, Any] | bytes | bytearray | memoryview
"""Arrays by name, or the bytes that `save_params` returned."""

_KEPT_BYTES = 2**26  # a session keeps source bytes up to this size, for its page and so that parameters can be loaded later


def open_model(
    source: ModelSource | ParsedSource | Model,
    options: SessionOptions,
    parse: ParseOptions | None = None,
    params: Params | None = None,
) -> Model:
    """Return the session's own Model.

    Weights are copied, unless `parse` borrows them from the caller's buffer or a mapped file. Raises InvalidArgument for a
    parameter without a value, and the errors of `load`.
    """
    _check_formats(options)
    if parse is None:
        parse = ParseOptions()
    elif not isinstance(parse, ParseOptions):
        raise InvalidArgument(f"parse_options came as {type(parse).__name__}, expected ParseOptions")
    elif not parse.copy_misaligned:  # kernels read whole elements
        parse = ParseOptions(**vars(parse) | {"copy_misaligned": True})
    model = load(source, parse, folder=options.config(INITIALIZERS_FOLDER, "") or None, supplied=_external_data(options))
    forget_element_shapes(model)
    reader, path = options.context_reader(), source.path if isinstance(source, ParsedSource) else source
    place = path if isinstance(path, (str, os.PathLike)) else options.config(CONTEXT_PATH, "")
    if (reader or place) and any(map(is_context, model.graph.all_nodes())):
        from ort_lite.session.context import read_files

        read_files(model.graph, os.path.abspath(place) if place else "", reader)
    whole = not isinstance(source, Model) and parse.load_external_data and not parse.skip_raw_data
    if not whole:
        _align(model)
    if params is not None:
        set_params(model, params)
    if not whole:
        _check_complete(model)
    return model


def _check_formats(options: SessionOptions) -> None:
    """Raise InvalidArgument for onnxruntime's own model format, which is not supported."""
    for key in (LOAD_FORMAT, SAVE_FORMAT):
        if (name := options.config(key, "ONNX")).upper() != "ONNX":
            raise InvalidArgument(
                f"session config entry {key} is {name!r}; expected 'ONNX', the format that is read and written"
            )
    if options.optimized_model_filepath.endswith(".ort"):
        raise InvalidArgument(
            f"optimized_model_filepath is {options.optimized_model_filepath!r}: models are written in ONNX's format; name it .onnx"
        )


def _external_data(options: SessionOptions) -> "Supplied | None":
    """Return the external data that the options hold in memory."""
    arrays, files = options.external_initializers
    if not arrays and not files:
        return None
    from ort_lite.load.supplied import Supplied

    return Supplied(arrays, files)


def source_to_keep(source: ModelSource | Model) -> ModelSource | Model | None:
    """Return the part of its source that a session keeps so that it can be rebuilt; None if it is too large."""
    if isinstance(source, (str, os.PathLike)):
        return os.path.abspath(source)
    if isinstance(source, Model):
        return source
    if isinstance(source, bytes):
        return source if len(source) <= _KEPT_BYTES else None
    return source if isinstance(source, pb.ModelProto) and source.ByteSize() <= _KEPT_BYTES else None


def save_optimized_model(model: Model, options: SessionOptions) -> None:
    """Write the model to `optimized_model_filepath`, and its weights to the external file that the config names, if any.

    Raises InvalidArgument for a malformed size, and NoSuchFile or Fail if a file cannot be written.
    """
    from ort_lite.load.save import save

    least = options.config(OPTIMIZED_LEAST, "1024")
    if not (least.isascii() and least.isdigit()):
        raise InvalidArgument(f"{OPTIMIZED_LEAST} is {least!r}, expected a number of bytes")
    external = SerializeOptions(external_data=options.config(OPTIMIZED_BESIDE, "") or None, raw_data_threshold=int(least))
    try:
        save(model, options.optimized_model_filepath, external)
    except OrtLiteError:
        raise
    except OSError as error:
        kind = NoSuchFile if isinstance(error, FileNotFoundError) else Fail
        raise kind(
            f"optimized_model_filepath {options.optimized_model_filepath!r} cannot be written: {error.strerror}"
        ) from error


def set_params(model: Model, params: Params) -> None:
    """Set the values of initializers and inputs. An input with a value need not be fed.

    Arrays are copied; parameters that come as bytes are not. Raises InvalidArgument for an unknown name and for a different
    element type or shape; the model is unchanged then.
    """
    from ort_lite.tensors.conversion import array_of

    ours = not isinstance(params, Mapping)
    given: Mapping[str, Any] = hook("params")(params) if not isinstance(params, Mapping) else params
    values = {value.name: value for value in model.graph.inputs}
    for graph in reversed(list(all_graphs(model.graph))):  # an outer name hides an inner one
        values.update(graph.initializers)
    found = []
    for name, value in given.items():
        if name not in values:
            known = ", ".join(map(repr, values)) or "none"
            raise InvalidArgument(f"load_params: the model has no parameter {name!r}; it has {known}")
        array = array_of(value)
        _check(values[name], from_numpy(array.dtype), array.shape)
        found.append((values[name], array))
    for place, array in found:
        place.constant = array if ours else copy_to_span(array)
        place.constant.setflags(write=False)
        if place in model.graph.inputs:
            model.graph.initializers.setdefault(place.name, place)


def _check(place: Value, dtype: str, shape: tuple[int, ...]) -> None:
    if not isinstance(place.type, TensorType) or dtype != place.type.dtype:
        raise InvalidArgument(f"load_params: {place.name!r} is {dtype}{list(shape)}; the model's is {place.type}")
    if place.constant is not None and shape != place.constant.shape:
        raise InvalidArgument(f"load_params: {place.name!r} is {dtype}{list(shape)}; the model's is {place.type}")
    check_shape(place.name, shape, place.type.shape)


def _check_complete(model: Model) -> None:
    values = (value for graph in all_graphs(model.graph) for value in graph.initializers.values())
    if missing := [value.name for value in values if value.constant is None]:
        names = f"parameter {missing[0]!r}" + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
        raise InvalidArgument(f"{names} has not been loaded: the model has only its structure; give a value by params=")


def _align(model: Model) -> None:
    from ort_lite.load.tensors import model_tensors

    for slot in model_tensors(model):
        if not slot.array.flags.aligned:
            slot.array = copy_to_span(slot.array)
