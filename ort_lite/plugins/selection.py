"""Select the providers of a session: the listed ones or those of `set_default_providers`, with the CPU provider last."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from ort_lite import log
from ort_lite.errors import InvalidArgument, NoDevice, OrtLiteError, ProviderError, describe, format_error, hint
from ort_lite.inference.shape_rules import ShapeRules
from ort_lite.memory import locks
from ort_lite.options import config_keys
from ort_lite.options import policies as policy_options
from ort_lite.options.options import SessionOptions
from ort_lite.options.policies import Policy
from ort_lite.plugins import plugins
from ort_lite.plugins.instances import INSTANCES
from ort_lite.provider.ask import ask, format_answer
from ort_lite.provider.provider import API_VERSION, ExecutionProvider
from ort_lite.record import Record

DEFAULT = "CPUExecutionProvider"

# Names that programs written for onnxruntime list, in its order of preference. If not installed, they cause a warning.
KNOWN = (
    "NvTensorRTRTXExecutionProvider",
    "TensorrtExecutionProvider",
    "CUDAExecutionProvider",
    "MIGraphXExecutionProvider",
    "ROCMExecutionProvider",
    "OpenVINOExecutionProvider",
    "DnnlExecutionProvider",
    "VitisAIExecutionProvider",
    "QNNExecutionProvider",
    "NnapiExecutionProvider",
    "VSINPUExecutionProvider",
    "JsExecutionProvider",
    "CoreMLExecutionProvider",
    "ACLExecutionProvider",
    "ArmNNExecutionProvider",
    "DmlExecutionProvider",
    "RknpuExecutionProvider",
    "WebNNExecutionProvider",
    "WebGpuExecutionProvider",
    "XnnpackExecutionProvider",
    "CANNExecutionProvider",
    "AzureExecutionProvider",
    "CPUExecutionProvider",
)

WITHOUT_IT = "run without it: remove it from the providers, or do not require it (strict, required)"
"""The end of an error about a required provider that cannot be used."""

_One = str | ExecutionProvider | type[ExecutionProvider]
ProviderEntry = _One | tuple[_One, Mapping[str, Any]]


class Selection(Record):
    """The providers in order of preference with the default one last, their policies, and notes on those left out.

    `listed` is False if they are simply all installed providers.
    """

    providers: tuple[ExecutionProvider, ...]
    notes: tuple[str, ...] = ()
    policies: tuple[Policy, ...] = ()
    listed: bool = True


class _ProcessDefaults:
    """The default providers of this process, and the sets of unused installed providers that were already logged."""

    def __init__(self) -> None:
        self.default: tuple[ProviderEntry, ...] | None = (DEFAULT,)
        """The default providers; None means all installed ones. Replaced as a whole, so other threads see the old or new value."""
        self.logged: set[frozenset[str]] = set()
        self.lock = locks.lock()


_PROCESS = _ProcessDefaults()


def set_default_providers(providers: Sequence[ProviderEntry] | Literal["all"]) -> None:
    """Set the providers of sessions created from now on with `providers=None`. Initially the CPU provider alone.

    `providers` is a list as for InferenceSession: names, classes or (name, options). "all" means those that
    `get_available_providers()` lists when a session is created, except those that cannot be created. The CPU provider always
    comes last, so `[]` means the CPU provider alone. The setting is process-wide and may be changed from any thread. Raises
    InvalidArgument for a name that is not installed, and for an instance, which belongs to one session.
    """
    if isinstance(providers, str):
        if providers != plugins.ALL:
            raise InvalidArgument(f"set_default_providers: got {providers!r}; expected a list of providers, or {plugins.ALL!r}")
        _PROCESS.default = None
        return
    entries = tuple(providers)
    for entry, _ in _pairs(entries, None):
        if isinstance(entry, str):
            _check_name(entry)
        elif isinstance(entry, ExecutionProvider):
            raise InvalidArgument(f"set_default_providers: {_name(entry)} came as an instance; expected its name or its class")
    _PROCESS.default = entries


def default_providers() -> list[str]:
    """Return the names of the providers of sessions that list none, the CPU provider last."""
    entries = _PROCESS.default
    names = plugins.available_providers() if entries is None else [_name(entry) for entry, _ in _pairs(entries, None)]
    return [*dict.fromkeys(name for name in names if name != DEFAULT), DEFAULT]


def _default_entries(
    entries: Sequence[ProviderEntry] | None, default: Sequence[ProviderEntry] | None
) -> Sequence[ProviderEntry]:
    return entries if entries is not None else default if default is not None else plugins.available_providers()


def readable(
    entries: Sequence[ProviderEntry] | None, provider_options: Sequence[Mapping[str, Any]] | None, options: SessionOptions
) -> tuple[Sequence[ProviderEntry] | None, Sequence[Mapping[str, Any]] | None]:
    """Return providers and their options in the form that `select` expects.

    A malformed argument, such as a string instead of a list or options for another number of providers, becomes the CPU
    provider alone with a warning, as in onnxruntime. In a strict session it raises InvalidArgument.
    """
    try:
        _pairs(_default_entries(entries, _PROCESS.default), provider_options)
    except InvalidArgument as error:
        if options.strict:
            raise
        log.warn(options, f"{describe(error)}; the session uses {DEFAULT} alone")
        return [DEFAULT], None
    return entries, provider_options


def select(
    entries: Sequence[ProviderEntry] | None, provider_options: Sequence[Mapping[str, Any]] | None, options: SessionOptions
) -> Selection:
    """Create and configure the providers of a session. None: those of `set_default_providers`.

    An entry is a name, a class or an instance, or a pair of one of these and options, which may include those of
    `ort_lite.options.policies`. A provider that is not installed or has no device is left out with a warning, as in
    onnxruntime. If it is `required`, as all are in a strict session, it raises ProviderError, and so does a provider that
    cannot be created. Raises InvalidArgument for malformed entries and config entries, and if the default provider is listed
    although `session.disable_cpu_ep_fallback` is set.
    """
    made: list[ExecutionProvider] = []
    policies: list[Policy] = []
    notes: list[str] = []
    seen: list[tuple[Any, dict[str, Any]]] = []
    default, strict = _PROCESS.default, options.strict
    wanted = _default_entries(entries, default)
    listed = entries is not None or default is not None
    for entry, chosen in _pairs(wanted, provider_options):
        if any(entry == other and _alike(chosen, theirs) for other, theirs in seen):
            _note(notes, options, f"{_name(entry)} is listed twice with the same options; once is enough")
            continue
        seen.append((entry, chosen))
        policy, own = policy_options.split(chosen, _name(entry), strict)
        provider, why = _create(entry, own, policy if listed else Policy(on_create_error=policy_options.NEXT))
        if provider is not None and any(provider is other for other in made):
            provider, why = None, f"{_name(entry)} is listed twice, with options that mean the same; once is enough"
        if provider is None:
            _note(notes, options, why)
        else:
            made.append(provider)
            policies.append(policy)
    if entries is None and listed:
        _tell_left_out([_name(entry) for entry, _ in seen], options)
    names_cpu = entries is not None and any(provider.name == DEFAULT for provider in made)
    if names_cpu and options.config(config_keys.DISABLE_CPU_FALLBACK, "0") == "1":
        raise InvalidArgument(f"{DEFAULT} is listed although {config_keys.DISABLE_CPU_FALLBACK} is set: drop one of the two")
    if all(provider.name != DEFAULT for provider in made):
        made.append(create(DEFAULT, {}))
        policies.append(Policy())
    config_keys.check_session(options.config_entries, [key for provider in made for key in _keys(provider)])
    _configure(made, options)
    memory = options.session_memory
    if options.config(config_keys.MEMORIES, "") and memory is not None and not memory.plans_for_devices:
        names = ", ".join(provider.name for provider in made)
        _note(notes, options, f"{config_keys.MEMORIES} has no effect: none of {names} plans for memories of its device")
    return Selection(tuple(made), tuple(notes), tuple(policies), listed)


def _configure(providers: Sequence[ExecutionProvider], options: SessionOptions) -> None:
    for provider in providers:
        ask(provider, "configure", options)
        INSTANCES.enter(provider)


def _tell_left_out(used: Collection[str], options: SessionOptions) -> None:
    """Log the installed providers that a session without a list does not use, once per set."""
    if not log.hears(options, log.INFO):
        return
    names = [name for name in plugins.list_provider_names() if name not in (*used, DEFAULT)]
    with _PROCESS.lock:
        new = bool(names) and frozenset(names) not in _PROCESS.logged
        _PROCESS.logged.add(frozenset(names))
    if new:
        how = "providers=[...] or ort_lite.set_default_providers"
        log.info(options, f"installed providers that are left out: {', '.join(names)} ({how} enables them)")


def _keys(provider: ExecutionProvider) -> Collection[str]:
    keys: Any = provider.config_keys
    if isinstance(keys, str) or not isinstance(keys, Collection) or not all(isinstance(key, str) for key in keys):
        raise ProviderError(f"{_name(provider)}: config_keys is {format_answer(keys)}; expected names of config entries").about(
            provider=_name(provider)
        )
    return keys


def _alike(options: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Return True if two values are equal as far as they can be compared; arrays cannot."""
    try:
        return bool(options == others)
    except ValueError:
        return False


