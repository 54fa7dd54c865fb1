"""Requests wait in a queue, are joined where they fit together, run once, and their answers taken apart."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_serve.limits import Batching, Limits, Refused
from ort_lite_serve.metrics import Metrics
from ort_lite_serve.model import Feeds, Model


class _Waiting:
    """A request: what it feeds, how many rows, until when somebody wants the answer."""

    __slots__ = ("answer", "feeds", "key", "rows", "until")

    def __init__(self, feeds: Feeds, joins: bool, until: float) -> None:
        self.feeds, self.until = feeds, until
        sizes = {array.shape[0] for array in feeds.values()} if joins else set()
        self.rows = sizes.pop() if len(sizes) == 1 else 0
        """0: it is run alone."""
        self.key = tuple((name, array.dtype, array.shape[1:]) for name, array in sorted(feeds.items())) if self.rows else None
        self.answer: asyncio.Future[dict[str, Array]] = asyncio.get_running_loop().create_future()


class Batcher:
    """Of one model. `start` and `stop` it in the event loop that calls `infer`."""

    def __init__(self, model: Model, batching: Batching, limits: Limits, metrics: Metrics) -> None:
        self.model, self.limits, self._batching, self._metrics = model, limits, batching, metrics
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue(limits.queue)
        self._held: _Waiting | None = None
        self._pool = ThreadPoolExecutor(batching.workers, thread_name_prefix=f"serve-{model.name}")
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._taking = asyncio.Lock()
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._batching.workers)]

    async def stop(self) -> None:
        """When all that waits is answered."""
        await self._queue.join()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pool.shutdown()

    async def infer(self, feeds: Feeds) -> dict[str, Array]:
        """Raises Refused: 503 where too many wait, 504 where it takes too long. Who cancels it is forgotten before it is run."""
        waiting = _Waiting(feeds, self.model.batches and self._batching.max_batch > 1, time.monotonic() + self.limits.seconds)
        try:
            self._queue.put_nowait(waiting)
        except asyncio.QueueFull:
            self._metrics.refused(self.model.name)
            raise Refused(503, f"{self.limits.queue} requests wait for {self.model.name} already; try again later") from None
        self._metrics.waiting(self.model.name, self._queue.qsize())
        return await waiting.answer

    async def _work(self) -> None:
        while True:
            async with self._taking:
                batch = await self._batch()
            try:
                await self._answer([one for one in batch if not one.answer.done()])
            finally:
                for _ in batch:
                    self._queue.task_done()

    async def _batch(self) -> list[_Waiting]:
        """The next request, and those behind it that it can be joined with."""
        first = self._held or await self._queue.get()
        self._held = None
        batch, rows = [first], first.rows
        until = time.monotonic() + self._batching.max_wait
        while first.rows and rows < self._batching.max_batch:
            other = await self._next(until)
            if other is None:
                break
            if other.key != first.key or rows + other.rows > self._batching.max_batch:
                self._held = other
                break
            batch.append(other)
            rows += other.rows
        return batch

    async def _next(self, until: float) -> _Waiting | None:
        if not self._queue.empty():
            return self._queue.get_nowait()
        left = until - time.monotonic()
        if left <= 0:
            return None
        try:
            return await asyncio.wait_for(self._queue.get(), left)
        except TimeoutError:
            return None

    async def _answer(self, batch: Sequence[_Waiting]) -> None:
        now = time.monotonic()
        for one in batch:
            if one.until <= now:
                late = Refused(504, f"the request waited for {self.model.name} longer than {self.limits.seconds:.3g} s")
                one.answer.set_exception(late)
        alive = [one for one in batch if not one.answer.done()]
        if not alive:
            return
        loop, begin = asyncio.get_running_loop(), time.monotonic()
        left = min(one.until for one in alive) - begin
        try:
            results: Any = await loop.run_in_executor(self._pool, self.model.run, joined(alive), left)
            parts = [results] if len(alive) == 1 else apart(results, [one.rows for one in alive])
        except Exception as error:  # noqa: BLE001  is the answer of each
            if len(alive) > 1 and not (isinstance(error, Refused) and error.status == 504):
                for one in alive:  # one of them may be the others' trouble
                    await self._answer([one])
                return
            parts = [error] * len(alive)
        self._metrics.ran(self.model.name, sum(max(one.rows, 1) for one in alive), len(alive), time.monotonic() - begin)
        for one, part in zip(alive, parts, strict=True):
            if one.answer.done():
                continue
            if isinstance(part, Exception):
                one.answer.set_exception(part)
            else:
                one.answer.set_result(part)


def joined(batch: Sequence[_Waiting]) -> Feeds:
    if len(batch) == 1:
        return batch[0].feeds
    return {name: np.concatenate([one.feeds[name] for one in batch]) for name in batch[0].feeds}


def apart(results: Feeds, rows: Sequence[int]) -> list[dict[str, Array]]:
    """Raises ValueError where an output has not a row for each of the inputs'."""
    edges = np.cumsum(rows)
    for name, array in results.items():
        if array.ndim == 0 or array.shape[0] != edges[-1]:
            raise ValueError(f"output {name!r} has shape {list(array.shape)}, expected {edges[-1]} rows")
    starts = [0, *edges[:-1].tolist()]
    pairs = list(zip(starts, edges.tolist(), strict=True))
    return [{name: array[start:stop] for name, array in results.items()} for start, stop in pairs]
