"""A server and its replicas under load, simulated: what many machines would answer, from what one request costs on one.

    python examples/scale_simulation.py

A discrete-event model with simpy of ort-lite-serve: connections or random arrivals, an event loop that reads and answers one request
at a time, a queue, batches, runs on cores that all of these share, replicas that die. Its clock is not ours: an hour may pass
in a second. Times are seconds; the same seed gives the same result. scale_simulation.ipynb compares it with a load test.
"""

import math
import random
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy

from ort_lite.record import Record

Steps = Generator[Any, Any, Any]
"""A process: it gives simpy what it waits for, and goes on when that has happened."""


class Service(Record):
    """What one replica is. A run of n rows takes `base + n * per_row` of a core, times exp(normal(0, spread)); each request is a row."""

    base: float
    per_row: float
    spread: float = 0.0
    protocol: float = 0.0
    """Of the event loop for each request, half of it before the run."""
    network: float = 0.0
    """Of nobody's core: until a request is there, its answer back, and threads awake."""
    workers: int = 2
    max_batch: int = 1
    max_wait: float = 0.0
    queue: int = 256
    cores: int = 2
    slice: float = 0.001
    """So long a thread keeps a core that others wait for."""


class Load(Record):
    """Either so many `connections`, each with its next request after its answer, or random arrivals at a `rate` a second."""

    seconds: float
    connections: int = 0
    rate: float = 0.0
    client: float = 0.0
    """Of one process of clients, on the cores of the first replica, for each request: a load test on one machine."""
    pause: float = 0.1
    """Of a connection that was refused."""
    retries: int = 3
    """Of a request whose replica dies, by another."""


class Death(Record):
    """Replica `index` dies at a time with all that is in it, and another takes its place after `start`."""

    at: float
    index: int = 0
    start: float = 1.0


class Outcome(Record):
    """`latencies` of what was answered, sorted, retries and all. What was sent was answered, refused, lost, or is `unfinished`."""

    seconds: float
    sent: int
    latencies: tuple[float, ...]
    refused: int
    lost: int
    retried: int
    runs: int
    inside: float
    """Requests that were sent and had no end yet, on average over the time."""

    @property
    def unfinished(self) -> int:
        return self.sent - len(self.latencies) - self.refused - self.lost

    @property
    def throughput(self) -> float:
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """NaN where nothing was answered."""
        return float(np.percentile(self.latencies, share)) if self.latencies else math.nan


class Counts:
    def __init__(self) -> None:
        self.sent = self.refused = self.lost = self.retried = self.runs = self.inside = 0
        self.latencies: list[float] = []
        self.area = self.since = 0.0

    def change(self, now: float, by: int) -> None:
        """So many requests more are inside; `area` is their number times the time."""
        self.area += self.inside * (now - self.since)
        self.since = now
        self.inside += by


class Replica:
    """Whoever is in a dead one is told by `gone`. Its processes go on, and nobody hears of them."""

    def __init__(self, env: simpy.Environment, service: Service, chance: random.Random, counts: Counts) -> None:
        self.env, self.service, self.chance, self.counts = env, service, chance, counts
        self.cores, self.loop = simpy.Resource(env, service.cores), simpy.Resource(env, 1)
        self.queue, self.taking = simpy.Store(env), simpy.Resource(env, 1)
        self.gone = env.event()
        self.inside = 0
        for _ in range(service.workers):
            env.process(self.work())

    def infer(self) -> Steps:
        """A request, until it is answered: whether it was taken."""
        yield from alone(self.loop, self.cores, self.service.protocol / 2, self.service.slice)
        if len(self.queue.items) >= self.service.queue:
            return False
        answered = self.env.event()
        self.queue.put(answered)
        yield answered
        yield from alone(self.loop, self.cores, self.service.protocol / 2, self.service.slice)
        return True

    def work(self) -> Steps:
        while True:
            with self.taking.request() as turn:
                yield turn
                batch = yield from self.batch()
            seconds = self.service.base + len(batch) * self.service.per_row
            seconds *= math.exp(self.chance.gauss(0, self.service.spread)) if self.service.spread else 1
            yield from busy(self.cores, seconds, self.service.slice)
            self.counts.runs += not self.gone.triggered
            for answered in batch:
                answered.succeed()

    def batch(self) -> Steps:
        """The next request, and those that come within `max_wait` of when it was taken."""
        found = [(yield self.queue.get())]
        over = self.env.timeout(self.service.max_wait) if self.service.max_batch > 1 else None
        while len(found) < self.service.max_batch:
            other = self.queue.get()
            if not other.triggered:
                yield other | over
            if not other.triggered:
                other.cancel()
                break
            found.append(other.value)
        return found


