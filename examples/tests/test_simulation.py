"""`examples/scale_simulation.py`: what is known of queues without simulating them."""

import pytest

from examples import scale_simulation
from examples.scale_simulation import Death, Load, Service, simulate

ONE = Service(base=0.001, per_row=0, workers=1, cores=1, queue=10**9)
SERVER = Service(base=0.001, per_row=0.002, spread=0.2, protocol=0.0005, after=0.0001)


@pytest.mark.parametrize("busy", [0.3, 0.5, 0.7])
def test_the_mean_wait_of_random_arrivals_at_one_server(busy: float) -> None:
    """M/D/1, by Pollaczek and Khinchine."""
    found = simulate(ONE, Load(40, rate=busy / ONE.base))
    wait = sum(found.latencies) / len(found.latencies) - ONE.base
    assert wait == pytest.approx(busy * ONE.base / (2 * (1 - busy)), rel=0.05)


@pytest.mark.parametrize("load", [Load(8, connections=7), Load(8, rate=500)], ids=["closed", "open"])
def test_littles_law(load: Load) -> None:
    """`inside` is an integral over time, latencies are differences of times."""
    found = simulate(SERVER, load, replicas=2)
    mean = sum(found.latencies) / len(found.latencies)
    assert found.inside == pytest.approx(found.throughput * mean, rel=0.01)


@pytest.mark.parametrize("connections", [1, 2, 3, 8])
@pytest.mark.parametrize("workers", [1, 2])
def test_the_bounds_of_a_closed_loop(connections: int, workers: int) -> None:
    """N connections get at most N answers in a request's time alone, and at most what workers, loop and cores can do; many get that."""
    service = SERVER.replace(spread=0.0, workers=workers, cores=8)
    found = simulate(service, Load(5, connections))
    run, loop = service.base + service.per_row, service.protocol + service.after
    bound = min(connections / (run + service.protocol), workers / run, 1 / loop)
    assert 0.8 * bound < found.throughput <= 1.001 * bound
    if connections == 8:
        assert found.throughput == pytest.approx(bound, rel=0.01)


def test_cores_are_a_bound_too() -> None:
    load = Load(5, 8, client=0.0004)
    service = SERVER.replace(spread=0.0, workers=2, cores=2)
    each = service.base + service.per_row + service.protocol + service.after + load.client
    assert simulate(service, load).throughput == pytest.approx(service.cores / each, rel=0.01)


def test_full_batches_share_what_a_run_costs() -> None:
    service = SERVER.replace(base=0.01, spread=0.0, workers=1, max_batch=8, cores=4)
    found = simulate(service, Load(5, 16))
    assert len(found.latencies) / found.runs == pytest.approx(8, rel=0.02)
    assert found.throughput == pytest.approx(8 / (service.base + 8 * service.per_row), rel=0.02)


def test_a_request_that_comes_alone_waits_for_others() -> None:
    service = SERVER.replace(spread=0.0, after=0.0, max_batch=8, max_wait=0.02)
    alone = service.base + service.per_row + service.protocol
    assert simulate(service, Load(2, 1)).percentile(50) == pytest.approx(alone + service.max_wait, abs=1e-9)


@pytest.mark.parametrize("retries", [0, 1, 3])
@pytest.mark.parametrize("replicas", [1, 3])
def test_nothing_is_lost_when_a_replica_dies_but_what_is_counted(retries: int, replicas: int) -> None:
    deaths = [Death(1, 0, 0.5), Death(1.7, replicas - 1, 0.5)]
    found = simulate(SERVER, Load(4, rate=300 * replicas, retries=retries), replicas, deaths)
    assert found.sent == sum(found.ends.values()) + found.unfinished
    assert found.ends["answered"] == len(found.latencies)
    assert found.unfinished < 100
    assert (found.ends.get("lost", 0) > 0) == (retries == 0)
    assert (found.ends.get("refused", 0) > 0) == (replicas == 1)  # nobody is there
    assert (found.retried > 0) == (retries > 0 and replicas > 1)


def test_a_full_queue_refuses() -> None:
    found = simulate(SERVER.replace(queue=4), Load(5, rate=1000))
    assert found.ends["refused"] > 0.3 * found.sent
    assert found.ends["answered"] > 0.3 * found.sent
    assert found.percentile(100) < 0.03


def test_the_same_seed_is_the_same_result() -> None:
    load, deaths = Load(2, rate=900), [Death(1)]
    one = simulate(SERVER, load, 2, deaths, seed=3)
    assert one == simulate(SERVER, load, 2, deaths, seed=3)
    assert one != simulate(SERVER, load, 2, deaths, seed=4)


def test_a_load_of_both_kinds_is_refused() -> None:
    with pytest.raises(ValueError, match=r"has 0 connections and a rate of 0\.0: give one of them"):
        simulate(SERVER, Load(1))


def test_it_prints_what_replicas_add(capsys: pytest.CaptureFixture[str]) -> None:
    scale_simulation.main()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    many = {int(replicas): int(throughput) for replicas, connections, throughput, *_ in lines if connections == "16"}
    assert many[2] == pytest.approx(2 * many[1], rel=0.02)
    assert many[4] == pytest.approx(4 * many[1], rel=0.02)