def _create(entry: Any, own: Mapping[str, Any], policy: Policy) -> tuple[ExecutionProvider | None, str]:
    """Create a provider, or return None and the reason for leaving it out."""
    if isinstance(entry, str) and not _is_installed(entry):
        why = _missing(entry)
        if policy.required:
            raise ProviderError(f"{entry} is required and {why}: install its package, or {WITHOUT_IT}").about(provider=entry)
        return None, f"{entry} is {why}; it is left out"
    try:
        return create(entry, own), ""
    except NoDevice as error:
        if policy.required:
            text = f"{_name(entry)} is required and has no device: {describe(error)}; make one available, or {WITHOUT_IT}"
            raise ProviderError(text).about(provider=_name(entry)) from error
        return None, f"{_name(entry)} has no device: {describe(error)}; it is left out"
    except InvalidArgument:
        raise
    except OrtLiteError as error:
        if policy.required or policy.on_create_error == policy_options.RAISE:
            raise
        return None, f"{describe(error)}; it is left out"


def create(entry: Any, options: Mapping[str, Any]) -> ExecutionProvider:
    """Return the provider of an entry: a new instance, or the living one of a class that shares its device.

    Raises ProviderError, also for an incompatible API version.
    """
    if isinstance(entry, ExecutionProvider):
        if options:
            raise InvalidArgument(f"{_name(entry)} came as an instance, with options besides; give them to its class").about(
                provider=_name(entry)
            )
        _check_version(type(entry))
        _check_attributes(entry)
        return entry
    if isinstance(entry, str):
        _check_name(entry)
        entry = plugins.provider(entry)
    _check_version(entry)
    if getattr(entry, "shares_device", False):
        return INSTANCES.share(entry, options, partial(_construct, entry, options))
    return _construct(entry, options)


