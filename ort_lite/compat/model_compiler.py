"""onnxruntime's ModelCompiler: write a model whose partitions are already compiled."""

import os
import secrets
from collections.abc import Callable
from enum import IntFlag
from typing import Any

import numpy as np

from ort_lite.compat.context_data import OrtEpContextData, WriteContext
from ort_lite.compat.inference_session import InferenceSession
from ort_lite.compat.initializer_files import InitializerFiles
from ort_lite.compat.ort_options import SessionOptions
from ort_lite.compat.ort_value import OrtValue
from ort_lite.errors import Fail, InvalidArgument, InvalidGraph, InvalidType, format_error
from ort_lite.graph.model import Model
from ort_lite.load.files import read_file, write_file
from ort_lite.load.parse_options import SerializeOptions
from ort_lite.load.proto import pb, serialize
from ort_lite.load.save import save, to_proto
from ort_lite.options import config_keys
from ort_lite.options.options import GraphOptimizationLevel
from ort_lite.record import Record
from ort_lite.session import context
from ort_lite.session.preparation import load_again
from ort_lite.session.simplify import form_to_save


class OrtCompileApiFlags(IntFlag):
    """Conditions that make ModelCompiler fail; a bit mask."""

    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2


class OrtExternalInitializerInfo(Record):
    """The location of an initializer's bytes: a file relative to the model's, and a range in it."""

    filepath: str
    file_offset: int
    byte_size: int


PlaceInitializer = Callable[[str, OrtValue, "OrtExternalInitializerInfo | None"], "OrtExternalInitializerInfo | None"]


