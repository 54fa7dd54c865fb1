"""The options of sessions and runs, with onnxruntime's names and defaults."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, IntEnum
from operator import index
from typing import Any, Protocol, Self

from ort_lite.errors import Cancelled, DeadlineExceeded, InvalidArgument, InvalidType, RunTerminated, hint
from ort_lite.options.config_keys import DISABLED_OPTIMIZERS, INSTALLED_TRANSFORMS, STRICT

MAX_TIMEOUT = 1e9
"""The maximum timeout in seconds, thirty years: a larger one is a mistake, and locks cannot wait much longer."""

_INT32 = 1 << 31


class NamedNumber(IntEnum):
    """An enum as in onnxruntime: a member is a number and prints as its name ("ExecutionMode.ORT_PARALLEL")."""

    __str__ = Enum.__str__


class GraphOptimizationLevel(NamedNumber):
    """The transforms that run: none, the basic ones, fusions as well, layouts as well, or all."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(NamedNumber):
    """The order of a run's steps: one after the other, or independent ones in parallel.

    ORT_PARALLEL runs independent partitions and copies on `inter_op_num_threads` threads, with the same results. Threads start
    with the first run that has parallel work. Bodies run in the thread of their node, and verified runs are sequential. A run
    may need more scratch memory at once, and its steps may run in other threads than its hooks.
    """

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(NamedNumber):
    """The order of nodes. Accepted for compatibility: the partitioner decides the order."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Checked:
    """A base class whose attributes are checked by name and type, so that a typo raises an error."""

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def _set_config(self, key: str, value: str) -> None:
        if not key:
            raise InvalidArgument(f"config entry {key!r} = {value!r}: the key must not be empty")
        self._config[key] = str(value)

    def config(self, key: str, default: str) -> str:
        """Return a config entry, or `default`."""
        return self._config.get(key, default)

    @property
    def config_entries(self) -> Mapping[str, str]:
        return dict(self._config)

    def __repr__(self) -> str:
        kind = type(self)
        values = {name: getattr(self, name) for name in _options_of(kind)}
        changed = {name: value for name, value in values.items() if value != getattr(kind, name)} | self._extras()
        return f"{kind.__name__}({', '.join(f'{name}={_text(value)}' for name, value in changed.items())})"

    def _extras(self) -> dict[str, Any]:
        """Return what `repr` shows besides the attributes that differ from their defaults."""
        return {"config_entries": self._config} if self._config else {}

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            default = getattr(type(self), name, None)
            if not _is_option(name, default):
                raise AttributeError(f"{type(self).__name__} has no option {name!r}{hint(name, _options_of(type(self)))}")
            try:
                value = _convert(value, type(default), name)
            except InvalidArgument:
                raise
            except (TypeError, ValueError) as error:
                expected = type(default).__name__
                kind = InvalidType if isinstance(error, TypeError) else InvalidArgument
                raise kind(f"{type(self).__name__}.{name}: got {value!r}, expected {expected}") from None
            if name.endswith("_num_threads") and not -_INT32 <= value < _INT32:
                raise InvalidType(f"{type(self).__name__}.{name}: got {value}, expected a 32-bit integer")
        object.__setattr__(self, name, value)


def _text(value: Any) -> str:
    return str(value) if isinstance(value, Enum) else repr(value)


def _is_option(name: str, default: Any) -> bool:
    return not (name.startswith("_") or default is None or callable(default) or isinstance(default, property))


def _options_of(kind: type) -> list[str]:
    """Return the names of a class's options, including inherited ones."""
    return [name for name in dir(kind) if _is_option(name, getattr(kind, name))]


def _convert(value: Any, kind: type, name: str) -> Any:
    """Convert a value to bool, str, int, float or an enum. Raises TypeError or ValueError if information would be lost."""
    if kind is str:
        return os.fsdecode(value)
    if kind is float:
        return seconds(value, name)
    number = index(value)
    if kind is bool and number not in (0, 1):
        raise ValueError(value)
    return kind(number)


def seconds(value: Any, name: str = "timeout") -> float:
    """Return a timeout in seconds; 0 means none. Raises InvalidArgument naming the option for anything else."""
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else -1.0
    if not 0 <= number <= MAX_TIMEOUT:
        raise InvalidArgument(f"{name}: got {value!r}, expected seconds, 0 (none) to {MAX_TIMEOUT:,.0f}")
    return number


class Flag:
    """A value that options share with their copies."""

    raised = False