def _construct(entry: Any, options: Mapping[str, Any]) -> ExecutionProvider:
    """Return a new instance. Raises ProviderError, or what the class raises if that names the provider."""
    try:
        provider = entry(**options)
    except Exception as error:
        refusal = _refusal(entry, options, error)
        if refusal is error:
            raise
        raise refusal from error
    if not isinstance(provider, ExecutionProvider):
        raise ProviderError(f"{_name(entry)} created {provider!r}, which is no ort_lite.provider.ExecutionProvider").about(
            provider=_name(entry)
        )
    _check_attributes(provider)
    return provider


def _refusal(entry: Any, options: Mapping[str, Any], error: Exception) -> OrtLiteError:
    """Return the error for a provider that could not be created: its own if that already names it."""
    name = _name(entry)
    if isinstance(error, NoDevice) or (isinstance(error, OrtLiteError) and name in describe(error)):
        return error.about(provider=name)
    kind = InvalidArgument if isinstance(error, InvalidArgument) else ProviderError
    text = f"{name} could not be created with options {format_answer(dict(options))}: {format_error(error)}"
    return kind(text).about(provider=name).like(error)


_ATTRIBUTES = ("name", "device", "concurrency", "config_keys", "exact", "writes_no_input", "outlives_fork")


def _check_attributes(provider: ExecutionProvider) -> None:
    """Raise ProviderError if an attribute is a property that fails: sessions read these attributes everywhere."""
    for attribute in _ATTRIBUTES:
        try:
            getattr(provider, attribute)
        except Exception as error:
            name = _name(type(provider))
            raise ProviderError(f"{name}: {attribute} failed: {format_error(error)}").about(provider=name) from error


