"""Which providers a session uses: what the caller listed, what is installed, and the default provider last."""

from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite import log, plugins
from ort_lite.errors import InvalidArgument, OrtLiteError, ProviderError
from ort_lite.options import SessionOptions
from ort_lite.provider import ExecutionProvider
from ort_lite.record import Record

DEFAULT = "CPUExecutionProvider"

# Names that programs written for onnxruntime list, in its order of preference. Not installed, they cost a warning.
KNOWN = (
    "NvTensorRTRTXExecutionProvider", "TensorrtExecutionProvider", "CUDAExecutionProvider", "MIGraphXExecutionProvider",
    "ROCMExecutionProvider", "OpenVINOExecutionProvider", "DnnlExecutionProvider", "VitisAIExecutionProvider",
    "QNNExecutionProvider", "NnapiExecutionProvider", "VSINPUExecutionProvider", "JsExecutionProvider",
    "CoreMLExecutionProvider", "ACLExecutionProvider", "ArmNNExecutionProvider", "DmlExecutionProvider",
    "RknpuExecutionProvider", "WebNNExecutionProvider", "WebGpuExecutionProvider", "XnnpackExecutionProvider",
    "CANNExecutionProvider", "AzureExecutionProvider", "CPUExecutionProvider",
)  # fmt: skip

ProviderEntry = str | tuple[str, Mapping[str, Any]] | ExecutionProvider | type[ExecutionProvider]


class Selection(Record):
    """Providers in order of preference, the default one last, and what was left out and why."""

    providers: tuple[ExecutionProvider, ...]
    notes: tuple[str, ...]


def select(
    entries: Sequence[ProviderEntry] | None, provider_options: Sequence[Mapping[str, Any]] | None, options: SessionOptions
) -> Selection:
    """Creates and configures providers. None: all that are installed and take part by default.

    An entry is a name, (name, options), a class or an instance. A name that onnxruntime knows and nobody installed is
    left out with a warning. Raises InvalidArgument for other unknown names and entries, ProviderError when one cannot be
    created.
    """
    made: list[ExecutionProvider] = []
    notes: list[str] = []
    seen: list[tuple[Any, dict[str, Any]]] = []
    for entry, chosen in _pairs(plugins.available_providers() if entries is None else entries, provider_options):
        if (entry, chosen) in seen:
            _note(notes, options, f"{_name(entry)} is listed twice with the same options; once is enough")
        elif isinstance(entry, str) and entry in KNOWN and not _installed(entry):
            _note(notes, options, f"{entry} is not installed; it is left out")
        else:
            made.append(create(entry, chosen))
        seen.append((entry, chosen))
    if all(provider.name != DEFAULT for provider in made):
        made.append(create(DEFAULT, {}))
    for provider in made:
        provider.configure(options)
    return Selection(tuple(made), tuple(notes))


def create(entry: Any, options: Mapping[str, Any]) -> ExecutionProvider:
    """The provider that an entry means."""
    if isinstance(entry, ExecutionProvider):
        if options:
            raise InvalidArgument(f"{_name(entry)} came as an instance, with options besides; give them to its class")
        return entry
    if isinstance(entry, str):
        _check_known(entry)
        entry = plugins.provider(entry)
    try:
        provider = entry(**options)
    except OrtLiteError:
        raise
    except Exception as error:
        text = f"{_name(entry)} could not be created with options {dict(options)}: {type(error).__name__}: {error}"
        raise ProviderError(text) from error
    if not isinstance(provider, ExecutionProvider):
        raise ProviderError(f"{_name(entry)} created {provider!r}, which is no ort_lite.provider.ExecutionProvider")
    return provider


def get_all_providers() -> list[str]:
    """Names that can be written in `providers=[...]`: installed ones, those that onnxruntime knows, the default one last."""
    names = dict.fromkeys((*plugins.installed_providers(), *KNOWN))
    return [*(name for name in names if name != DEFAULT), DEFAULT]


def _pairs(
    entries: Sequence[ProviderEntry], provider_options: Sequence[Mapping[str, Any]] | None
) -> list[tuple[Any, dict[str, Any]]]:
    if isinstance(entries, str):
        raise InvalidArgument(f"providers={entries!r}: expected a list, e.g. [{entries!r}]")
    if provider_options is not None and len(provider_options) != len(entries):
        lengths = f"{len(provider_options)} provider_options for {len(entries)} providers"
        raise InvalidArgument(f"{lengths}: expected as many, in the same order")
    pairs: list[tuple[Any, dict[str, Any]]] = []
    for k, entry in enumerate(entries):
        listed = dict(provider_options[k]) if provider_options is not None else {}
        match entry:
            case (str(name), Mapping() as given):
                pairs.append((name, {**listed, **given}))
            case str() | ExecutionProvider() | type():
                pairs.append((entry, listed))
            case _:
                raise InvalidArgument(f"providers[{k}] is {entry!r}; expected a name or (name, options)")
    return pairs


def _installed(name: str) -> bool:
    """The default provider is known without a look at what is installed, which takes time."""
    return name == DEFAULT or name in plugins.installed_providers()


def _check_known(name: str) -> None:
    if _installed(name):
        return
    from difflib import get_close_matches

    installed = plugins.installed_providers()
    spelled = {known.lower(): known for known in (*KNOWN, *installed)}
    near = get_close_matches(name.lower(), spelled, 1)
    hint = f"; did you mean {spelled[near[0]]!r}?" if near else ""
    raise InvalidArgument(f"no execution provider is called {name!r}{hint} (installed: {', '.join(installed)})")


def _note(notes: list[str], options: SessionOptions, text: str) -> None:
    notes.append(text)
    log.warn(options.log_severity_level, text)


def _name(entry: Any) -> str:
    return entry if isinstance(entry, str) else getattr(entry, "name", "") or getattr(entry, "__name__", repr(entry))
