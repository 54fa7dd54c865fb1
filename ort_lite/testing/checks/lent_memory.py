"""Checks of compiled partitions that compute in memory which their caller lends: donated inputs, and outputs of a replay."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ort_lite.execute.device_memory import free_with
from ort_lite.provider.abilities import declares_aliases, has_state, releases_state, replays, takes_donations
from ort_lite.provider.provider import CPU, Partition
from ort_lite.testing.checks.handles import DeviceCalls, device_sessions, fed_partitions
from ort_lite.testing.checks.tries import call_for, format_exception
from ort_lite.testing.kit import Finding, Kit


def donations(kit: Kit) -> list[Finding]:
    """Check `call_donating`: it gives the results of a call, leaves other inputs alone, and keeps what it declares as aliases."""
    return _findings(kit, "donations", takes_donations, _Donations)


def replay(kit: Kit) -> list[Finding]:
    """Check `capture`: a replay computes the outputs of its capture from what the inputs then contain, and touches nothing else."""
    return _findings(kit, "replay", replays, _Replays)


def _findings(kit: Kit, check: str, able: Callable[[Any], bool], calls: "type[_LentCalls]") -> list[Finding]:
    found = []
    for name, session, feed in device_sessions(kit):
        for partition, compiled in fed_partitions(kit, session, feed):
            if able(compiled) and not (check == "replay" and partition.host_values):
                texts = call_for(partial(_problems, calls, partition, compiled, feed))
                texts = [format_exception(texts)] if isinstance(texts, Exception) else texts
                found += [Finding(check, name, text) for text in dict.fromkeys(texts)]
    return found


def _problems(calls: "type[_LentCalls]", partition: Partition, compiled: Any, feed: Mapping[str, Any]) -> list[str]:
    made = calls(partition, compiled)
    state = [compiled.create_state()] if has_state(compiled) else []
    try:
        return list(made.lent_problems(feed, state))
    finally:
        if releases_state(compiled):
            compiled.release_state(*state)


class _LentCalls(DeviceCalls):
    def lent_problems(self, feed: Mapping[str, Any], state: Sequence[Any]) -> Iterator[str]:
        """Yield the problems of calls with these inputs. Each check has its own calls."""
        raise NotImplementedError  # abstract: _Donations and _Replays define it

    def lend(self, arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the arrays on the device and their handles, which return to the allocator with the values."""
        provider = self._partition.provider
        inputs, memory = self.inside(arrays)
        allocator = provider.allocator()
        if allocator is not None:
            for value, handle in zip(inputs, memory, strict=True):
                if handle is not None:
                    free_with(value, allocator, handle, "the kit", provider.device)
        return inputs, memory

    def results(self, inputs: Sequence[Any], state: Sequence[Any]) -> list[Any]:
        return self.call(inputs, state[0] if state else None)


class _Donations(_LentCalls):
    def lent_problems(self, feed: Mapping[str, Any], state: Sequence[Any]) -> Iterator[str]:
        arrays, others = self.operands(feed)
        expected = self.read(self.results(self.lend(arrays)[0], state), self.host_outputs)
        every = [k for k, on_host in enumerate(self.host_inputs) if not on_host]
        for donated in (frozenset(every), *(frozenset([k]) for k in every)):
            yield from self._donate(donated, arrays, others, expected, state)
        aliases = dict(self._compiled.aliases) if declares_aliases(self._compiled) else {}
        for y, x in aliases.items():
            yield from self._alias(y, x, arrays, others, state)

    def _donate(
        self, donated: frozenset[int], arrays: Sequence[Any], others: Sequence[Any], expected: list[bytes], state: Sequence[Any]
    ) -> Iterator[str]:
        inputs, memory = self.lend(arrays)
        made = list(self._compiled.call_donating(inputs, donated, *state))
        kept = [k for k in range(len(arrays)) if k not in donated]
        if self.read(made, self.host_outputs) != expected:
            yield "call_donating gives another result than a call"
            return
        if self.read([inputs[k] for k in kept], [self.host_inputs[k] for k in kept]) != [arrays[k].tobytes() for k in kept]:
            yield "call_donating wrote to an input that was not donated"
        if any(y is inputs[k] for y in made for k in kept if not self.host_inputs[k]):
            yield "call_donating returned an input that was not donated"
        if len(set(map(id, made))) < len(made):
            yield "call_donating returned one value for two outputs"
        if _is_lent(memory):
            self.overwrite_memory([memory[k] for k in kept], [others[k] for k in kept])
        if self.read(made, self.host_outputs) != expected:
            yield "call_donating computed a result in the memory of an input that was not donated"
        inputs.clear()
        reused = [self.lend(others) for _ in range(2)]
        if self.read(made, self.host_outputs) != expected:
            yield "what call_donating returned lies in memory that a donated input gave back; it must keep the input alive"
        del reused

    def _alias(self, y: int, x: int, arrays: Sequence[Any], others: Sequence[Any], state: Sequence[Any]) -> Iterator[str]:
        """Check that output `y` is in the memory of input `x`: what is written there is what it contains."""
        inputs, memory = self.lend(arrays)
        made = self._compiled.call_donating(inputs, frozenset([x]), *state)
        if made[y] is inputs[x] or memory[x] is None:
            return
        self.overwrite_memory([memory[x]], [others[x]])
        if self.read([made[y]], [False]) != [others[x].tobytes()]:
            yield f"aliases says that output {y} is computed in the memory of input {x}, and it is not"


class _Replays(_LentCalls):
    def lent_problems(self, feed: Mapping[str, Any], state: Sequence[Any]) -> Iterator[str]:
        arrays, others = self.operands(feed)
        inputs, memory = self.lend(arrays)
        outputs = self.results(inputs, state)
        expected = self.read(outputs, self.host_outputs)
        differs = self.read(self.results(self.lend(others)[0], state), self.host_outputs)
        replay = self._compiled.capture(inputs, outputs, *state)
        if self.read(outputs, self.host_outputs) != expected:
            yield "capture gives another result than a call"
            return
        between = self.results(self.lend(arrays)[0], state)
        self._overwrite(inputs, memory, others)
        replay(inputs, outputs, *state)
        if self.read(outputs, self.host_outputs) != (differs if _is_lent(memory) or self._overwrites else expected):
            yield "a replay gives another result than a call"
        if self.read(between, self.host_outputs) != expected:
            yield "a replay changed what another call returned"
        if self.read(inputs, self.host_inputs) != [
            x.tobytes() for x in (others if _is_lent(memory) or self._overwrites else arrays)
        ]:
            yield "a replay wrote to an input"

    @property
    def _overwrites(self) -> bool:
        return hasattr(self._way, "overwrite")

    def _overwrite(self, inputs: Sequence[Any], memory: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Put other contents into the memory of the inputs."""
        if _is_lent(memory):
            self.overwrite_memory(memory, arrays)
        elif self._overwrites:
            for value, array in zip(inputs, arrays, strict=True):
                self._way.overwrite(array, CPU, self._device, value)


def _is_lent(memory: Sequence[Any]) -> bool:
    """Return True if values have handles of the provider's allocator."""
    return any(handle is not None for handle in memory)