def busy(cores: simpy.Resource, seconds: float, slice: float) -> Steps:
    """So many seconds of a core, in turns with others."""
    while seconds > 0:
        with cores.request() as core:
            yield core
            part = min(slice, seconds)
            yield cores._env.timeout(part)
        seconds -= part


def alone(lock: simpy.Resource, cores: simpy.Resource, seconds: float, slice: float) -> Steps:
    """As `busy`, one at a time: an event loop, or the threads of clients under a GIL."""
    if seconds > 0:
        with lock.request() as turn:
            yield turn
            yield from busy(cores, seconds, slice)


class World:
    """Replicas, and clients that ask the one with the fewest requests inside."""

    def __init__(self, service: Service, load: Load, replicas: int, seed: int) -> None:
        self.env, self.service, self.load = simpy.Environment(), service, load
        self.chance, self.counts = random.Random(seed), Counts()
        self.replicas: list[Replica | None] = [self.made() for _ in range(replicas)]
        self.clients, self.client_cores = simpy.Resource(self.env, 1), simpy.Resource(self.env, service.cores)
        if self.replicas[0]:
            self.client_cores = self.replicas[0].cores

    def made(self) -> Replica:
        return Replica(self.env, self.service, self.chance, self.counts)

    def connection(self) -> Steps:
        while True:
            if not (yield from self.request()):
                yield self.env.timeout(self.load.pause)

    def arrivals(self) -> Steps:
        while True:
            yield self.env.timeout(self.chance.expovariate(self.load.rate))
            self.env.process(self.request())

    def request(self) -> Steps:
        """Whether it was answered."""
        counts, begin = self.counts, self.env.now
        counts.sent += 1
        counts.change(begin, 1)
        yield from alone(self.clients, self.client_cores, self.load.client, self.service.slice)
        answered = yield from self.ask()
        counts.change(self.env.now, -1)
        if answered:
            counts.latencies.append(self.env.now - begin)
        return answered

    def ask(self) -> Steps:
        """Whether it was answered; again where its replica dies meanwhile."""
        for attempt in range(1 + self.load.retries):
            there = [replica for replica in self.replicas if replica]
            if not there:
                break
            self.counts.retried += attempt > 0
            chosen = min(there, key=lambda replica: replica.inside)
            chosen.inside += 1
            yield self.env.timeout(self.service.network)
            answer = self.env.process(chosen.infer())
            yield answer | chosen.gone
            chosen.inside -= 1
            if answer.triggered and not chosen.gone.triggered:
                self.counts.refused += not answer.value
                return answer.value
        else:
            self.counts.lost += 1
            return False
        self.counts.refused += attempt == 0
        self.counts.lost += attempt > 0
        return False

    def death(self, death: Death) -> Steps:
        yield self.env.timeout(death.at)
        if dying := self.replicas[death.index]:
            self.replicas[death.index] = None
            dying.gone.succeed()
            yield self.env.timeout(death.start)
            self.replicas[death.index] = self.made()


def simulate(service: Service, load: Load, replicas: int = 1, deaths: Sequence[Death] = (), seed: int = 0) -> Outcome:
    """Raises ValueError where a load has both connections and a rate, or neither."""
    if (load.connections > 0) == (load.rate > 0):
        raise ValueError(f"the load has {load.connections} connections and a rate of {load.rate}: give one of them")
    world = World(service, load, replicas, seed)
    for _ in range(load.connections):
        world.env.process(world.connection())
    if load.rate:
        world.env.process(world.arrivals())
    for death in deaths:
        world.env.process(world.death(death))
    world.env.run(until=load.seconds)
    counts = world.counts
    counts.change(load.seconds, 0)
    return Outcome(
        load.seconds,
        counts.sent,
        tuple(sorted(counts.latencies)),
        counts.refused,
        counts.lost,
        counts.retried,
        counts.runs,
        counts.area / load.seconds,
    )


def main() -> None:
    service = Service(base=0.001, per_row=0.005, spread=0.1, protocol=0.0006)
    print("replicas  connections  requests a second  p50, ms  p99, ms")
    for replicas in (1, 2, 4):
        for connections in (1, 4, 16):
            found = simulate(service, Load(10, connections), replicas)
            p50, p99 = (1e3 * found.percentile(share) for share in (50, 99))
            print(f"{replicas:>8}  {connections:>11}  {found.throughput:>17.0f}  {p50:>7.2f}  {p99:>7.2f}")


if __name__ == "__main__":
    main()
