"""A server and its replicas under load, simulated: what many machines would answer, from what a request costs on one.

    python examples/scale_simulation.py

A discrete-event model of ort-lite-serve with simpy: connections or random arrivals, an event loop that reads and answers one
request at a time, a queue, batches, runs on cores that all of these share, replicas that die. Its clock is its own: an hour may
pass in a minute. Times are seconds; the same seed gives the same result. scale_simulation.ipynb compares it with a load test.
"""

import math
import random
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy

from ort_lite.record import Record

Steps = Generator[Any, Any, Any]
"""A process: it gives simpy what it waits for, and goes on when that has happened."""
QUANTUM = 0.001
"""So long a thread keeps a core that others wait for."""


class Service(Record):
    """A replica. A run of n requests takes a core for `base + n * per_row`, times exp(normal(0, spread)).

    The event loop works `protocol` for a request, half of it before the run, and `after` when the answer is on its way.
    """

    base: float
    per_row: float
    spread: float = 0.0
    protocol: float = 0.0
    after: float = 0.0
    workers: int = 2
    max_batch: int = 1
    max_wait: float = 0.0
    queue: int = 256
    cores: int = 2


class Load(Record):
    """So many `connections`, each with a new request after its answer, or random arrivals, `rate` a second.

    Clients that share the first replica's cores, as in a load test on one machine, are one process under a GIL that works `client` for
    a request. A connection that got no answer comes again after `pause`; a request whose replica dies tries `retries` others.
    """

    seconds: float
    connections: int = 0
    rate: float = 0.0
    client: float = 0.0
    pause: float = 0.1
    retries: int = 3


class Death(Record):
    """Replica `index` dies with all that is in it, and `start` later another is in its place."""

    at: float
    index: int = 0
    start: float = 1.0


class Outcome(Record):
    """`latencies` of what was answered, sorted. `ends` counts what was "answered", "refused" (a full queue, or no replica) and
    "lost" (its replica died, and there were no retries left). `inside` is how many requests were under way, on average.
    """

    seconds: float
    sent: int
    latencies: tuple[float, ...]
    ends: dict[str, int]
    retried: int
    runs: int
    inside: float
    unfinished: int

    @property
    def throughput(self) -> float:
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """NaN where nothing was answered."""
        return float(np.percentile(self.latencies, share)) if self.latencies else math.nan


class Cores:
    def __init__(self, env: simpy.Environment, count: int) -> None:
        self.env, self.free = env, simpy.PreemptiveResource(env, count)

    def busy(self, seconds: float, priority: int = 1) -> Steps:
        """So many seconds of a core, in turns with others; the lower priority goes first, and takes a core at once."""
        while seconds > 1e-12:
            part = min(QUANTUM, seconds)
            with self.free.request(priority) as core:
                try:
                    yield core
                    yield self.env.timeout(part)
                except simpy.Interrupt as taken:
                    part = self.env.now - taken.cause.usage_since
            seconds -= part

    def alone(self, lock: simpy.Resource, seconds: float) -> Steps:
        """The same for what does one thing at a time: an event loop, threads under a GIL. They go first, as threads do that slept."""
        if seconds > 0:
            with lock.request() as turn:
                yield turn
                yield from self.busy(seconds, priority=0)


class Replica:
    """When it is `gone`, its processes go on, and nobody hears of them."""

    def __init__(self, env: simpy.Environment, service: Service, chance: random.Random) -> None:
        self.env, self.service, self.chance = env, service, chance
        self.cores, self.loop = Cores(env, service.cores), simpy.Resource(env, 1)
        self.queue, self.taking, self.gone = simpy.Store(env), simpy.Resource(env, 1), env.event()
        self.inside = self.runs = 0
        for _ in range(service.workers):
            env.process(self.work())

    def infer(self) -> Steps:
        """How a request ends."""
        yield from self.cores.alone(self.loop, self.service.protocol / 2)
        if len(self.queue.items) >= self.service.queue:
            return "refused"
        answered = self.env.event()
        self.queue.put(answered)
        yield answered
        yield from self.cores.alone(self.loop, self.service.protocol / 2)
        self.env.process(self.cores.alone(self.loop, self.service.after))
        return "answered"

    def work(self) -> Steps:
        while True:
            with self.taking.request() as turn:
                yield turn
                batch = yield from self.batch()
            spread = math.exp(self.chance.gauss(0, self.service.spread)) if self.service.spread else 1
            yield from self.cores.busy((self.service.base + len(batch) * self.service.per_row) * spread)
            self.runs += not self.gone.triggered
            for answered in batch:
                answered.succeed()

    def batch(self) -> Steps:
        """The next request, and those that wait behind it or come within `max_wait`."""
        found = [(yield self.queue.get())]
        over = self.env.timeout(self.service.max_wait)
        while len(found) < self.service.max_batch:
            other = self.queue.get()
            if not other.triggered:
                yield other | over
            if not other.triggered:
                other.cancel()
                break
            found.append(other.value)
        return found


