"""Options of a session and of a run, with onnxruntime's names and defaults."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, IntEnum
from operator import index
from typing import Any, Protocol, Self

from ort_lite.errors import Cancelled, DeadlineExceeded, InvalidArgument, InvalidType, RunTerminated, hint
from ort_lite.options.config_keys import DISABLED_OPTIMIZERS, INSTALLED_TRANSFORMS, STRICT

MAX_TIMEOUT = 1e9
"""Seconds, thirty years: more is a mistake, and no lock waits for longer than three hundred."""

_INT32 = 1 << 31


class NamedNumber(IntEnum):
    """An enum of onnxruntime's kind: members are numbers, and their texts are their names ("ExecutionMode.ORT_PARALLEL")."""

    __str__ = Enum.__str__


class GraphOptimizationLevel(NamedNumber):
    """The transforms that run: none, basic ones, fusions as well, all."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(NamedNumber):
    """ORT_PARALLEL: partitions and copies of one run that do not need each other run side by side, on `inter_op_num_threads` threads.

    Results are the same. Threads are started by the first run that has work for two; bodies run in the thread of their node, verified
    runs one step after the other. A run may need more scratch memory at once, and its steps run in other threads than its hooks.
    """

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(NamedNumber):
    """Accepted for compatibility: the order is the partitioner's."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Checked:
    """Attributes are those of the class alone, of the same types: a typo is an error, not an option without effect."""

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def _set_config(self, key: str, value: str) -> None:
        if not key:
            raise InvalidArgument(f"config entry {key!r} = {value!r}: the key must not be empty")
        self._config[key] = str(value)

    def config(self, key: str, default: str) -> str:
        """The config entry, or `default`."""
        return self._config.get(key, default)

    @property
    def config_entries(self) -> Mapping[str, str]:
        return dict(self._config)

    def __repr__(self) -> str:
        """Show what differs from the defaults."""
        changed = [f"{name}={value!r}" for name, value in sorted(vars(self).items()) if not name.startswith("_")]
        return f"{type(self).__name__}({', '.join([*changed, *([f'config_entries={self._config}'] if self._config else [])])})"

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


def _is_option(name: str, default: Any) -> bool:
    return not (name.startswith("_") or default is None or callable(default) or isinstance(default, property))


def _options_of(kind: type) -> list[str]:
    """The names of its options, those of its bases included."""
    return [name for name in dir(kind) if _is_option(name, getattr(kind, name))]


def _convert(value: Any, kind: type, name: str) -> Any:
    """`value` as `kind`: bool, str, int, float or an enum. Raises TypeError or ValueError where something would be lost."""
    if kind is str:
        return os.fsdecode(value)
    if kind is float:
        return seconds(value, name)
    number = index(value)
    if kind is bool and number not in (0, 1):
        raise ValueError(value)
    return kind(number)


def seconds(value: Any, name: str = "timeout") -> float:
    """A timeout: 0, which is none, or more. Raises InvalidArgument with the option's `name` for anything else."""
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else -1.0
    if not 0 <= number <= MAX_TIMEOUT:
        raise InvalidArgument(f"{name}: got {value!r}, expected seconds, 0 (none) to {MAX_TIMEOUT:,.0f}")
    return number


class Flag:
    """A value that options share with their copies."""

    raised = False


class MemoryAccount(Protocol):
    """The source and planner of scratch memory for the providers of one session (see `ort_lite.memory.account`)."""

    @property
    def planner(self) -> Any:
        """The memory planner of the session."""

    def pool(self, kind: type[Any], growth: Any = ..., keep: bool = ...) -> Any:
        """The session's pool of arenas of one kind."""


