"""The actors of one provider: each holds sessions of stages, and is made anew after it has died."""

import os
import socket
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Never

from ort_lite.errors import OrtLiteError, ProviderError
from ort_lite.provider.export import PartitionModel

if TYPE_CHECKING:
    import ray
    from ray.exceptions import RayActorError

PATIENCE = 300.0
"""Seconds until an actor must have started, or made a session."""


class Worker:
    """What runs in the actor's process: sessions by name, on the CPU."""

    def __init__(self, num_threads: int) -> None:
        self._threads, self._sessions = num_threads, dict[str, tuple[Any, Sequence[str], Sequence[str]]]()

    def where(self) -> str:
        return f"process {os.getpid()} on {socket.gethostname()}"

    def load(self, name: str, model: PartitionModel) -> None:
        import ort_lite

        options = ort_lite.SessionOptions()
        options.intra_op_num_threads = self._threads
        session = ort_lite.InferenceSession(model.data, options, providers=["CPUExecutionProvider"])
        self._sessions[name] = session, model.inputs, model.outputs

    def run(self, name: str, *arrays: Any) -> Any:
        """A list of outputs; of one output, as Ray has it, the output."""
        session, inputs, outputs = self._sessions[name]
        results = session.run(list(outputs), dict(zip(inputs, arrays, strict=True)))
        return results if len(results) > 1 else results[0]


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

    def load(self, place: int, name: str, model: PartitionModel) -> None:
        """A session of the model there. Raises ProviderError, and what making the session raises."""
        import ray

        given = ray.put(model)
        with self._lock:
            actor = self._actor(place)
            self._models.setdefault(place, {})[name] = given
            self._wait(place, actor.load.remote(name, given))

    def submit(self, place: int, name: str, arrays: Sequence[Any], outputs: int) -> list[Any]:
        """References to the outputs, at once; `arrays` may be references, too."""
        with self._lock:
            actor = self._actor(place)
        made = actor.run.options(num_returns=outputs).remote(name, *arrays)
        return made if outputs > 1 else [made]

    def get(self, references: Sequence[Any]) -> list[Any]:
        """The arrays. Raises what a session raised, and ProviderError naming an actor that has died: the next call makes it anew."""
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        try:
            return list(ray.get(list(references)))
        except RayActorError as error:
            self._lost(error)
        except RayTaskError as error:
            if isinstance(error.cause, OrtLiteError):
                raise error.cause from None
            raise ProviderError(f"{self._owner}: an actor failed: {error.cause}").about(provider=self._owner) from error

    def _actor(self, place: int) -> Any:
        """The one there, with its sessions. The lock is held."""
        found = self._actors.get(place)
        if found is None:
            import ray

            memory = {} if self._memory is None else {"memory": self._memory}
            found = ray.remote(Worker).options(num_cpus=self._threads, **memory).remote(self._threads)
            where = self._wait(place, found.where.remote())
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
        identifier = error.actor_id or ""
        with self._lock:
            self._actors = {k: actor for k, actor in self._actors.items() if actor._actor_id.hex() != identifier}
        who = self._known.get(identifier, "an actor")
        raise ProviderError(f"{self._owner}: {who} has died, and this run with it; the next run makes it anew").about(
            provider=self._owner
        ) from error