class ModelCompiler:
    """A compiler that saves partitions as EPContext nodes where their providers can serialize them.

    Session options choose the providers. Partitions that cannot be serialized stay as they are. Costs as much as a session.

    Args:
        sess_options: the options, which are copied.
        input_model_path_or_bytes: the model.
        embed_compiled_data_into_model: True stores contexts in the model, False in files next to it.
        external_initializers_file_path: a file next to the output model for initializers of
            `external_initializers_size_threshold` bytes or more.
        flags: OrtCompileApiFlags.
        graph_optimization_level: the level of transforms.
        get_initializer_location_func: a function (name, value, current location) that returns where an initializer of the main
            graph is stored, or None for the model itself.
    """

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: int = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: PlaceInitializer | None = None,
    ) -> None:
        """Validate the arguments; nothing is compiled yet.

        Raises TypeError for a model that is neither a path nor bytes, and InvalidArgument for an empty one and for two
        locations of initializers.
        """
        source = input_model_path_or_bytes
        if not isinstance(source, (str, os.PathLike, bytes)):
            raise TypeError(f"ModelCompiler: the model came as {type(source).__name__}, expected a path or bytes")
        if not source:
            raise InvalidArgument("ModelCompiler: the model is empty, expected a path or bytes")
        self._source = source if isinstance(source, bytes) else os.fspath(source)
        self._beside = os.fspath(external_initializers_file_path or "")
        if self._beside and get_initializer_location_func is not None:
            raise InvalidArgument(
                "ModelCompiler: got external_initializers_file_path and get_initializer_location_func; expected one of them"
            )
        self._options = sess_options.copy()
        self._options.graph_optimization_level = graph_optimization_level
        for key in (config_keys.DISABLE_COMPILE, config_keys.CONTEXT_ENABLE):
            self._options.add_session_config_entry(key, "0")
        self._options.add_session_config_entry(config_keys.KEEP_CONSTANTS, "1")
        self._embed, self._flags = bool(embed_compiled_data_into_model), OrtCompileApiFlags(flags)
        self._least, self._place = int(external_initializers_size_threshold), get_initializer_location_func
        self._write_context: WriteContext | None = None
        self._contexts: tuple[str, str] | None = None

    def set_ep_context_data_write_func(self, write_func: WriteContext) -> None:
        """Pass compiled contexts to `write_func(name, data)` instead of writing files."""
        if not callable(write_func):
            raise InvalidArgument(f"set_ep_context_data_write_func: got {write_func!r}, expected a function")
        self._write_context = write_func

    def clear_ep_context_data_write_func(self) -> None:
        """Write compiled contexts to files again."""
        self._write_context = None

    def set_ep_context_binary_information(self, output_directory: str | os.PathLike[str], model_name: str) -> None:
        """Set the folder for files of compiled contexts, and the model name with which their names start.

        The folder must be that of the output model or inside it. A session of `compile_to_bytes` finds the files by the config
        entry `ep.context_file_path`, the path of the model in the folder. Raises InvalidArgument for an empty text, and for a
        path that neither ends with a separator nor has an extension.
        """
        folder = os.fspath(output_directory)
        if not isinstance(model_name, str):
            raise InvalidType(
                f"set_ep_context_binary_information: model_name came as {type(model_name).__name__}, expected str"
            )
        if not folder or not model_name:
            raise InvalidArgument("output_dir or model_name is empty")
        name = os.path.basename(folder)
        if name and (name in (".", "..") or not os.path.splitext(name)[1]):
            raise InvalidArgument(f"output_dir is not a valid directory: {folder!r} does not end with {os.sep!r}")
        self._contexts = os.path.dirname(os.path.join(folder, model_name)), _stem(model_name)

    def compile_to_file(self, output_model_path: str | os.PathLike[str] | None = None) -> None:
        """Compile the model and write it to a path, by default next to its file with `_ctx` before the extension.

        Raises InvalidArgument if no path is known or it is the model's own, Fail if a flag forbids it, and the errors of
        session creation.
        """
        path = os.fspath(output_model_path) if output_model_path else self._default_path()
        if isinstance(self._source, str) and os.path.realpath(path) == os.path.realpath(self._source):
            raise InvalidArgument(f"ModelCompiler: {path} is the model's own file; give another path")
        if self._flags & OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS and os.path.exists(path):
            raise Fail(f"ModelCompiler: the output file {path} exists already; delete it, or compile to another one")
        model, compiled = self._compile_model()
        self._hand_out(model, path)
        if self._place is not None:
            self._save_with_locations(model, path, compiled)
        elif compiled and self._write_context is None and not self._beside and (self._embed or self._contexts is None):
            context.save_with_contexts(model, path, self._embed)
        else:
            self._save_beside(model, path, compiled)

    def compile_to_bytes(self) -> bytes:
        """Compile the model and return it as bytes, with contexts included unless a function takes them.

        Raises the errors of `compile_to_file`, and InvalidProtobuf above 2 GiB.
        """
        model, compiled = self._compile_model()
        self._hand_out(model, "model")
        if compiled and not self._embed and self._write_context is None and self._contexts is not None:
            self._contexts_to_files(model, os.path.join(self._contexts[0], "model"))
        if self._beside:
            path = os.path.join(os.path.dirname(self._beside), f".{secrets.token_hex(6)}.onnx")
            try:
                self._save_beside(model, path, compiled=False)
                return read_file(path)
            finally:
                if os.path.exists(path):
                    os.unlink(path)
        proto = to_proto(model)
        if self._place is not None:
            self._place_initializers(model, proto, "")
        return serialize(proto)

    def compile_to_stream(self, write_function: Callable[[bytes], Any]) -> None:
        """Compile the model and pass its bytes to a function. Raises Fail if the function fails."""
        data = self.compile_to_bytes()
        try:
            write_function(data)
        except Exception as error:  # the user's code
            raise Fail(f"ModelCompiler.compile_to_stream: the function that writes failed: {format_error(error)}") from error

    def _default_path(self) -> str:
        if isinstance(self._source, bytes):
            raise InvalidArgument("ModelCompiler: the model came as bytes; give the path of the output file")
        stem, ending = os.path.splitext(self._source)
        return f"{stem}_ctx{ending}"

    def _compile_model(self) -> tuple[Model, bool]:
        """Return the model with its compiled contexts and True. Without any, return the model as onnxruntime would transform it.

        Raises Fail if a flag demands contexts.
        """
        with InferenceSession(self._source, self._options) as session:
            prepared = session._stage_results
            try:
                return context.with_contexts(prepared.model, prepared.assignment, prepared.compiled.partitions), True
            except context.NothingToSave as nothing:
                if self._flags & OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED:
                    raise Fail(f"ModelCompiler: Unable to compile any nodes: {nothing}") from nothing
                state = session._state
                model = load_again(self._source, state.options, session._arguments)
                return form_to_save(model, state.selection.providers, state.options), False

    def _hand_out(self, model: Model, path: str) -> None:
        """Pass the contexts to the program's function, if it set one."""
        write = self._write_context
        if write is None:
            return

        def write_context(name: str, data: bytes) -> None:
            try:
                write(name, OrtEpContextData(data))
            except Exception as error:  # the user's code
                raise Fail(f"ModelCompiler: writing the context {name!r} failed: {format_error(error)}") from error

        context.hand_out(model, self._contexts[1] if self._contexts else _stem(path), write_context)

    def _save_beside(self, model: Model, path: str, compiled: bool) -> None:
        """Save the model, with initializers and contexts in external files as requested."""
        folder, name = os.path.split(self._beside)
        if name and os.path.realpath(os.path.join(os.path.dirname(path), folder)) != os.path.realpath(os.path.dirname(path)):
            raise InvalidArgument(f"external_initializers_file_path is {self._beside}, expected a file in the folder of {path}")
        if compiled and not self._embed and self._write_context is None:
            self._contexts_to_files(model, path)
        save(model, path, SerializeOptions(external_data=name or None, raw_data_threshold=self._least))

    def _contexts_to_files(self, model: Model, path: str) -> None:
        """Write contexts to files in the folder of the model at `path`, or the folder in it that the program set."""
        own = os.path.dirname(os.path.abspath(path))
        folder, stem = self._contexts or (own, _stem(path))
        below = os.path.relpath(os.path.realpath(folder), os.path.realpath(own)).replace(os.sep, "/")
        if below.split("/")[0] == "..":
            raise InvalidArgument(
                f"set_ep_context_binary_information: {folder} is not in the folder of the output model, {own}"
            )
        os.makedirs(os.path.join(own, below), exist_ok=True)

        def write(name: str, data: bytes) -> None:
            write_file(os.path.join(own, name), data)

        context.hand_out(model, stem if below == "." else f"{below}/{stem}", write)

    def _save_with_locations(self, model: Model, path: str, compiled: bool) -> None:
        if compiled and not self._embed and self._write_context is None:
            self._contexts_to_files(model, path)
        proto = to_proto(model)
        self._place_initializers(model, proto, os.path.dirname(os.path.abspath(path)))
        write_file(path, serialize(proto))

    def _place_initializers(self, model: Model, proto: pb.ModelProto, folder: str) -> None:
        """Store the initializers of the main graph where the program's function says."""
        assert self._place is not None
        constants = {name: value.constant for name, value in model.graph.initializers.items()}
        origins = InitializerFiles(self._source) if isinstance(self._source, str) else None
        for tensor in proto.graph.initializer:
            array = constants.get(tensor.name)
            if not isinstance(array, np.ndarray):
                continue
            found = None if origins is None else origins.place(tensor.name, array)
            origin = None if found is None else OrtExternalInitializerInfo(*found, array.nbytes)
            try:
                where = self._place(tensor.name, OrtValue(array), origin)
            except Exception as error:  # the user's code
                raise Fail(f"get_initializer_location_func failed for {tensor.name!r}: {format_error(error)}") from error
            if where is not None:
                _refer(tensor, where, folder, array.nbytes)


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _refer(tensor: pb.TensorProto, where: OrtExternalInitializerInfo, folder: str, nbytes: int) -> None:
    """Replace a tensor's data by a reference to a file. Raises InvalidGraph for another size.

    A file below the model's folder is referenced by its relative path.
    """
    if where.byte_size != nbytes:
        raise InvalidGraph(
            f"initialiser {tensor.name!r} has {nbytes} bytes; get_initializer_location_func said {where.byte_size}"
        )
    path = where.filepath
    if folder and os.path.isabs(path) and os.path.commonpath([folder, path]) == folder:
        path = os.path.relpath(path, folder)
    name, dtype, dims = tensor.name, tensor.data_type, list(tensor.dims)
    tensor.Clear()
    tensor.name, tensor.data_type = name, dtype
    tensor.dims.extend(dims)
    tensor.data_location = pb.TensorProto.EXTERNAL
    for key, value in (("location", path), ("offset", str(where.file_offset)), ("length", str(nbytes))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value


def get_compatibility_info_from_model(model_path: str | os.PathLike[str], ep_type: str) -> str | None:
    """Return the compatibility info that a provider saved in a compiled model, or None. O(model)."""
    from ort_lite.load.load import load
    from ort_lite.load.parse_options import ParseOptions

    return load(model_path, ParseOptions(load_external_data=False)).metadata_props.get(f"ep_compatibility_info.{ep_type}")


def get_compatibility_info_from_model_bytes(model_data: bytes, ep_type: str) -> str | None:
    """Return the compatibility info that a provider saved in a compiled model, given as bytes."""
    from ort_lite.load.load import load

    if not len(model_data):
        raise InvalidArgument("get_compatibility_info_from_model_bytes: the model is empty")
    return load(model_data).metadata_props.get(f"ep_compatibility_info.{ep_type}")
