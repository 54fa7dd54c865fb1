"""The actors of one provider. Each holds sessions of stages, and is replaced when it dies."""

import os
import socket
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Never

from ort_lite.errors import OrtLiteError, ProviderError
from ort_lite.provider import run_options
from ort_lite.provider.export import PartitionModel
from ort_lite.record import Record
from ort_lite_ray.calls import LOOK, CallLost, Calls, answer
from ort_lite_ray.tensors import MemoryFolder, read, write

if TYPE_CHECKING:
    import ray

PATIENCE = 300.0
"""Seconds in which an actor must start, or create a session."""


def check_ray(owner: str) -> None:
    """Raise ProviderError if Ray is not running. Ray itself would start a cluster."""
    import ray

    if not ray.is_initialized():
        raise ProviderError(f"{owner}: Ray is not running in this process; expected ray.init() before the session").about(
            provider=owner
        )


class StageWorker:
    """The object in an actor's process: CPU sessions by name."""

    def __init__(self, num_threads: int) -> None:
        self._threads, self._sessions = num_threads, dict[str, tuple[Any, Sequence[str], Sequence[str]]]()
        self._turn = threading.Lock()

    def where(self, memory: str | None) -> tuple[str, str | None]:
        """Return this process's name, and a path at which `run` can be called without Ray.

        The path is None if this process is on another host than `memory`, the caller's folder.
        """
        path = f"{memory}/{uuid.uuid4().hex}" if memory is not None and os.path.isdir(memory) else None
        if path is not None:
            answer(self.run, path)
        return f"process {os.getpid()} on {socket.gethostname()}", path

    def load(self, name: str, model: PartitionModel) -> None:
        """Create the session of a model under a name."""
        import ort_lite

        options = ort_lite.SessionOptions()
        options.intra_op_num_threads = self._threads
        session = ort_lite.InferenceSession(model.data, options, providers=["CPUExecutionProvider"])
        self._sessions[name] = session, model.inputs, model.outputs

    def run(self, name: str, paths: Sequence[str | None], values: Sequence[Any]) -> list[Any]:
        """Run a session and return its outputs. Runs wait for each other.

        Outputs with a path may be written to files, and `values` may be in files.
        """
        session, inputs, outputs = self._sessions[name]
        feeds = dict(zip(inputs, map(read, values), strict=True))
        with self._turn:
            results = session.run(list(outputs), feeds)
        return [write(result, path) for result, path in zip(results, paths, strict=True)]

    def task(self, name: str, *values: Any) -> Any:
        """Run a session as a task of Ray. Returns the outputs, or a single output by itself, as Ray expects."""
        made = self.run(name, [None] * len(self._sessions[name][2]), values)
        return made if len(made) > 1 else made[0]


class _Started(Record):
    """A running actor. `calls` is None if the actor is on another host, where only Ray reaches it."""

    handle: Any
    who: str
    calls: Calls | None