class SessionOptions(_Checked):
    """Options of a session. An unknown attribute raises AttributeError, a value of another type InvalidArgument.

    intra_op_num_threads 0 leaves the number to the provider; providers use fewer threads than it says where more do not help.
    inter_op_num_threads counts, in ORT_PARALLEL, the thread that calls `run` too; 0: one for each provider that has a partition. A
    negative number of threads means 0, and a session's providers see 0. log_severity_level: 0 verbose, 1 info, 2 warning, 3 error,
    4 fatal, -1 the module's default. A non-empty optimized_model_filepath receives the transformed model. creation_timeout, in
    seconds, ends the creation of a session that takes longer with DeadlineExceeded. 0: none.
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
        self._account: MemoryAccount | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A pickle belongs to no session, and nobody there cancels its loading."""
        return {**vars(self), "_account": None, "_load_cancellation": Flag()}

    def copy(self) -> Self:
        """Options of its own; arrays of initialisers are shared, and what `set_load_cancellation_flag` sets."""
        made = type(self).__new__(type(self))
        for name, value in vars(self).items():
            setattr(made, name, dict(value) if isinstance(value, dict) else value)
        made._account = None
        return made

    # Hooks of derived classes: a session asks its options, and these leave everything to the session.

    def has_providers(self) -> bool:
        """Return True if these options choose providers themselves, beside or in place of the session's argument."""
        return False

    def choose_providers(self, metadata: Mapping[str, str]) -> list[tuple[str, Mapping[str, Any]]]:
        """The providers that these options choose for a model with this metadata, with their options."""
        return []

    def context_reader(self) -> Callable[[str], bytes] | None:
        """A function that reads a compiled context by its name. None: contexts are in files."""
        return None

    @property
    def external_initializers(self) -> tuple[Mapping[str, Any], Mapping[str, bytes]]:
        """Values by the names of initializers whose data is in files, and bytes by the names of those files."""
        return {}, {}

    def placement_rules(self, providers: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
        """The placement rules of the config entries for these providers, and remarks about entries that match none of them."""
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
    def account(self) -> MemoryAccount | None:
        """The account of the session that has these options; None without a session, and in copies."""
        return self._account

    def set_account(self, account: MemoryAccount) -> None:
        """The session says where its providers get scratch memory from, before it configures them."""
        self._account = account

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Sets a config entry. Raises InvalidArgument for an empty key."""
        self._set_config(key, value)

    @property
    def disabled_optimizers(self) -> frozenset[str]:
        """Names of transforms that the session does without, of the config entry for them."""
        return self._names(DISABLED_OPTIMIZERS)

    @property
    def installed_transforms(self) -> frozenset[str]:
        """Names of installed plugins whose transforms the session uses, of the config entry for them."""
        return self._names(INSTALLED_TRANSFORMS)

    def _names(self, key: str) -> frozenset[str]:
        return frozenset(filter(None, map(str.strip, self.config(key, "").split(";"))))

    @property
    def strict(self) -> bool:
        """True if every listed provider is required. Raises InvalidArgument for a config entry that is neither "0" nor "1"."""
        value = self.config(STRICT, "0")
        if value not in ("0", "1"):
            raise InvalidArgument(f"session config entry {STRICT} is {value!r}; expected '1' or '0'")
        return value == "1"

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """The free dimension of the graph inputs that is called `dim_name` becomes a number."""
        self._dims_by_name[str(dim_name)] = _dim(dim_name, dim_value)

    def add_free_dimension_override_by_denotation(self, dim_denotation: str, dim_value: int) -> None:
        """Free dimensions of the graph inputs with that denotation ("DATA_BATCH") become a number."""
        self._dims_by_denotation[str(dim_denotation)] = _dim(dim_denotation, dim_value)

    @property
    def free_dimensions(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Overrides by name and by denotation."""
        return dict(self._dims_by_name), dict(self._dims_by_denotation)

    def set_load_cancellation_flag(self, value: bool) -> None:
        """Cancel the creation of sessions with these options (True), from any thread: it ends with ModelLoadCanceled within a second,
        or once the current kernel is compiled. Until it is False again, no session can be created with them.
        """
        self._load_cancellation.raised = bool(value)

    @property
    def load_cancellation(self) -> Flag:
        """The flag that `set_load_cancellation_flag` sets, shared with copies of these options."""
        return self._load_cancellation

    def add_initializer(self, name: str, value: Any) -> None:
        """Uses `value`, an OrtValue or an array, in place of the model's initialiser `name`; sessions may share one array.

        It must not change while a session lives. Raises InvalidArgument for what is neither.
        """
        if not hasattr(value, "numpy") and not (hasattr(value, "dtype") and hasattr(value, "shape")):
            raise InvalidArgument(f"add_initializer: {name!r} came as {type(value).__name__}, expected an OrtValue or an array")
        self._initializers[name] = value

    @property
    def initializers(self) -> Mapping[str, Any]:
        """The initializers supplied by the program, by name."""
        return dict(self._initializers)


class RunOptions(_Checked):
    """Options of one `run`. Setting `terminate`, from any thread, ends the runs that have these options with Cancelled;
    `timeout`, in seconds, ends each of them that takes longer with DeadlineExceeded. 0: none.

    They end before their next step at the latest. On Linux the CPU provider ends them in the middle of a kernel, elsewhere between
    two kernels.
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
        """Runs in flight are this process's."""
        return {**vars(self), "_stops": []}

    def copy(self) -> Self:
        """Options of its own: nobody who sets `terminate` of the one ends runs of the other."""
        made = type(self).__new__(type(self))
        for name, value in self.__getstate__().items():
            setattr(made, name, dict(value) if isinstance(value, dict) else value)
        return made

    def extend_feed(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """The feed of a run with what these options add to it: nothing here. A hook of derived classes."""
        return feed

    def exceed(self, timeout: float) -> None:
        """The deadline of the run that has these options, and no other, has passed: it is ended."""
        self._exceeded = timeout
        self.terminate = True

    def ended(self, where: str) -> RunTerminated:
        """Return the exception for a run that found `terminate` set: DeadlineExceeded or Cancelled."""
        if self._exceeded:
            return DeadlineExceeded(f"the run took longer than its timeout of {self._exceeded:g} s, and was ended {where}")
        return Cancelled(f"the run was ended by RunOptions.terminate {where}")

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
        """Calls `stop` when `terminate` is set inside the block, from the thread that sets it; at once where it is already."""
        self._stops.append(stop)
        try:
            if self.terminate:
                stop()
            yield
        finally:
            self._stops.remove(stop)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Sets a config entry. Raises InvalidArgument for an empty key."""
        self._set_config(key, value)


def _dim(name: str, value: int) -> int:
    number = index(value)
    if number < 0:
        raise InvalidArgument(f"free dimension {name!r}: got {value!r}, expected 0 or more")
    return number
