"""What HTTP and gRPC have in common: models, whether they are ready, and one way to infer."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite._version import __version__
from ort_lite.dtypes import Array
from ort_lite_serve.batching import Batcher
from ort_lite_serve.limits import Batching, Limits, Refused
from ort_lite_serve.metrics import Metrics
from ort_lite_serve.model import Feeds, Model

EXTENSIONS = ["binary_tensor_data"]


class Server:
    """`start` and `stop` it in the event loop that serves. Ready from the one to the other."""

    def __init__(self, models: Sequence[Model], limits: Limits | None = None, batching: Batching | None = None) -> None:
        self.limits, self.metrics = limits or Limits(), Metrics()
        made = batching or Batching()
        self._batchers = {model.name: Batcher(model, made, self.limits, self.metrics) for model in models}
        self.ready = False
        self._inflight = 0
        self._idle = asyncio.Event()

    def start(self) -> None:
        for batcher in self._batchers.values():
            batcher.start()
        self.ready = True
        self._idle.set()

    async def stop(self) -> None:
        """Nothing new is taken; what was taken is answered."""
        self.ready = False
        await self._idle.wait()
        for batcher in self._batchers.values():
            await batcher.stop()

    @property
    def models(self) -> Mapping[str, Model]:
        return {name: batcher.model for name, batcher in self._batchers.items()}

    def metadata(self) -> dict[str, Any]:
        return {"name": "ort-lite", "version": __version__, "extensions": EXTENSIONS}

    def model(self, name: str, version: str = "") -> Model:
        """Raises Refused for one that is not there."""
        found = self._batchers.get(name)
        if found is None or version not in ("", found.model.version):
            there = ", ".join(f"{n} (version {b.model.version})" for n, b in self._batchers.items())
            raise Refused(404, f"no model {name!r}{f' of version {version!r}' if version else ''}; there are {there}")
        return found.model

    async def infer(self, name: str, version: str, feeds: Feeds, outputs: Sequence[str]) -> dict[str, Array]:
        """Outputs by name, those that are wanted, all where none are. Raises Refused."""
        status = 200
        self._inflight += 1
        self._idle.clear()
        try:
            model = self.model(name, version)
            if not self.ready:
                raise Refused(503, "the server ends: it takes nothing new")
            model.check(feeds, outputs)
            results = await self._batchers[name].infer(feeds)
            return {output: results[output] for output in outputs or results}
        except Refused as error:
            status = error.status
            raise
        except Exception as error:
            status = 500
            raise Refused(500, f"{name}: {type(error).__name__}: {error}") from error
        finally:
            self._inflight -= 1
            if not self._inflight:
                self._idle.set()
            self.metrics.answered(name if name in self._batchers else "", status)
