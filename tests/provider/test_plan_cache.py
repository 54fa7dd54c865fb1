"""PlanCache: one compilation per key among threads, a limit, failures that are not cached, forks."""

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from ort_lite.errors import Cancelled, ProviderError
from ort_lite.options.options import RunOptions
from ort_lite.provider.current import as_in
from ort_lite.provider.plan_cache import PlanCache
from tests.threads import join, run_together


def test_a_plan_is_made_once_and_the_least_recently_used_is_forgotten() -> None:
    cache: PlanCache[object] = PlanCache(2)
    first, second = cache.get("a", object), cache.get("b", object)
    assert cache.get("a", object) is first
    cache.get("c", object)  # forgets b
    assert len(cache) == 2
    assert cache.get("a", object) is first
    assert cache.get("b", object) is not second
    assert cache.compilations == 4


def test_threads_that_need_one_plan_compile_it_once() -> None:
    cache: PlanCache[object] = PlanCache(4)
    plans: list[object] = []

    def slow() -> object:
        time.sleep(0.02)
        return object()

    run_together(lambda number: plans.append(cache.get(number % 2, slow)), 8)
    assert cache.compilations == len(set(plans)) == 2


def test_other_keys_are_served_while_a_plan_compiles() -> None:
    cache: PlanCache[str] = PlanCache(4)
    assert cache.get("a", lambda: cache.get("b", lambda: "inner") + " outer") == "inner outer"


def test_a_limit_of_zero_keeps_no_plan() -> None:
    cache: PlanCache[object] = PlanCache(0)
    assert cache.get("a", object) is not cache.get("a", object)
    assert len(cache) == 0


def test_a_plan_that_needs_itself_is_an_error() -> None:
    cache: PlanCache[str] = PlanCache(4)

    def recursive() -> str:
        return cache.get("a", recursive)

    with pytest.raises(ProviderError, match="compiling the plan for 'a' asked for that plan"):
        cache.get("a", recursive)
    assert cache.get("a", lambda: "made") == "made"


def during_a_compilation(cache: PlanCache[str], then: Callable[[], str], work: Callable[[], None]) -> None:
    """Run `work` in another thread while this one compiles "a", and end the compilation by `then` once it waits."""
    worker = threading.Thread(target=work, daemon=True)

    def make() -> str:
        worker.start()
        time.sleep(0.1)
        return then()

    try:
        cache.get("a", make)
    finally:
        join(worker)


def test_a_waiting_thread_compiles_itself_where_another_failed() -> None:
    cache: PlanCache[str] = PlanCache(4)
    plans: list[str] = []

    def fail() -> str:
        raise KeyError("no such kernel")

    with pytest.raises(KeyError, match="no such kernel"):
        during_a_compilation(cache, fail, lambda: plans.append(cache.get("a", lambda: "second")))
    assert plans == ["second"]


def test_a_waiting_run_can_be_cancelled() -> None:
    cache: PlanCache[str] = PlanCache(4)
    options = RunOptions()
    errors: list[Exception] = []

    def wait() -> None:
        with as_in(options, None):
            try:
                cache.get("a", lambda: "never")
            except Cancelled as error:
                errors.append(error)
                ended.set()

    def finish() -> str:
        options.terminate = True
        assert ended.wait(60)
        return "first"

    ended = threading.Event()
    during_a_compilation(cache, finish, wait)
    assert "while it waited for a plan that another thread compiles" in str(errors[0])
    assert cache.get("a", lambda: "third") == "first"


def test_memory_and_trim_are_hooks_of_a_partition() -> None:
    cache: PlanCache[bytes] = PlanCache(4, len)
    cache.get("a", lambda: b"four")
    cache.get("b", lambda: b"sixsix")
    assert cache.memory() == {"arrays": [], "plans": 2, "plan_bytes": 10}
    cache.trim()
    assert cache.memory() == {"arrays": [], "plans": 0, "plan_bytes": 0}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork exists on POSIX systems only")
def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    cache: PlanCache[str] = PlanCache(4)
    statuses: list[int] = []

    def fork() -> None:
        process = os.fork()
        if process == 0:
            signal.alarm(30)  # ends a child that waits
            os._exit(0 if cache.get("a", lambda: "child") == "child" else 1)
        statuses.append(os.waitpid(process, 0)[1])

    during_a_compilation(cache, lambda: "parent", fork)
    assert statuses == [0]
