"""The providers of a session: those that the caller lists, or those of `set_default_providers`; the CPU provider comes last."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from ort_lite import log
from ort_lite.errors import InvalidArgument, NoDevice, OrtLiteError, ProviderError, describe, format_error, hint
from ort_lite.inference.rules import ShapeRules
from ort_lite.memory import locks
from ort_lite.options import config_keys
from ort_lite.options import policies as policy_options
from ort_lite.options.options import SessionOptions
from ort_lite.options.policies import Policy
from ort_lite.plugins import plugins
from ort_lite.provider.ask import ask, shown
from ort_lite.provider.provider import API_VERSION, ExecutionProvider
from ort_lite.record import Record

DEFAULT = "CPUExecutionProvider"

# Names that programs written for onnxruntime list, in its order of preference. Not installed, they cost a warning.
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
"""The end of an error about a provider that is required and cannot be used."""

_One = str | ExecutionProvider | type[ExecutionProvider]
ProviderEntry = _One | tuple[_One, Mapping[str, Any]]


class Selection(Record):
    """Providers in order of preference, the default one last, what was left out and why, and the policy of each provider.

    `listed`: False where they are all that are installed, whatever they are.
    """

    providers: tuple[ExecutionProvider, ...]
    notes: tuple[str, ...] = ()
    policies: tuple[Policy, ...] = ()
    listed: bool = True


class _Process:
    """The default providers of this process, and the sets of installed providers that its log has named as left out."""

    def __init__(self) -> None:
        self.default: tuple[ProviderEntry, ...] | None = (DEFAULT,)
        """None: all that are installed. It is replaced as a whole: a session in another thread sees the old value or the new one."""
        self.logged: set[frozenset[str]] = set()
        self.lock = locks.lock()


_PROCESS = _Process()


def set_default_providers(providers: Sequence[ProviderEntry] | Literal["all"]) -> None:
    """Sets the providers of sessions that are made from now on with `providers=None`. At first: the CPU provider alone.

    `providers` is a list as for InferenceSession, of names, classes or (name, options). "all" stands for what
    `get_available_providers()` lists when a session is made, without providers that cannot be created. The CPU provider comes last
    in any case, so `[]` means the CPU provider alone. This is a setting of the process, and may be called from any thread. Raises
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
            _check_known(entry)
        elif isinstance(entry, ExecutionProvider):
            raise InvalidArgument(f"set_default_providers: {_name(entry)} came as an instance; expected its name or its class")
    _PROCESS.default = entries


def default_providers() -> list[str]:
    """Return the names of the providers of sessions that list none, the CPU provider last."""
    entries = _PROCESS.default
    names = plugins.available_providers() if entries is None else [_name(entry) for entry, _ in _pairs(entries, None)]
    return [*dict.fromkeys(name for name in names if name != DEFAULT), DEFAULT]


def _wanted(entries: Sequence[ProviderEntry] | None, default: Sequence[ProviderEntry] | None) -> Sequence[ProviderEntry]:
    return entries if entries is not None else default if default is not None else plugins.available_providers()


def readable(
    entries: Sequence[ProviderEntry] | None, provider_options: Sequence[Mapping[str, Any]] | None, options: SessionOptions
) -> tuple[Sequence[ProviderEntry] | None, Sequence[Mapping[str, Any]] | None]:
    """Return providers and their options as `select` takes them.

    What cannot be read, such as a text for a list or options for another number of providers, becomes the CPU provider alone, with a
    warning, as in onnxruntime. In a strict session it raises InvalidArgument.
    """
    try:
        _pairs(_wanted(entries, _PROCESS.default), provider_options)
    except InvalidArgument as error:
        if options.strict:
            raise
        log.warn(options, f"{describe(error)}; the session uses {DEFAULT} alone")
        return [DEFAULT], None
    return entries, provider_options


def select(
    entries: Sequence[ProviderEntry] | None, provider_options: Sequence[Mapping[str, Any]] | None, options: SessionOptions
) -> Selection:
    """Creates and configures providers. None: those of `set_default_providers`.

    An entry is a name, a class or an instance, or one of these with options, which may hold those of ort_lite.options.policies. A
    provider that is not installed or has no device is left out with a warning, as in onnxruntime; where it is `required`, as all are
    in a strict session, that is a ProviderError. So is a provider that cannot be created. Raises InvalidArgument for entries and
    config entries that make no sense, and where the default provider is listed although `session.disable_cpu_ep_fallback` is set.
    """
    made: list[ExecutionProvider] = []
    policies: list[Policy] = []
    notes: list[str] = []
    seen: list[tuple[Any, dict[str, Any]]] = []
    default, strict = _PROCESS.default, options.strict
    wanted = _wanted(entries, default)
    listed = entries is not None or default is not None
    for entry, chosen in _pairs(wanted, provider_options):
        if any(entry == other and _alike(chosen, theirs) for other, theirs in seen):
            _note(notes, options, f"{_name(entry)} is listed twice with the same options; once is enough")
            continue
        seen.append((entry, chosen))
        policy, own = policy_options.split(chosen, _name(entry), strict)
        provider, why = _create(entry, own, policy if listed else Policy(on_create_error=policy_options.NEXT))
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
    for provider in made:
        ask(provider, "configure", options)
    return Selection(tuple(made), tuple(notes), tuple(policies), listed)


