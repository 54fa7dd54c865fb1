"""The actors of one provider: each holds sessions of stages, and is made anew after it has died."""

import os
import socket
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Never

from ort_lite.errors import OrtLiteError, ProviderError
from ort_lite.provider import run_options
from ort_lite.provider.export import PartitionModel
from ort_lite_ray.tensors import Memory, read, write

if TYPE_CHECKING:
    import ray
    from ray.exceptions import RayActorError

_LOOK = 0.02
"""Seconds between looks whether a run is to end."""
PATIENCE = 300.0
"""Seconds until an actor must have started, or made a session."""


class Worker:
    """What runs in the actor's process: sessions by name, on the CPU."""

    def __init__(self, num_threads: int) -> None:
        self._threads, self._sessions = num_threads, dict[str, tuple[Any, Sequence[str], Sequence[str]]]()

    def where(self, memory: str | None) -> tuple[str, bool]:
        """What to call this process, and whether it has the caller's memory."""
        return f"process {os.getpid()} on {socket.gethostname()}", memory is not None and os.path.isdir(memory)

    def load(self, name: str, model: PartitionModel) -> None:
        import ort_lite

        options = ort_lite.SessionOptions()
        options.intra_op_num_threads = self._threads
        session = ort_lite.InferenceSession(model.data, options, providers=["CPUExecutionProvider"])
        self._sessions[name] = session, model.inputs, model.outputs

    def run(self, name: str, paths: Sequence[str | None], *values: Any) -> Any:
        """A list of outputs; of one output, as Ray has it, the output. Those that have a path may be in files; so may be `values`."""
        session, inputs, outputs = self._sessions[name]
        results = session.run(list(outputs), dict(zip(inputs, map(read, values), strict=True)))
        made = [result if path is None else write(result, path) for path, result in zip(paths, results, strict=True)]
        return made if len(made) > 1 else made[0]


class Actors:
    """`count` of them, made when they are first needed. Thread-safe; calls of one actor wait for each other in order."""

    def __init__(self, owner: str, count: int, num_threads: int, memory: int | None) -> None:
        self.count = count
        self._owner, self._threads, self._memory = owner, num_threads, memory
        self._lock = threading.RLock()
        self._actors: dict[int, Any] = {}
        self._models: dict[int, dict[str, ray.ObjectRef[PartitionModel]]] = {}
        self._known: dict[str, str] = {}
        """What to call an actor, by Ray's identifier, also one that is gone."""
        self.memory = Memory()
        self._near: dict[int, bool] = {}

    def load(self, place: int, name: str, model: PartitionModel) -> None:
        """A session of the model there. Raises ProviderError, and what making the session raises."""
        import ray

        given = ray.put(model)
        with self._lock:
            actor = self._actor(place)
            self._models.setdefault(place, {})[name] = given
            self._wait(place, actor.load.remote(name, given))

    def near(self, place: int) -> bool:
        """Whether the actor there shares this host's memory."""
        with self._lock:
            self._actor(place)
            return self._near[place]

    def submit(self, place: int, name: str, paths: Sequence[str | None], values: Sequence[Any]) -> list[Any]:
        """References to the outputs, at once; `values` may be references, too."""
        with self._lock:
            actor = self._actor(place)
        if len(paths) == 1:  # as the method is: options of its own cost as much as the call
            return [actor.run.remote(name, paths, *values)]
        return list(actor.run.options(num_returns=len(paths)).remote(name, paths, *values))

    def get(self, references: Sequence[Any], before: Sequence[Any] = ()) -> list[Any]:
        """What they stand for. Raises what a session raised, ProviderError naming an actor that has died, which the next call makes
        anew, and RunTerminated where the run that this thread is in is told to end: what of `before` has not begun does not begin.
        """
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        wanted = list(references)
        try:
            self._watch(wanted, before)
            return list(ray.get(wanted))
        except RayActorError as error:
            self._lost(error)
        except RayTaskError as error:
            if isinstance(error.cause, OrtLiteError):
                raise error.cause from None
            raise ProviderError(f"{self._owner}: an actor failed: {error.cause}").about(provider=self._owner) from error

    def _watch(self, references: list[Any], before: Sequence[Any]) -> None:
        """Until all are there. Raises RunTerminated."""
        import ray

        options = run_options()
        while options is not None and ray.wait(references, num_returns=len(references), timeout=_LOOK)[1]:
            if options.terminate:
                for one in before:
                    ray.cancel(one)
                raise options.ended(f"while {self._owner} waited for its actors")

    def _actor(self, place: int) -> Any:
        """The one there, with its sessions. The lock is held."""
        found = self._actors.get(place)
        if found is None:
            import ray

            memory = {} if self._memory is None else {"memory": self._memory}
            made = ray.remote(Worker).options(
                num_cpus=self._threads,
                enable_task_events=False,
                allow_out_of_order_execution=True,  # runs are independent; one that is cancelled would be waited for
                **memory,
            )
            found = made.remote(self._threads)
            path = self.memory.path
            where, self._near[place] = self._wait(place, found.where.remote(None if path is None else str(path)))
            self._known[found._actor_id.hex()] = f"actor {place + 1} of {self.count} ({where})"
            for name, model in self._models.get(place, {}).items():
                self._wait(place, found.load.remote(name, model))
            self._actors[place] = found
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

    def _lost(self, error: "RayActorError") -> Never:
        from ray.exceptions import ActorUnavailableError

        identifier = error.actor_id or ""
        who = self._known.get(identifier, "an actor")
        if isinstance(error, ActorUnavailableError):
            said = f"{who} does not answer: {error}"
        else:
            said = f"{who} has died, and this run with it; the next run makes it anew"
            with self._lock:
                self._actors = {k: actor for k, actor in self._actors.items() if actor._actor_id.hex() != identifier}
        raise ProviderError(f"{self._owner}: {said}").about(provider=self._owner) from error
