"""The part that HTTP and gRPC share: models, readiness, and inference."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from ort_lite.dtypes import Array
from ort_lite_serve.batching import Batcher
from ort_lite_serve.limits import Batching, Limits, Refused
from ort_lite_serve.metrics import Metrics, PrometheusMetrics
from ort_lite_serve.model import Feeds, ServedModel


class Server:
    """A server of models. Call `start` and `stop` in the event loop that serves.

    It is ready from `start` to `stop`, or until `ready` is set to False. By default, `metrics` are prometheus-client's.
    """

    def __init__(
        self,
        models: Sequence[ServedModel],
        limits: Limits | None = None,
        batching: Batching | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.limits, self.metrics = limits or Limits(), metrics or PrometheusMetrics()
        made = batching or Batching()
        self._batchers = {model.name: Batcher(model, made, self.limits, self.metrics) for model in models}
        self.ready = False
        self._active = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self) -> None:
        """Start the batchers of all models."""
        for batcher in self._batchers.values():
            batcher.start()
        self.ready = True

    async def stop(self) -> None:
        """Accept no more requests, and answer the accepted ones."""
        self.ready = False
        await self._idle.wait()
        for batcher in self._batchers.values():
            await batcher.stop()

    @property
    def works(self) -> bool:
        """True while the tasks that take requests from the queues run: False only after a bug in this package."""
        return all(batcher.works for batcher in self._batchers.values())

    @property
    def models(self) -> Mapping[str, ServedModel]:
        """The models, by name."""
        return {name: batcher.model for name, batcher in self._batchers.items()}

    def metadata(self) -> dict[str, Any]:
        """Return the server's metadata as the protocol defines it."""
        return {"name": "ort-lite", "version": version("ort-lite"), "extensions": ["binary_tensor_data"]}

    def model(self, name: str, version: str = "") -> ServedModel:
        """Return a model by name and version. Raises Refused if there is none."""
        found = self._batchers.get(name)
        if found is None or version not in ("", found.model.version):
            there = ", ".join(f"{model.name} (version {model.version})" for model in self.models.values())
            raise Refused(404, f"no model {name!r}{f' of version {version!r}' if version else ''}; there are {there}")
        return found.model

    @contextmanager
    def handle_request(self, name: str, version: str) -> Iterator[ServedModel]:
        """Enter the handling of an inference request: `stop` waits for it to end, and its status is counted.

        Raises Refused if there is no such model or the server is stopping. Any other error inside becomes Refused with 500.
        """
        status = 200
        self._active += 1
        self._idle.clear()
        try:
            model = self.model(name, version)
            if not self.ready:
                raise Refused(503, "the server ends, and takes nothing new")
            yield model
        except Refused as error:
            status = error.status
            raise
        except Exception as error:
            status = 500
            raise Refused(500, f"{name}: {type(error).__name__}: {error}") from error
        except asyncio.CancelledError:
            status = 499  # the client has left
            raise
        finally:
            self._active -= 1
            if not self._active:
                self._idle.set()
            self.metrics.count_answer(name if name in self._batchers else "", status)

    async def infer(self, model: ServedModel, feeds: Feeds, outputs: Sequence[str]) -> dict[str, Array]:
        """Run a model and return the outputs by name, or all of them if `outputs` is empty. Raises Refused."""
        model.check(feeds, outputs, self.limits)
        results = await self._batchers[model.name].infer(feeds)
        return {output: results[output] for output in outputs or results}
