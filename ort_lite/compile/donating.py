"""Chooses the inputs that partitions get donated: values with memory of their own that no other step reads."""

from collections import Counter
from collections.abc import Mapping, Sequence

from ort_lite.execute.donation import Donating
from ort_lite.execute.execute import Step
from ort_lite.graph.graph import Value
from ort_lite.provider.provider import ExecutionProvider


def choose_donations(
    steps: Sequence[Step],
    donating: Mapping[int, Donating],
    fresh: Mapping[int, ExecutionProvider | None],
    given: Mapping[int, tuple[Value, Value | None]],
) -> frozenset[Value]:
    """Set the positions of all `donating`, by their place in the steps, and return the inputs of the run among what they donate.

    `fresh` has the slots of values that are made in the run, with the provider whose partition makes them, or None for a copy.
    `given` has the slots of inputs that may be donated, with the only output that may be computed there, or None. A step that
    reads the value earlier counts as well: a parallel run may have another order, and a device may still read. A partition whose
    outputs get memory from an allocator has only the inputs of its aliases donated.
    """
    reads = Counter(slot for step in steps for slot in step.inputs)
    taken = set[Value]()
    for place, one in donating.items():
        step, partition = steps[place], one.lending.partition
        aliased = {x: partition.outputs[y] for y, x in one.lending.aliases.items()}
        found = set[int]()
        for k, slot in enumerate(step.inputs[: len(partition.inputs)]):
            if reads[slot] > 1 or slot not in step.dead or (one.lending.into_memory and k not in aliased):
                continue
            if partition.inputs[k] in partition.host_values:
                continue
            if slot in given:
                value, only = given[slot]
                if only is None or aliased.get(k) is only:
                    found.add(k)
                    taken.add(value)
            elif slot in fresh and fresh[slot] in (None, partition.provider):
                found.add(k)
        one.positions = frozenset(found)
    return frozenset(taken)