class Actors:
    """The actors of a provider, created on first use. Thread-safe; calls of one actor wait for each other."""

    def __init__(self, owner: str, count: int, num_threads: int, memory: int | None) -> None:
        self.count = count
        self._owner, self._threads, self._memory = owner, num_threads, memory
        self._lock = threading.RLock()
        self._started: dict[int, _Started] = {}
        self._models: dict[int, dict[str, ray.ObjectRef[PartitionModel]]] = {}
        self._known: dict[str, str] = {}
        """The names of actors, past and present, by Ray's identifier."""
        self.memory = MemoryFolder()

    def load(self, place: int, name: str, model: PartitionModel) -> None:
        """Create a session on an actor. Raises ProviderError, and the errors of session creation."""
        import ray

        given = ray.put(model)
        with self._lock:
            actor = self._actor(place)
            self._models.setdefault(place, {})[name] = given
            self._wait(place, actor.handle.load.remote(name, given))

    def near(self, places: int) -> bool:
        """Return True if the first `places` actors share this host's memory."""
        with self._lock:
            return all(self._actor(place).calls is not None for place in range(places))

    def call(self, place: int, name: str, paths: Sequence[str | None], values: Sequence[Any]) -> list[Any]:
        """Run a session on an actor of this host and return its outputs.

        Raises the session's errors, ProviderError if the actor has died, which the next call replaces, and RunTerminated if
        the current run is cancelled.
        """
        with self._lock:
            actor = self._actor(place)
        if actor.calls is None:
            said = f"{actor.who} was made anew on another host, and this run began with files of this one; run again"
            raise ProviderError(f"{self._owner}: {said}").about(provider=self._owner)
        try:
            return list(actor.calls((name, paths, values), self._look()))
        except CallLost as lost:
            import ray

            check_ray(self._owner)
            ray.kill(actor.handle)  # already dead, or unreachable
            self._report_death(actor.who, lost)
        except OrtLiteError:
            raise
        except Exception as error:
            raise self._failure(actor.who, error) from error

    def submit(self, place: int, name: str, outputs: int, values: Sequence[Any]) -> list[Any]:
        """Submit a run through Ray and return references to its outputs. `values` may be references."""
        with self._lock:
            task = self._actor(place).handle.task
        made = task.options(num_returns=outputs).remote(name, *values)
        return [made] if outputs == 1 else list(made)

    def get(self, references: Sequence[Any], before: Sequence[Any] = ()) -> list[Any]:
        """Wait for references and return their values.

        Raises as `call` does. If the run is cancelled, cancels those tasks of `before` that have not begun.
        """
        import ray
        from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError

        wanted = list(references)
        try:
            self._watch(wanted, before)
            return list(ray.get(wanted))
        except RayActorError as error:
            who = self._known.get(error.actor_id or "", "an actor")
            if isinstance(error, ActorUnavailableError):
                raise self._failure(who, error) from error
            self._report_death(who, error)
        except RayTaskError as error:
            if isinstance(error.cause, OrtLiteError):
                raise error.cause from None
            raise self._failure("an actor", error.cause) from error

    def _watch(self, references: list[Any], before: Sequence[Any]) -> None:
        """Wait for references. Raises RunTerminated if the current run is cancelled, and cancels the tasks of `before`."""
        import ray

        look = self._look()
        while look is not None and ray.wait(references, num_returns=len(references), timeout=LOOK)[1]:
            try:
                look()
            except OrtLiteError:
                for one in before:
                    ray.cancel(one)
                raise

    def _look(self) -> Callable[[], None] | None:
        """Return a function that raises RunTerminated if the current run is cancelled; None if the run cannot be."""
        options = run_options()

        def look() -> None:
            if options is not None and options.terminate:
                raise options.termination(f"while {self._owner} waited for its actors")

        return None if options is None else look

    def _actor(self, place: int) -> _Started:
        """Return the running actor at a place, started with its sessions if need be. The caller holds the lock."""
        found = self._started.get(place)
        if found is None:
            import ray

            check_ray(self._owner)
            memory = {} if self._memory is None else {"memory": self._memory}
            made = ray.remote(StageWorker).options(
                num_cpus=self._threads,
                enable_task_events=False,
                allow_out_of_order_execution=True,  # runs are independent, and must not wait for a cancelled one
                **memory,
            )
            handle, path = made.remote(self._threads), self.memory.path
            where, address = self._wait(place, handle.where.remote(None if path is None else str(path)))
            who = f"actor {place + 1} of {self.count} ({where})"
            self._known[handle._actor_id.hex()] = who
            for name, model in self._models.get(place, {}).items():
                self._wait(place, handle.load.remote(name, model))
            found = self._started[place] = _Started(handle, who, None if address is None else Calls(address))
        return found

    def _wait(self, place: int, reference: Any) -> Any:
        import ray

        done, _ = ray.wait([reference], timeout=PATIENCE)
        if not done:
            raise ProviderError(
                f"{self._owner}: actor {place + 1} of {self.count} was not ready after {PATIENCE:g} s; expected a cluster "
                f"with {self._threads} free processors for it: {ray.available_resources()}"
            ).about(provider=self._owner)
        return self.get([reference])[0]

    def _report_death(self, who: str, error: Exception) -> Never:
        with self._lock:
            self._started = {k: actor for k, actor in self._started.items() if actor.who != who}
        said = f"{who} has died, and this run with it; the next run makes it anew"
        raise ProviderError(f"{self._owner}: {said}").about(provider=self._owner) from error

    def _failure(self, who: str, error: BaseException) -> ProviderError:
        return ProviderError(f"{self._owner}: {who} failed: {error}").about(provider=self._owner)
