"""`session.name_based_layer_assignment`: assign nodes to devices by parts of their names, as in onnxruntime.

    "cpu(embed_tokens); gpu(layers., lm_head)"

The longest text contained in a node's name decides its device; of equally long ones, the first. The assignment is a soft
placement rule: nodes that no provider of the device can run go to other providers. Devices are cpu, gpu, gpu:1, gpu:nvidia,
cuda, dml, npu, fpga, accelerator (any but the CPU), a kind of memory, or a provider's name.
"""

from collections.abc import Mapping, Sequence

from ort_lite.errors import InvalidArgument
from ort_lite.graph.graph import Node
from ort_lite.options.config_keys import LAYERS_BY_NAME
from ort_lite.partition.placement import PlacementRule
from ort_lite.provider.provider import CPU, ExecutionProvider

_GPUS = ("gpu", "cuda", "rocm", "dml", "webgpu")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "cpu": ("CPUExecutionProvider",),
    "gpu": ("CUDAExecutionProvider", "DmlExecutionProvider"),
    "cuda": ("CUDAExecutionProvider",),
    "dml": ("DmlExecutionProvider",),
    "npu": ("QNNExecutionProvider", "VitisAIExecutionProvider"),
}
"""Providers that belong to a device kind regardless of the memory that they report."""


def layer_rules(setting: str, providers: Mapping[str, ExecutionProvider]) -> tuple[list[PlacementRule], list[str]]:
    """Return the placement rules of the config entry, and remarks about devices that no provider has.

    Raises InvalidArgument for a malformed entry.
    """
    texts = _parse(setting)
    order = sorted(texts, key=len, reverse=True)
    rules, remarks = list[PlacementRule](), list[str]()
    for device in dict.fromkeys(texts.values()):
        labels = tuple(label for label, provider in providers.items() if _is_of(device, provider))
        own = ", ".join(text for text, wanted in texts.items() if wanted == device)
        if not labels:
            remarks.append(f"{LAYERS_BY_NAME}: no provider of the session is {device!r}; {device}({own}) is left out")
            continue
        rules.append(PlacementRule(labels, _LongestText(order, texts, device), text=f"{LAYERS_BY_NAME} {device}({own})"))
    return rules, remarks


class _LongestText:
    """A predicate: the longest text contained in a node's name selects this device."""

    def __init__(self, order: Sequence[str], texts: Mapping[str, str], device: str) -> None:
        self._order, self._texts, self._device = order, texts, device

    def __call__(self, node: Node) -> bool:
        return self._texts.get(next((text for text in self._order if text in node.name), "")) == self._device


def _parse(setting: str) -> dict[str, str]:
    """Parse the setting into a device per text."""
    found: dict[str, str] = {}
    for entry in filter(None, map(str.strip, setting.split(";"))):
        device, opened, rest = entry.partition("(")
        device = device.strip()
        if not (device and opened and rest.endswith(")")):
            raise InvalidArgument(
                f"{LAYERS_BY_NAME}: {entry!r}; expected a device and parts of names, as in 'gpu(layers.0/, head)'"
            )
        for text in filter(None, map(str.strip, rest[:-1].split(","))):
            if text.startswith("="):
                raise InvalidArgument(f"{LAYERS_BY_NAME}: {text!r}; texts are parts of names: '=' has no meaning")
            if text in found:
                raise InvalidArgument(f"{LAYERS_BY_NAME}: {text!r} is there twice")
            found[text] = device
    return found


def _is_of(device: str, provider: ExecutionProvider) -> bool:
    name, own = provider.name, provider.device
    kind, _, which = device.lower().partition(":")
    if device == name or (not which and name in _NAMES.get(kind, ())):
        return True
    match kind:
        case "cpu":
            return own == CPU
        case "accelerator":
            return own != CPU
        case "gpu" if which.isdecimal():
            return own.kind in _GPUS and own.id == int(which)
        case "gpu" if which:
            return (which, own.kind) in (("nvidia", "cuda"), ("amd", "rocm"))
        case "gpu":
            return own.kind in _GPUS
    return own.kind == kind and (not which or str(own.id) == which)
