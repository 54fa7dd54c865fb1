"""Memory that partitions on a device may take over: inputs that nobody reads afterwards (see `TakesDonations`)."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from ort_lite.dtypes import Array
from ort_lite.errors import ProviderError
from ort_lite.execute.results import MemberCall, Wrapper
from ort_lite.provider.abilities import computes_into_memory, declares_aliases, replays, takes_donations
from ort_lite.provider.ask import format_answer
from ort_lite.provider.current import CURRENT
from ort_lite.provider.provider import CompiledPartition, Partition


class Donations:
    """The inputs of one run that may be donated.

    `allowed` has the name of the only output that may be computed in an input's memory; None allows any use of it. `taken` are
    the inputs that the run donates: when it has begun, their contents are undefined. `growing` are inputs that are expected to grow,
    and `bases` the arrays with room for more rows whose beginnings such inputs are: the run adds those that are missing or full.
    """

    __slots__ = ("allowed", "bases", "growing", "taken")

    def __init__(
        self,
        allowed: Mapping[str, str | None],
        growing: Collection[str] = (),
        bases: dict[str, Array] | None = None,
    ) -> None:
        self.allowed, self.growing, self.bases = allowed, growing, bases or {}
        self.taken: frozenset[str] = frozenset()


def with_members(function: CompiledPartition) -> CompiledPartition:
    """Return the innermost function behind the guards, which takes inputs or a MemberCall."""

    def call(given: Any, *state: Any) -> Sequence[Any]:
        results: Sequence[Any] = given.function(given.inputs, *state) if type(given) is MemberCall else function(given, *state)
        return results

    return call


class Lending(Wrapper):
    """A guarded partition on a device that takes donations or replays. Its results are memory of its own.

    A partition with host values does not replay: a recorded call has the addresses of the device alone.
    """

    def __init__(self, function: CompiledPartition, partition: Partition, compiled: Any) -> None:
        self.function, self.partition, self.compiled = function, partition, compiled
        self.who = f"{partition.name} ({partition.provider.name})"
        self.donates, self.replays = takes_donations(compiled), replays(compiled) and not partition.host_values
        self.into_memory = computes_into_memory(compiled)
        self.aliases = _check_aliases(self.who, partition, compiled) if declares_aliases(compiled) else {}

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        return self.function(inputs)


def lending_of(function: CompiledPartition) -> Lending | None:
    """Return the partition of a step if it takes donations or replays."""
    while isinstance(function, Wrapper):
        if isinstance(function, Lending):
            return function
        function = function.function
    return None


class Donating(Wrapper):
    """A step that donates inputs. The Linker sets their `positions` once it knows all readers.

    A verified run donates nothing, since it compares the inputs after the call.
    """

    positions: frozenset[int] = frozenset()

    def __init__(self, function: CompiledPartition, lending: Lending) -> None:
        self.function, self.lending = function, lending

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        own = inputs[: len(self.lending.partition.inputs)]
        donated = frozenset[int]() if CURRENT.watch is not None else frozenset(k for k in self.positions if own[k] is not None)
        if donated:
            call: Any = MemberCall(partial(self._donate, donated), inputs)
            results = self.function(call)  # the guards pass it on to `with_members`
        else:
            results = self.function(inputs)
        self._check_memory(results, [x for k, x in enumerate(own) if k not in donated])
        return results

    def _donate(self, donated: frozenset[int], inputs: Sequence[Any], *state: Any) -> Sequence[Any]:
        own = inputs[: len(self.lending.partition.inputs)]
        results: Sequence[Any] = self.lending.compiled.call_donating(own, donated, *state)
        return results

    def _check_memory(self, results: Sequence[Any], kept: Sequence[Any]) -> None:
        """Raise ProviderError if a result is an input that was not donated, or another result."""
        seen = {id(x) for x in kept if x is not None}
        for value, result in zip(self.lending.partition.outputs, results, strict=False):
            if id(result) in seen:
                raise ProviderError(
                    f"{self.lending.who} returned for {value.name!r} one of its inputs, or another output; a partition that "
                    "takes donations returns values with memory of their own"
                )
            if result is not None:
                seen.add(id(result))


def _check_aliases(who: str, partition: Partition, compiled: Any) -> dict[int, int]:
    """Return the aliases of a partition. Raises ProviderError if they are not positions, or if two outputs have one input."""
    found: Any = compiled.aliases
    pairs = list(found.items()) if isinstance(found, Mapping) else [(None, None)]
    within = all(_is_position(y, partition.outputs) and _is_position(x, partition.inputs) for y, x in pairs)
    if not within or len({x for _, x in pairs}) < len(pairs):
        wanted = "expected positions of inputs, each once, by positions of outputs"
        raise ProviderError(f"{who}: aliases is {format_answer(found)}; {wanted}")
    return dict(pairs)


def _is_position(x: Any, values: Sequence[Any]) -> bool:
    return type(x) is int and 0 <= x < len(values)