def _check_version(cls: Any) -> None:
    """Raise ProviderError for a provider of another major or a newer minor API version, or with an invalid name."""
    if not isinstance(getattr(cls, "name", ""), str):
        raise ProviderError(f"{cls.__name__}: name is {format_answer(cls.name)}; expected a text")
    theirs = str(getattr(cls, "api_version", API_VERSION))
    if "#" in getattr(cls, "name", ""):
        raise ProviderError(f"{cls.name} is no name for a provider: sessions number instances of one name with #")
    major, _, minor = theirs.partition(".")
    ours = API_VERSION.split(".")
    if not (major.isdecimal() and (minor or "0").isdecimal()):
        raise ProviderError(f"{_name(cls)}: api_version is {theirs!r}; expected one such as {API_VERSION!r}").about(
            provider=_name(cls)
        )
    if major == ours[0] and int(minor or "0") <= int(ours[1]):
        return
    newer = (int(major), int(minor or "0")) > (int(ours[0]), int(ours[1]))
    advice = "update ort-lite" if newer else "install a newer release of the provider"
    raise ProviderError(f"{_name(cls)} was written for provider API {theirs}; this ort-lite has {API_VERSION}: {advice}").about(
        provider=_name(cls)
    )


def get_all_providers() -> list[str]:
    """Return the names that `providers=[...]` accepts: installed ones and those of onnxruntime, the default one last."""
    names = dict.fromkeys((*plugins.installed_providers(), *KNOWN))
    return [*(name for name in names if name != DEFAULT), DEFAULT]


def _pairs(
    entries: Sequence[ProviderEntry], provider_options: Sequence[Mapping[str, Any]] | None
) -> list[tuple[Any, dict[str, Any]]]:
    if isinstance(entries, str):
        raise InvalidArgument(f"providers={entries!r}: expected a list, e.g. [{entries!r}]")
    if isinstance(entries, Mapping) or not isinstance(entries, Collection):
        raise InvalidArgument(f"providers={format_answer(entries)}: expected a list of names or (name, options)")
    if provider_options is not None and not _lists_options(provider_options):
        raise InvalidArgument(
            f"provider_options={format_answer(provider_options)}: expected a list of dicts, one for each provider"
        )
    if provider_options is not None and len(provider_options) != len(entries):
        lengths = f"{len(provider_options)} provider_options for {len(entries)} providers"
        raise InvalidArgument(f"{lengths}: expected as many, in the same order")
    pairs: list[tuple[Any, dict[str, Any]]] = []
    for k, entry in enumerate(entries):
        listed = dict(provider_options[k]) if provider_options is not None else {}
        match entry:
            case (str() | ExecutionProvider() | type() as named, Mapping() as given):
                pairs.append((named, {**listed, **given}))
            case str() | ExecutionProvider() | type():
                pairs.append((entry, listed))
            case _:
                raise InvalidArgument(f"providers[{k}] is {entry!r}; expected a name or (name, options)")
    return pairs


def _lists_options(provider_options: Any) -> bool:
    return isinstance(provider_options, Sequence) and all(isinstance(options, Mapping) for options in provider_options)


def _is_installed(name: str) -> bool:
    """Return True if the provider is installed. The default provider needs no lookup, which takes time."""
    return name == DEFAULT or name in plugins.installed_providers()


def _check_name(name: str) -> None:
    if not _is_installed(name):
        installed = plugins.installed_providers()
        meant = hint(name, (*KNOWN, *installed))
        raise InvalidArgument(f"no execution provider is called {name!r}{meant} (installed: {', '.join(installed)})")


def _missing(name: str) -> str:
    """Describe a missing provider: onnxruntime's names are valid, others may be misspelled."""
    installed = plugins.installed_providers()
    if name in KNOWN:
        hosted = next((other for other in installed if other.startswith(f"{name}@")), "")
        return f"not installed, but {hosted} is" if hosted else "not installed"
    return f"not installed{hint(name, (*KNOWN, *installed))} (installed: {', '.join(installed)})"


def _note(notes: list[str], options: SessionOptions, text: str) -> None:
    notes.append(text)
    log.warn(options, text)


def _name(entry: Any) -> str:
    return entry if isinstance(entry, str) else getattr(entry, "name", "") or getattr(entry, "__name__", repr(entry))


def rules_of(providers: Sequence[ExecutionProvider]) -> ShapeRules:
    """Return the rules and schemas of the providers' own operators, followed by the common ones."""
    classes: dict[type[ExecutionProvider], None] = dict.fromkeys(map(type, providers))
    own = [rule for cls in classes for rule in ask(cls, "shape_rules")]
    schemas = [schema for cls in classes for schema in ask(cls, "schemas")]
    return plugins.shape_rules().prepend(own, schemas) if own or schemas else plugins.shape_rules()