class World:
    """Replicas, those that are there by index, and who asks them."""

    def __init__(self, service: Service, load: Load, replicas: int, seed: int) -> None:
        self.env, self.service, self.load, self.chance = simpy.Environment(), service, load, random.Random(seed)
        self.made: list[Replica] = []
        self.there = {index: self.start() for index in range(replicas)}
        self.clients = simpy.Resource(self.env, 1)
        self.latencies: list[float] = []
        self.ends: Counter[str] = Counter()
        self.sent = self.retried = self.inside = 0
        self.area = self.since = 0.0

    def start(self) -> Replica:
        self.made.append(Replica(self.env, self.service, self.chance))
        return self.made[-1]

    def change(self, by: int) -> None:
        """So many requests more are under way; `area` is their number times the time."""
        self.area += self.inside * (self.env.now - self.since)
        self.since = self.env.now
        self.inside += by

    def connection(self) -> Steps:
        while True:
            if (yield from self.request()) != "answered":
                yield self.env.timeout(self.load.pause)

    def arrivals(self) -> Steps:
        while True:
            yield self.env.timeout(self.chance.expovariate(self.load.rate))
            self.env.process(self.request())

    def request(self) -> Steps:
        begin = self.env.now
        self.sent += 1
        self.change(1)
        yield from self.made[0].cores.alone(self.clients, self.load.client)
        end = yield from self.ask()
        self.ends[end] += 1
        self.change(-1)
        if end == "answered":
            self.latencies.append(self.env.now - begin)
        return end

    def ask(self) -> Steps:
        """Whoever has the fewest requests, and another one where that dies."""
        for attempt in range(1 + self.load.retries):
            if not self.there:
                return "refused"
            self.retried += attempt > 0
            chosen = min(self.there.values(), key=lambda replica: replica.inside)
            chosen.inside += 1
            end = self.env.process(chosen.infer())
            yield end | chosen.gone
            chosen.inside -= 1
            if not chosen.gone.triggered:
                return end.value
        return "lost"

    def death(self, death: Death) -> Steps:
        yield self.env.timeout(death.at)
        if dying := self.there.pop(death.index, None):
            dying.gone.succeed()
            yield self.env.timeout(death.start)
            self.there[death.index] = self.start()


def simulate(service: Service, load: Load, replicas: int = 1, deaths: Sequence[Death] = (), seed: int = 0) -> Outcome:
    """Raises ValueError where a load has both connections and a rate, or neither."""
    if (load.connections > 0) == (load.rate > 0):
        raise ValueError(f"the load has {load.connections} connections and a rate of {load.rate}: give one of them")
    world = World(service, load, replicas, seed)
    for steps in [*(world.connection() for _ in range(load.connections)), *map(world.death, deaths)]:
        world.env.process(steps)
    if load.rate:
        world.env.process(world.arrivals())
    world.env.run(until=load.seconds)
    world.change(0)
    runs, latencies = sum(replica.runs for replica in world.made), tuple(sorted(world.latencies))
    return Outcome(
        load.seconds,
        world.sent,
        latencies,
        dict(world.ends),
        world.retried,
        runs,
        world.area / load.seconds,
        world.inside,
    )


def table(columns: str, rows: Sequence[Sequence[object]]) -> str:
    """Two spaces separate columns, in their titles too."""
    lines = [columns.split("  "), *([str(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.rjust, line, widths)) for line in lines)


def main() -> None:
    service = Service(base=0, per_row=0.0025, spread=0.05, protocol=0.0007)
    rows = []
    for replicas in (1, 2, 4):
        for connections in (1, 4, 16):
            found = simulate(service, Load(2, connections), replicas)
            rows.append(
                (replicas, connections, f"{found.throughput:.0f}", *(f"{1e3 * found.percentile(p):.1f}" for p in (50, 99)))
            )
    print(table("replicas  connections  requests a second  p50, ms  p99, ms", rows))


if __name__ == "__main__":
    main()