def _tell_left_out(used: Collection[str], options: SessionOptions) -> None:
    """Logs which installed providers a session does without that lists none: once for each set of them."""
    if not log.hears(options, log.INFO):
        return
    names = [name for name in plugins.announced_providers() if name not in (*used, DEFAULT)]
    with _PROCESS.lock:
        new = bool(names) and frozenset(names) not in _PROCESS.logged
        _PROCESS.logged.add(frozenset(names))
    if new:
        how = "providers=[...] or ort_lite.set_default_providers"
        log.info(options, f"installed providers that are left out: {', '.join(names)} ({how} enables them)")


def _keys(provider: ExecutionProvider) -> Collection[str]:
    keys: Any = provider.config_keys
    if isinstance(keys, str) or not isinstance(keys, Collection) or not all(isinstance(key, str) for key in keys):
        raise ProviderError(f"{_name(provider)}: config_keys is {shown(keys)}; expected names of config entries").about(
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
    """The provider; or None and why the session does without it."""
    if isinstance(entry, str) and not _installed(entry):
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
    """The provider that an entry means. Raises ProviderError also where its API version does not fit."""
    if isinstance(entry, ExecutionProvider):
        if options:
            raise InvalidArgument(f"{_name(entry)} came as an instance, with options besides; give them to its class").about(
                provider=_name(entry)
            )
        _check_version(type(entry))
        _check_attributes(entry)
        return entry
    if isinstance(entry, str):
        _check_known(entry)
        entry = plugins.provider(entry)
    _check_version(entry)
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
    """The error that names a provider which could not be created: the provider's own, if it does that already."""
    name = _name(entry)
    if isinstance(error, NoDevice) or (isinstance(error, OrtLiteError) and name in describe(error)):
        return error.about(provider=name)
    kind = InvalidArgument if isinstance(error, InvalidArgument) else ProviderError
    text = f"{name} could not be created with options {shown(dict(options))}: {format_error(error)}"
    return kind(text).about(provider=name).like(error)


_ATTRIBUTES = ("name", "device", "concurrency", "config_keys", "exact", "writes_no_input")


def _check_attributes(provider: ExecutionProvider) -> None:
    """Raises ProviderError for one that is a property which fails: sessions read them everywhere."""
    for attribute in _ATTRIBUTES:
        try:
            getattr(provider, attribute)
        except Exception as error:
            name = _name(type(provider))
            raise ProviderError(f"{name}: {attribute} failed: {format_error(error)}").about(provider=name) from error


def _check_version(cls: Any) -> None:
    """A provider for another major version, or for a newer minor one, may rely on what is not here."""
    if not isinstance(getattr(cls, "name", ""), str):
        raise ProviderError(f"{cls.__name__}: name is {shown(cls.name)}; expected a text")
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
    """Names that can be written in `providers=[...]`: installed ones, those that onnxruntime knows, the default one last."""
    names = dict.fromkeys((*plugins.installed_providers(), *KNOWN))
    return [*(name for name in names if name != DEFAULT), DEFAULT]


def _pairs(
    entries: Sequence[ProviderEntry], provider_options: Sequence[Mapping[str, Any]] | None
) -> list[tuple[Any, dict[str, Any]]]:
    if isinstance(entries, str):
        raise InvalidArgument(f"providers={entries!r}: expected a list, e.g. [{entries!r}]")
    if isinstance(entries, Mapping) or not isinstance(entries, Collection):
        raise InvalidArgument(f"providers={shown(entries)}: expected a list of names or (name, options)")
    if provider_options is not None and not _lists_options(provider_options):
        raise InvalidArgument(f"provider_options={shown(provider_options)}: expected a list of dicts, one for each provider")
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


def _installed(name: str) -> bool:
    """The default provider is known without a look at what is installed, which takes time."""
    return name == DEFAULT or name in plugins.installed_providers()


def _check_known(name: str) -> None:
    if not _installed(name):
        installed = plugins.installed_providers()
        meant = hint(name, (*KNOWN, *installed))
        raise InvalidArgument(f"no execution provider is called {name!r}{meant} (installed: {', '.join(installed)})")


def _missing(name: str) -> str:
    """Return what to say of a name that no provider has: one that onnxruntime knows is right, another may be mistyped."""
    if name in KNOWN:
        return "not installed"
    installed = plugins.installed_providers()
    return f"not installed{hint(name, (*KNOWN, *installed))} (installed: {', '.join(installed)})"


def _note(notes: list[str], options: SessionOptions, text: str) -> None:
    notes.append(text)
    log.warn(options, text)


def _name(entry: Any) -> str:
    return entry if isinstance(entry, str) else getattr(entry, "name", "") or getattr(entry, "__name__", repr(entry))


def rules_of(providers: Sequence[ExecutionProvider]) -> ShapeRules:
    """Return the rules and schemas that providers bring for operators of their own, and then everybody's."""
    classes: dict[type[ExecutionProvider], None] = dict.fromkeys(map(type, providers))
    own = [rule for cls in classes for rule in ask(cls, "shape_rules")]
    schemas = [schema for cls in classes for schema in ask(cls, "schemas")]
    return plugins.shape_rules().preceded_by(own, schemas) if own or schemas else plugins.shape_rules()
