"""RunState: values that a session keeps between runs, such as the caches of a language model."""

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.execute.donation import Donations
from ort_lite.execute.execute import deep_copy
from ort_lite.memory import locks
from ort_lite.provider.provider import CPU, Device
from ort_lite.session.metadata import NodeArg
from ort_lite.tensors.conversion import array_of
from ort_lite.tensors.device_tensor import DeviceTensor, on_device

Run = Callable[[Sequence[str], Mapping[str, Any], Mapping[str, Device], Donations], list[Any]]
"""A run: the names of outputs, the feed, the outputs that stay on a device, the inputs whose memory may be overwritten."""


class Keeper(Protocol):
    """The members of a session that a state needs."""

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs of the session."""

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs of the session."""

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the initializers that a run may override."""

    def _home(self, name: str) -> Device: ...


class _Values:
    """Values by the names of inputs, and the states that hold them. A run of their single owner may overwrite them.

    `elsewhere` has the names of those that other _Values hold as well; `bases` the arrays with room for more rows, by the names of
    values that are their beginnings.
    """

    def __init__(
        self, values: Mapping[str, Any], elsewhere: Collection[str] = (), bases: Mapping[str, Array] | None = None
    ) -> None:
        self.values, self.elsewhere = values, set(elsewhere)
        self.bases = (
            {name: base for name, base in bases.items() if getattr(values[name], "base", None) is base} if bases else {}
        )
        self.owners: weakref.WeakSet[RunState] = weakref.WeakSet()

    def free(self) -> dict[str, None]:
        """Return the names of the values that nobody but their single owner holds."""
        return {} if len(self.owners) > 1 else {name: None for name in self.values if name not in self.elsewhere}


class RunState:
    """Values that outputs of one run are, and inputs of the next one. `Session.create_run_state` creates it.

    Values stay on the device that computes them, and partitions that take donations write the new ones over the old. One run at a
    time may use a state; `copy()` gives another run its own.
    """

    def __init__(self, session: Keeper, links: Mapping[str, str], values: Mapping[str, Any]) -> None:
        """Hold `values` by the names of inputs. `links` maps inputs to the outputs that replace them."""
        self._session, self._links = session, dict(links)
        self._busy, self._lost = locks.lock(), ""
        self._growing = set[str]()
        self._kept = _Values({})
        self._hold(_Values(values))

    def copy(self) -> "RunState":
        """Return a state with the same values. The two share memory until a run of either computes new values."""
        with self._using("copied"):
            made = RunState(self._session, self._links, {})
            made._growing |= self._growing
            made._hold(self._kept)
            return made

    def values(self) -> dict[str, Any]:
        """Return copies of the values on the CPU, by the names of the inputs."""
        with self._using("read"):
            return {name: _on_cpu(value) for name, value in self._kept.values.items()}

    def rewind(self, length: int, axis: int) -> None:
        """Cut every value to its first `length` elements along an axis, to go on from an earlier run.

        Values on a device pass through the CPU. Raises InvalidArgument if a value is no tensor with so many elements there;
        nothing is changed then.
        """
        with self._using("rewound"):
            kept = self._kept
            bases = {name: base for name, base in kept.bases.items() if name in kept.free()}
            cut = {name: _cut(name, value, length, axis, name in bases) for name, value in kept.values.items()}
            same = [name for name, value in cut.items() if value is kept.values[name]]
            kept.elsewhere.update(same)  # before this state is no owner any more
            self._hold(_Values(cut, same, bases))

    def run(self, run: Run, session: object, names: Sequence[str] | None, feed: Mapping[str, Any]) -> list[Any]:
        """Call `run` with the values as further inputs, and keep what replaces them. Return the other outputs.

        Raises InvalidArgument if another session made the state, for names that belong to it, and if a run is using it.
        """
        if session is not self._session:
            raise InvalidArgument("the run state was made by another session; each session creates its own")
        outputs = tuple(self._links.values())
        wanted = [arg.name for arg in self._session.get_outputs() if arg.name not in outputs] if names is None else list(names)
        if both := [name for name in wanted if name in outputs]:
            raise InvalidArgument(
                f"the run state keeps the output {both[0]!r}; its `values()` returns it as {self._input(both[0])!r}"
            )
        if both := [name for name in self._links if name in feed]:
            raise InvalidArgument(f"input {both[0]!r} is fed, and the run state has a value for it; leave it out of the feed")
        with self._using("run"):
            results = self._run(run, wanted, feed, outputs)
        return results[: len(wanted)]

    def _run(self, run: Run, wanted: Sequence[str], feed: Mapping[str, Any], outputs: Sequence[str]) -> list[Any]:
        kept, own = self._kept, self._kept.free()
        bases = {name: base for name, base in kept.bases.items() if name in own} if kept.bases else {}
        donations = Donations(own, self._growing, bases)
        homes = {name: home for name in outputs if (home := self._session._home(name)) != CPU}
        try:
            results = run([*wanted, *outputs], {**feed, **kept.values}, homes, donations)
        except BaseException as error:
            if donations.taken & own.keys():
                self._lost = f"{type(error).__name__}: {error}"
                self._hold(_Values({}))
            raise
        made = dict(zip(self._links, results[len(wanted) :], strict=True))
        for name, value in made.items():
            if value is not kept.values[name] and _grew(kept.values[name], value):
                self._growing.add(name)
        self._hold(_Values(made, (), donations.bases))
        return results

    def _hold(self, kept: _Values) -> None:
        self._kept.owners.discard(self)
        self._kept = kept
        kept.owners.add(self)

    @contextmanager
    def _using(self, what: str) -> Iterator[None]:
        """Hold the state. Raises InvalidArgument if a run does, and RuntimeException if one has destroyed the values."""
        if not self._busy.acquire(blocking=False):
            raise InvalidArgument(
                f"the run state cannot be {what} while a run uses it; give each run a state of its own: `copy()`"
            )
        try:
            if self._lost:
                raise RuntimeException(
                    f"the run state has no values: a run that failed was computing over them ({self._lost}); create another one, "
                    "or run a `copy()`"
                )
            yield
        finally:
            self._busy.release()

    def _input(self, output: str) -> str:
        return next(name for name, other in self._links.items() if other == output)

    def __repr__(self) -> str:
        pairs = ", ".join(f"{name} = {output}" for name, output in self._links.items())
        return f"RunState({pairs})"


def _on_cpu(value: Any) -> Any:
    from ort_lite.session.device_values import on_cpu

    return on_cpu(value) if isinstance(value, DeviceTensor) else deep_copy(value)


def _grew(before: Any, after: Any) -> bool:
    return isinstance(before, np.ndarray) and isinstance(after, np.ndarray) and after.size > before.size


def _cut(name: str, value: Any, length: int, axis: int, owned: bool = False) -> Any:
    """Return the first elements of a value along an axis; the value itself if it has no others.

    They are a copy, or a view if the value is `owned` together with the array that it is the beginning of.
    """
    shape: Any = getattr(value, "shape", ())
    if not -len(shape) <= axis < len(shape) or not 0 <= length <= shape[axis]:
        came = list(shape) if isinstance(value, (np.ndarray, DeviceTensor)) else type(value).__name__
        raise InvalidArgument(f"rewind({length}, axis={axis}): {name!r} is {came}")
    if length == shape[axis]:
        return value
    part = (slice(None),) * (axis % len(shape)) + (slice(length),)
    if (tensor := on_device(value)) is None:
        return value[part] if owned else np.array(value[part], order="C")
    from ort_lite.session.device_values import fetch, put

    return put(fetch(tensor)[part], tensor.provider)


def create_run_state(session: Keeper, links: Mapping[str, str], initial: Mapping[str, Any]) -> RunState:
    """Return a state with copies of the initial values (see `Session.create_run_state`)."""
    inputs = {arg.name: arg for arg in (*session.get_inputs(), *session.get_overridable_initializers())}
    outputs = {arg.name: arg for arg in session.get_outputs()}
    for name, output in links.items():
        for kind, known, one in (("input", inputs, name), ("output", outputs, output)):
            if one not in known:
                raise InvalidArgument(
                    f"create_run_state: the model has no {kind} {one!r}; it has {', '.join(map(repr, known))}"
                )
        if inputs[name].type != outputs[output].type:
            came = f"input {name!r} is {inputs[name].type}, output {output!r} is {outputs[output].type}"
            raise InvalidArgument(f"create_run_state: {came}; expected one type")
    if len(set(links.values())) < len(links):
        raise InvalidArgument("create_run_state: two inputs have one output")
    if links.keys() != initial.keys():
        missing, more = sorted(links.keys() - initial.keys()), sorted(initial.keys() - links.keys())
        what = (
            f"no initial value for {', '.join(missing)}"
            if missing
            else f"initial values for {', '.join(more)} besides those of the state"
        )
        raise InvalidArgument(f"create_run_state: {what}")
    return RunState(session, links, {name: _own(initial[name]) for name in links})


def _own(value: Any) -> Any:
    """Return a copy of an initial value that the caller may change later."""
    if (tensor := on_device(value)) is not None:
        from ort_lite.session.device_values import fetch, put

        return put(fetch(tensor), tensor.provider)
    return deep_copy(value) if value is None or isinstance(value, (list, dict)) else np.array(array_of(value), order="C")
