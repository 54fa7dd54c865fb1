"""Compiled partitions as EPContext nodes of onnxruntime: the attributes, and the files of those outside of the model."""

import os
import secrets
from collections.abc import Mapping, Sequence
from ctypes import byref, c_char_p, c_int64, c_void_p, string_at, wstring_at
from typing import Any

from ort_lite.errors import ProviderError
from ort_lite.provider import ExecutionProvider
from ort_lite.provider.ask import ask
from ort_lite.provider.context_nodes import BYTES, DOMAIN, OPERATOR, is_context
from ort_lite.record import Record
from ort_lite.session.context import fingerprint
from ort_lite.session.settle import Settled
from ort_lite_ep.c_api import CApi

_INT, _STRING = 1, 5  # OrtOpAttrType
_MOST = 2**31 - 1  # bytes of an attribute


class ContextOptions(Record):
    """The session's config entries about saved partitions. `path` is the file of the model that is saved, "" by default."""

    enable: bool = False
    embed: bool = False
    path: str = ""

    @classmethod
    def read(cls, entries: Mapping[str, str]) -> "ContextOptions":
        """Read them from the config entries of a session. Spec: onnxruntime_session_options_config_keys.h."""
        enable, embed = (entries.get(f"ep.context_{name}", "0") == "1" for name in ("enable", "embed_mode"))
        return cls(enable, embed, entries.get("ep.context_file_path", ""))

    def model_path(self, original: str) -> str:
        """Return the file in which onnxruntime saves the model: the given one, else `<stem>_ctx.onnx` beside the original."""
        if self.path or not original:
            return self.path
        return f"{os.path.splitext(original)[0]}_ctx.onnx"


class Context(Record):
    """A saved partition: the attributes of its EPContext node, and the names of the node's inputs and outputs."""

    attributes: Mapping[str, int | bytes]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read_model_path(api: CApi, graph: int) -> str:
    """Return the file of the model that a graph is from; "" if it has none."""
    address = api.read("Graph_GetModelPath", graph)
    if not address:
        return ""
    return wstring_at(address) if os.name == "nt" else os.fsdecode(string_at(address))


def save_context(settled: Settled, provider: ExecutionProvider, options: ContextOptions, name: str, original: str) -> Context:
    """Serialize the partition of a fused node, whose `name` the EPContext node has, and write its file unless it is embedded.

    Raises ProviderError if the provider does not save it, or compiled it in several parts.
    """
    assert settled.compiled is not None, "there is a compiler"
    partitions = settled.assignment.partitions
    if len(partitions) != 1 or partitions[0].provider is not provider:
        raise ProviderError(f"{name} cannot be saved: it has {len(partitions)} parts; expected one, of {provider.name}")
    (partition,) = partitions
    node = partition.nodes[0]
    if is_context(node):
        data, version = str(node.attr("ep_cache_context", "")).encode(*BYTES), str(node.attr("ep_sdk_version", ""))
    else:
        saved = ask(provider, "serialize", settled.compiled.partitions[partition.name])
        if saved is None:
            raise ProviderError(f"{name} cannot be saved: {provider.name} has no serialize(); leave ep.context_enable out")
        data, version = bytes(saved), ask(provider, "compatibility")
    if options.embed and len(data) > _MOST:
        raise ProviderError(f"{name} has {len(data)} bytes, too many for an attribute; leave ep.context_embed_mode out")
    texts = {"source": provider.name, "partition_name": name, "ep_sdk_version": version, "notes": fingerprint(data)}
    written = data if options.embed else _write(data, options.model_path(original), name).encode(*BYTES)
    attributes: dict[str, int | bytes] = {"main_context": 1, "embed_mode": int(options.embed), "ep_cache_context": written}
    attributes |= {key: text.encode(*BYTES) for key, text in texts.items()}
    return Context(attributes, *(tuple(v.name for v in values) for values in (partition.inputs, partition.outputs)))


def _write(data: bytes, model_path: str, name: str) -> str:
    """Write a context beside the model, and return the name of its file."""
    if not model_path:
        raise ProviderError(
            f"{name} cannot be saved: its model has no path; set the config entry ep.context_file_path or ep.context_embed_mode"
        )
    folder, file_name = os.path.split(model_path)
    own = f"{os.path.splitext(file_name)[0]}_{name}.bin"
    whole = os.path.join(folder, own)
    temporary = f"{whole}.{secrets.token_hex(6)}"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, whole)
    except OSError as error:
        raise ProviderError(f"{name} cannot be saved to {whole!r}: {error.strerror}") from error
    return own


def new_context_node(api: CApi, name: str, context: Context) -> int:
    """Create the EPContext node of a fused node, an OrtNode that onnxruntime takes over."""
    attributes = [_new_attribute(api, key, value) for key, value in context.attributes.items()]
    made = c_void_p()
    lists = [_texts(context.inputs), _texts(context.outputs), (c_void_p * len(attributes))(*attributes)]
    arguments = [part for array in lists for part in (array, len(array))]
    api.call("CreateNode", OPERATOR.encode(), DOMAIN.encode(), name.encode(), *arguments, byref(made))
    return made.value or 0


def _new_attribute(api: CApi, name: str, value: int | bytes) -> int:
    if isinstance(value, int):
        found = api.read("CreateOpAttr", name.encode(), byref(c_int64(value)), 1, _INT)
    else:
        found = api.read("CreateOpAttr", name.encode(), value, len(value), _STRING)
    return int(found)


def _texts(texts: Sequence[str]) -> Any:
    return (c_char_p * len(texts))(*(text.encode() for text in texts))
