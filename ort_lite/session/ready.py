"""A compiled model that is ready to run: checks the feeds, runs, and selects the requested outputs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_lite.compile import lifecycle
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.execute.execute import Call, Executable, copy_aliases
from ort_lite.execute.feeds import Feeds
from ort_lite.log.events import Stream
from ort_lite.memory.session_memory import SessionMemory
from ort_lite.options import config_keys
from ort_lite.options.options import RunOptions
from ort_lite.provider.current import CURRENT, as_in
from ort_lite.provider.forks import check_process
from ort_lite.provider.provider import CPU, Device
from ort_lite.session.prepare import Prepared

if TYPE_CHECKING:
    from ort_lite.execute.donation import Donations
    from ort_lite.execute.parallel import Workers
    from ort_lite.execute.replay import KeptMemory


class Ready:
    """A compiled model with everything that `run` needs."""

    __slots__ = (
        "__weakref__",
        "_check",
        "_config_keys",
        "_constants",
        "_events",
        "_feeds",
        "_names",
        "_noted",
        "_run",
        "_session_memory",
        "_shares",
        "compiled",
        "is_watched",
        "prepared",
        "verifier",
    )

    def __init__(
        self,
        prepared: Prepared,
        events: Stream,
        session_memory: SessionMemory,
        noted: set[str] | None = None,
        feeds: "Callable[[Any], list[Any]] | None" = None,
        workers: "Workers | None" = None,
    ) -> None:
        """Prepare the lookups of a run.

        `noted` holds the run config entries that were already reported as having no effect; `feeds` converts a feed to inputs
        (None: Feeds); `workers` run independent steps in parallel.
        """
        self._noted: set[str] = set() if noted is None else noted
        self.prepared, self.compiled, self._session_memory = prepared, prepared.compiled, session_memory
        self.verifier: Any = None  # kept by the hook "verify" for the next verified run
        self.is_watched = False  # True while runs are wrapped
        self._check: Callable[[], None] | None = None
        executable = prepared.compiled.executable
        self._feeds = Feeds(executable.inputs) if feeds is None else feeds
        self._names = [value.name for value in executable.outputs]
        run = executable.run if workers is None else _run_of(executable, workers)
        self._run = lifecycle.call_hooks(run, lifecycle.providers_with_hooks(prepared.assignment))
        self._shares = executable.outputs_may_alias
        self._constants = executable.constants
        self._config_keys = [key for p in prepared.assignment.providers.values() for key in p.config_keys]
        self._events = events
        self._check_process(prepared)

    def _check_process(self, prepared: Prepared) -> None:
        """Let runs in a forked child raise ProviderError if the device of a provider does not outlive a fork."""
        if all(provider.outlives_fork for provider in prepared.assignment.providers.values()):
            return
        for provider in lifecycle.taking_part(prepared.assignment):
            self.check_before_runs(partial(check_process, provider))

    def check_before_runs(self, check: Callable[[], None]) -> None:
        """Call `check` at the beginning of each run from now on. Runs without a check pay nothing."""
        self._check, feeds = check, self._feeds

        def check_and_read(feed: Any) -> list[Any]:
            check()
            return feeds(feed)

        self._feeds = check_and_read

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None, *call: Call
    ) -> list[Any]:
        """Run the model and return the outputs with these names, or all outputs for None.

        `call` calls the steps if there are no subscribers to events (see `Executable.run`).
        """
        if run_options is not None and run_options.timeout:
            from ort_lite.options.deadline import limit_run

            with limit_run(run_options, run_options.timeout) as own:
                return self.run(output_names, input_feed, own, *call)
        inputs = self._feeds(input_feed) if run_options is None else self._convert_feeds(input_feed, run_options)
        after: tuple[Callable[[], None], ...] = ()
        run: lifecycle.Run = self._run
        if self._events.subscribers:
            run, call = self._record, ()
        if run_options is not None:
            self._check_entries(run_options)
            if run_options.config(config_keys.SHRINK, ""):
                from ort_lite.session.footprint import shrinking

                after = shrinking(run_options, self.prepared.assignment.providers, self._session_memory)
        outputs = run(inputs, run_options, *call)
        for shrink in after:
            shrink()
        if self._shares:
            outputs = copy_aliases(outputs, [*inputs, *self._constants], run_options)
        if not output_names or output_names == self._names:
            return outputs
        return self._select_outputs(output_names, outputs)

    def start_run(
        self,
        names: Sequence[str] | None,
        feed: Mapping[str, Any],
        run_options: RunOptions | None,
        wanted: Mapping[str, Device],
        donations: "Donations | None" = None,
        memory: "KeptMemory | None" = None,
        waits: bool = False,
    ) -> list[Any]:
        """Run the model, with outputs computed in the memory of donated inputs if possible.

        With a device, outputs in `wanted` stay there, and the run returns before it has finished, unless `waits`.
        """
        found = None if donations is None else self.run_over(feed, donations, run_options)
        return self.run(names, feed, run_options) if found is None else [found[name] for name in names or self._names]

    def finish(self) -> None:
        """Wait for runs that returned early: on the CPU, none does."""

    def _convert_feeds(self, input_feed: Mapping[str, Any], run_options: RunOptions) -> list[Any]:
        """Convert the inputs of a run that can be cancelled meanwhile."""
        with as_in(run_options, CURRENT.watch, CURRENT.work):
            return self._feeds(input_feed)

    def wrap_runs(self, wrap: Callable[["Ready", lifecycle.Run], lifecycle.Run]) -> None:
        """Let runs call `wrap(self, run)` instead of `run`, the function that runs the steps, until `restore_runs(run)`."""
        run = wrap(self, self._run)
        self.is_watched, self._run = run is not self._run, run

    def restore_runs(self, run: lifecycle.Run) -> None:
        """Let runs call the function that was wrapped. They pay nothing for the time before."""
        self.is_watched, self._run = False, run

    def run_executable(
        self, executable: Executable, inputs: Sequence[Any], run_options: RunOptions | None, *call: Any
    ) -> list[Any]:
        """Run another Executable of the model step by step, with the providers' hooks around it. Arguments are those of a Run."""
        run = lifecycle.call_hooks(executable.run, lifecycle.taking_part(self.prepared.assignment))
        return run(inputs, run_options, *call)

    def run_other(
        self, names: Sequence[str] | None, feed: Mapping[str, Any], run_options: RunOptions | None, executable: Executable
    ) -> list[Any]:
        """Run another Executable instead of the model's own, step by step."""
        prepared = self.prepared.replace(compiled=self.compiled.replace(executable=executable))
        other = Ready(prepared, self._events, self._session_memory, self._noted)
        if self._check is not None:
            other.check_before_runs(self._check)
        return other.run(names, feed, run_options)

    def run_into(self, input_feed: Mapping[str, Any], targets: Sequence[Any]) -> list[Any] | None:
        """Run the model with outputs written into `targets`, one for each output (see `Executable.run_into`). Return all outputs.

        Returns None without running anything if the compiled model cannot do that, or if hooks or event subscribers surround
        the run.
        """
        return self.compiled.executable.run_into(self._feeds(input_feed), targets) if self._runs_steps() else None

    def run_over(self, feed: Mapping[str, Any], donations: "Donations", options: RunOptions | None) -> dict[str, Any] | None:
        """Run the model with outputs written over the arrays of donated inputs, which are then `taken`. Return all outputs by name.

        Outputs of inputs that grow are computed in `donations.bases`. Returns None without running anything if no output has such an
        input, as `run_into` does, and for options that need more.
        """
        pairs = {output: name for output, name in self.aliases().items() if name in donations.allowed}
        growths = self._growing(donations) if donations.growing else {}
        arrays = [(output, feed[name]) for output, name in pairs.items() if output not in growths]
        targets = {output: x for output, x in arrays if type(x) is np.ndarray and x.flags.c_contiguous}
        if not (targets or growths) or not self._runs_steps():
            return None
        if options is not None:
            if options.timeout or options.terminate or options.config(config_keys.SHRINK, ""):
                return None
            self._check_entries(options)
        over = [pairs[output] for output in targets]
        with nullcontext() if options is None else as_in(options, CURRENT.watch, CURRENT.work):
            if not growths:
                inputs, bases = self._feeds(feed), dict[int, Any]()
            else:
                over += [name for output, name in pairs.items() if output in growths and name in donations.bases]
                inputs, bases = self._make_room(feed, growths, donations)
            donations.taken = frozenset(over)
            names = self._names
            outputs = self.compiled.executable.run_into(inputs, [targets.get(name) for name in names], bases)
            return None if outputs is None else dict(zip(names, outputs, strict=True))

    def _growing(self, donations: "Donations") -> dict[str, tuple[str, int]]:
        return {output: pair for output, pair in self.growths().items() if pair[0] in donations.growing}

    def _make_room(
        self, feed: Mapping[str, Any], growths: Mapping[str, tuple[str, int]], donations: "Donations"
    ) -> tuple[list[Any], dict[int, Any]]:
        """Return the inputs, with those that grow as beginnings of `donations.bases`, and these by the positions of outputs."""
        from ort_lite.execute.growth import make_room

        pasts = make_room(feed, growths.values(), donations.bases)
        alike = {name: np.ndarray(past.shape, past.dtype, donations.bases[name]) for name, past in pasts.items()}
        inputs = self._feeds({**feed, **alike})  # which copies what is not contiguous
        values = self.compiled.executable.inputs
        bases = {self._names.index(output): donations.bases[name] for output, (name, _) in growths.items() if name in pasts}
        return [pasts.get(value.name, x) for value, x in zip(values, inputs, strict=True)], bases

    def _runs_steps(self) -> bool:
        """Return True if a run is nothing but the steps: no hooks, no subscribers, and no copies of outputs."""
        return not self._events.subscribers and not self._shares and self._run == self.compiled.executable.run

    def home(self, name: str) -> Device:
        """Return the device on which a partition makes an output."""
        return CPU

    def aliases(self) -> dict[str, str]:
        """Return the inputs in whose memory `run_into` may compute outputs, by output (see `DeclaresAliases`)."""
        executable = self.compiled.executable
        found: Mapping[int, int] = getattr(executable.direct, "aliases", {}) if hasattr(executable.direct, "into") else {}
        places = range(len(executable.inputs)) if executable.picks is None else executable.picks
        return {self._names[y]: executable.inputs[places[x]].name for y, x in found.items()}

    def growths(self) -> dict[str, tuple[str, int]]:
        """Return the inputs behind which outputs may be computed, with the axis of the rows, by output (see `DeclaresGrowth`)."""
        executable = self.compiled.executable
        found: Mapping[int, tuple[int, int]] = getattr(executable.direct, "growths", {})
        places = range(len(executable.inputs)) if executable.picks is None else executable.picks
        return {self._names[y]: (executable.inputs[places[x]].name, axis) for y, (x, axis) in found.items()}

    def _check_entries(self, options: RunOptions) -> None:
        """Raise InvalidArgument for an unknown run config entry. Report each entry without effect once."""
        entries = options.config_entries
        if entries:
            config_keys.check_run(entries, self._config_keys)
            new = entries.keys() - self._noted
            self._noted.update(new)
            acting = config_keys.ACTING_IN_RUNS.union(self._config_keys)
            config_keys.note_without_effect(new, acting, "run", options)

    def _select_outputs(self, names: Sequence[str], outputs: list[Any]) -> list[Any]:
        by_name = dict(zip(self._names, outputs, strict=True))
        self._check_names(names)
        return [by_name[name] for name in names]

    def _check_names(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._names:
                raise InvalidArgument(f"the model has no output {name!r}; it has {', '.join(map(repr, self._names))}").about(
                    words=f"Invalid output name:{name}"
                )

    def _record(self, inputs: list[Any], options: RunOptions | None) -> list[Any]:
        """Run the model and emit the events of its steps."""
        from ort_lite.execute.run_events import RunEvents

        with RunEvents(self._events) as events:
            return self._run(inputs, options, events.step)


def _run_of(executable: Executable, workers: "Workers") -> lifecycle.Run:
    """Return the run function: parallel if at least two steps are independent."""
    from ort_lite.execute.parallel import Parallel

    beside = Parallel(executable, workers)
    return beside.run if beside.useful else executable.run


class Closed:
    """The stand-in for a compiled model once its session is closed."""

    def run(self, names: Sequence[str] | None, feed: Mapping[str, Any], options: RunOptions | None) -> list[Any]:
        """Raise RuntimeException: the session is closed."""
        raise RuntimeException("the session is closed")
