"""Dynamic batching: requests wait in a queue, are joined if they fit together, run once in a thread, and get their rows."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_serve.limits import Batching, Limits, Refused
from ort_lite_serve.metrics import Metrics
from ort_lite_serve.model import Feeds, ServedModel

Answer = dict[str, Array]


class Waiting:
    """A waiting request: its feeds, its number of rows and its deadline, in seconds of `time.monotonic`.

    `answer` is done before the request runs if nobody wants it any more: the client left, or the deadline has passed.
    """

    __slots__ = ("answer", "feeds", "key", "rows", "until")

    def __init__(self, feeds: Feeds, joins: bool, until: float) -> None:
        self.feeds, self.until = feeds, until
        sizes = {array.shape[0] for array in feeds.values()} if joins else set()
        self.rows = sizes.pop() if len(sizes) == 1 else 0
        """The number of rows; 0 if the request runs alone."""
        self.key = tuple((name, array.dtype, array.shape[1:]) for name, array in sorted(feeds.items()))
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()


class Batcher:
    """The queue and the workers of one model. Call `start` and `stop` in the event loop that calls `infer`."""

    def __init__(self, model: ServedModel, batching: Batching, limits: Limits, metrics: Metrics) -> None:
        self.model, self._limits, self._batching, self._metrics = model, limits, batching, metrics
        self._queue: asyncio.Queue[Waiting] = asyncio.Queue(limits.queue)
        self._held: Waiting | None = None
        """The first request of the next batch, taken from the queue but not compatible with the batch before it."""
        self._taking = asyncio.Lock()
        self._pool = ThreadPoolExecutor(batching.workers, thread_name_prefix=f"serve-{model.name}")
        self._tasks: list[asyncio.Task[None]] = []
        metrics.watch(model.name, self._queue.qsize)

    def start(self) -> None:
        """Start the tasks that form batches."""
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._batching.workers)]

    async def stop(self) -> None:
        """Wait until every waiting request is answered, then stop."""
        await self._queue.join()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pool.shutdown()

    @property
    def works(self) -> bool:
        """True while all tasks run."""
        return not any(task.done() for task in self._tasks)

    async def infer(self, feeds: Feeds) -> Answer:
        """Queue a request and return its outputs. A request that is cancelled before it runs is dropped.

        Raises Refused: 503 if the queue is full, 504 if the answer takes too long.
        """
        seconds, name = self._limits.seconds, self.model.name
        waiting = Waiting(feeds, self.model.joins and self._batching.max_batch > 1, time.monotonic() + seconds)
        try:
            self._queue.put_nowait(waiting)
        except asyncio.QueueFull:
            raise Refused(503, f"{self._limits.queue} requests wait for {name} already; try again later") from None
        try:
            async with asyncio.timeout(seconds):
                return await waiting.answer
        except TimeoutError:
            raise Refused(504, f"{name} took longer than {seconds:.3g} s") from None

    async def _work(self) -> None:
        while True:
            async with self._taking:
                batch = await self._batch()
            try:
                await self._answer([one for one in batch if not one.answer.done()])
            finally:
                for _ in batch:
                    self._queue.task_done()

    async def _batch(self) -> list[Waiting]:
        """Return the next request together with those behind it that can be joined with it."""
        first = self._held or await self._queue.get()
        self._held = None
        batch, rows, most = [first], first.rows, self._batching.max_batch
        until = time.monotonic() + self._batching.max_wait
        while first.rows and rows < most and (other := await self._next(until)):
            if other.key != first.key or not other.rows or rows + other.rows > most:
                self._held = other
                break
            batch.append(other)
            rows += other.rows
        return batch

    async def _next(self, until: float) -> Waiting | None:
        if not self._queue.empty():
            return self._queue.get_nowait()
        if (left := until - time.monotonic()) <= 0:
            return None
        try:
            return await asyncio.wait_for(self._queue.get(), left)
        except TimeoutError:
            return None

    async def _answer(self, batch: Sequence[Waiting]) -> None:
        """Run a batch and set the answers of its requests, or the error."""
        if not batch:
            return
        begin = time.monotonic()
        left = max(one.until for one in batch) - begin  # `infer` enforces earlier deadlines
        try:
            parts = await asyncio.get_running_loop().run_in_executor(self._pool, self._run, batch, max(left, 0.001))
        except Exception as error:  # noqa: BLE001  is the answer
            if len(batch) == 1:
                _set(batch[0], error)
                return
            for one in batch:  # one invalid request must not fail the others
                await self._answer([one] if not one.answer.done() else [])
            return
        self._metrics.count_run(self.model.name, sum(max(one.rows, 1) for one in batch), len(batch), time.monotonic() - begin)
        for one, part in zip(batch, parts, strict=True):
            _set(one, part)

    def _run(self, batch: Sequence[Waiting], seconds: float) -> list[Answer]:
        """Run a batch. Called in a thread of the pool."""
        if len(batch) == 1:
            return [self.model.run(batch[0].feeds, seconds)]
        joined = {name: np.concatenate([one.feeds[name] for one in batch]) for name in batch[0].feeds}
        return apart(self.model.run(joined, seconds), [one.rows for one in batch])


def _set(one: Waiting, answer: Answer | Exception) -> None:
    if one.answer.done():
        return
    if isinstance(answer, Exception):
        one.answer.set_exception(answer)
    else:
        one.answer.set_result(answer)


def apart(results: Answer, rows: Sequence[int]) -> list[Answer]:
    """Split outputs into the rows of each request.

    Raises ValueError if an output does not have as many rows as the inputs together.
    """
    edges = [0, *np.cumsum(rows).tolist()]
    for name, array in results.items():
        if array.ndim == 0 or array.shape[0] != edges[-1]:
            raise ValueError(f"output {name!r} has shape {[*array.shape]}, expected {edges[-1]} rows")
    return [{name: array[start:stop] for name, array in results.items()} for start, stop in pairwise(edges)]