class SessionScratch(Protocol):
    """The source and planner of scratch memory for the providers of one session (see `ort_lite.memory.session_memory`)."""

    @property
    def planner(self) -> Any:
        """The memory planner of the session."""

    @property
    def plans_for_devices(self) -> bool:
        """True if a provider asked for `device_memories`."""

    def device_memories(self, declared: Any) -> Any:
        """Return the memories of a provider's device, or None if nobody states any."""

    def pool(self, kind: type[Any], growth: Any = ..., keep: bool = ...) -> Any:
        """Return the session's pool of arenas of one kind."""


class SessionOptions(_Checked):
    """The options of a session. An unknown attribute raises AttributeError, and a wrong type InvalidArgument.

    Attributes with a special meaning:
        intra_op_num_threads: 0 lets the provider choose. Providers use fewer threads where more do not help.
        inter_op_num_threads: the threads of ORT_PARALLEL, including the one that calls `run`. 0 means one per provider with a
            partition. A negative number of threads means 0.
        log_severity_level: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal, -1 the module's default.
        optimized_model_filepath: the file that the transformed model is written to, unless it is empty.
        creation_timeout: the limit in seconds after which session creation raises DeadlineExceeded. 0 means none.
    """

    creation_timeout: float = 0.0
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "ort_lite_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True

    def __init__(self) -> None:
        super().__init__()
        self._dims_by_name: dict[str, int] = {}
        self._dims_by_denotation: dict[str, int] = {}
        self._initializers: dict[str, Any] = {}
        self._load_cancellation = Flag()
        self._session_memory: SessionScratch | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the session's memory and with a new cancellation flag."""
        return {**vars(self), "_session_memory": None, "_load_cancellation": Flag()}

    def copy(self) -> Self:
        """Return a copy. It shares the arrays of initializers and the load cancellation flag."""
        made = type(self).__new__(type(self))
        own = {name: dict(value) if isinstance(value, dict) else value for name, value in vars(self).items()}
        vars(made).update(own)  # without another check
        made._session_memory = None
        return made

    def _extras(self) -> dict[str, Any]:
        free = {**self._dims_by_name, **self._dims_by_denotation}
        facts = {"free_dimensions": free, "initializers": list(self._initializers)}
        return super()._extras() | {name: value for name, value in facts.items() if value}

    # Hooks for derived classes; these defaults leave everything to the session

    def has_providers(self) -> bool:
        """Return True if these options choose providers, in addition to or instead of the session's argument."""
        return False

    def choose_providers(self, metadata: Mapping[str, str]) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the providers that these options choose for a model, with their options."""
        return []

    def context_reader(self) -> Callable[[str], bytes] | None:
        """Return a function that reads a compiled context by its name; None: contexts are in files."""
        return None

    @property
    def external_initializers(self) -> tuple[Mapping[str, Any], Mapping[str, bytes]]:
        """The values of external initializers by name, and the bytes of external data by file name."""
        return {}, {}

    def placement_rules(self, providers: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
        """Return the placement rules of the config entries, and remarks on entries that no provider matches."""
        return [], []

    @property
    def other_optimizers(self) -> frozenset[str]:
        """Names that can be disabled although no transform has them."""
        return frozenset()

    def default_threads(self) -> None:
        """Replace negative numbers of threads, which programs set for "as many as there are", by 0."""
        self.intra_op_num_threads = max(self.intra_op_num_threads, 0)
        self.inter_op_num_threads = max(self.inter_op_num_threads, 0)

    @property
    def session_memory(self) -> SessionScratch | None:
        """The memory of the session with these options; None without a session, and in copies."""
        return self._session_memory

    account = session_memory
    """The name in earlier releases."""

    def set_session_memory(self, session_memory: SessionScratch) -> None:
        """Attach the memory from which the session's providers get scratch memory."""
        self._session_memory = session_memory

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set a config entry. Raises InvalidArgument for an empty key."""
        self._set_config(key, value)

    @property
    def disabled_optimizers(self) -> frozenset[str]:
        """The names of transforms to skip, from their config entry."""
        return self._names(DISABLED_OPTIMIZERS)

    @property
    def installed_transforms(self) -> frozenset[str]:
        """The names of installed plugins whose transforms are used, from their config entry."""
        return self._names(INSTALLED_TRANSFORMS)

    def _names(self, key: str) -> frozenset[str]:
        return frozenset(filter(None, map(str.strip, self.config(key, "").split(";"))))

    @property
    def strict(self) -> bool:
        """True if every listed provider is required. Raises InvalidArgument for an invalid config entry."""
        value = self.config(STRICT, "0")
        if value not in ("0", "1"):
            raise InvalidArgument(f"session config entry {STRICT} is {value!r}; expected '1' or '0'")
        return value == "1"

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Fix the free dimension of the graph inputs that is called `dim_name`."""
        self._dims_by_name[str(dim_name)] = _dim(dim_name, dim_value)

    def add_free_dimension_override_by_denotation(self, dim_denotation: str, dim_value: int) -> None:
        """Fix the free dimensions with this denotation ("DATA_BATCH")."""
        self._dims_by_denotation[str(dim_denotation)] = _dim(dim_denotation, dim_value)

    @property
    def free_dimensions(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """The overrides of free dimensions by name and by denotation."""
        return dict(self._dims_by_name), dict(self._dims_by_denotation)

    def set_load_cancellation_flag(self, value: bool) -> None:
        """Cancel the creation of sessions with these options (True), from any thread.

        Creation raises ModelLoadCanceled within a second, or once the current kernel is compiled. No session can be created
        with the options until the flag is False again.
        """
        self._load_cancellation.raised = bool(value)

    @property
    def load_cancellation(self) -> Flag:
        """The flag that `set_load_cancellation_flag` sets, shared with copies of these options."""
        return self._load_cancellation

    def add_initializer(self, name: str, value: Any) -> None:
        """Use `value`, an OrtValue or an array, instead of the model's initializer `name`.

        Sessions may share one array, which must not change while a session lives. Raises InvalidArgument for another kind of
        value.
        """
        if not hasattr(value, "numpy") and not (hasattr(value, "dtype") and hasattr(value, "shape")):
            raise InvalidArgument(f"add_initializer: {name!r} came as {type(value).__name__}, expected an OrtValue or an array")
        self._initializers[name] = value

    @property
    def initializers(self) -> Mapping[str, Any]:
        """The initializers supplied by the program, by name."""
        return dict(self._initializers)


class RunOptions(_Checked):
    """The options of a run.

    Setting `terminate`, from any thread, ends the runs with these options by Cancelled. `timeout` is in seconds; a run that
    takes longer ends by DeadlineExceeded, and 0 means no limit. A run ends at its next step at the latest. On Linux, the CPU
    provider stops within a kernel; elsewhere between two kernels.
    """

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    timeout: float = 0.0

    def __init__(self) -> None:
        super().__init__()
        self._stops: list[Callable[[], None]] = []
        self._exceeded = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the runs in flight, which belong to this process."""
        return {**vars(self), "_stops": []}

    def copy(self) -> Self:
        """Return a copy with its own `terminate`: setting one does not end runs of the other."""
        made = type(self).__new__(type(self))
        for name, value in self.__getstate__().items():
            setattr(made, name, dict(value) if isinstance(value, dict) else value)
        return made

    def extend_feed(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the feed with additions of these options: none here. A hook for derived classes."""
        return feed

    def exceed(self, timeout: float) -> None:
        """End the only run with these options because its deadline has passed."""
        self._exceeded = timeout
        self.terminate = True

    def termination(self, where: str) -> RunTerminated:
        """Return the exception for a run that found `terminate` set: DeadlineExceeded or Cancelled."""
        if self._exceeded:
            return DeadlineExceeded(f"the run took longer than its timeout of {self._exceeded:g} s, and was ended {where}")
        return Cancelled(f"the run was ended by RunOptions.terminate {where}")

    ended = termination
    """The name in earlier releases."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "terminate" and self.terminate:
            failures = []
            for stop in list(self._stops):
                try:
                    stop()
                except Exception as error:  # noqa: BLE001  a provider's: the other runs end all the same
                    failures.append(error)
            if failures:
                for other in failures[1:]:
                    failures[0].add_note(str(other))
                raise failures[0]

    @contextmanager
    def on_terminate(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop` when `terminate` is set inside the block, in the thread that sets it; at once if already set."""
        self._stops.append(stop)
        try:
            if self.terminate:
                stop()
            yield
        finally:
            self._stops.remove(stop)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Set a config entry. Raises InvalidArgument for an empty key."""
        self._set_config(key, value)


def _dim(name: str, value: int) -> int:
    number = index(value)
    if number < 0:
        raise InvalidArgument(f"free dimension {name!r}: got {value!r}, expected 0 or more")
    return number
