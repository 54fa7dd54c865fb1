"""The checks of the kit. Each takes a Kit and returns its findings; its docstring says what a provider must keep.

All checks use a provider through sessions, as users do, and compare it with the CPU provider.
"""

from collections.abc import Callable

from ort_lite.testing.checks.conduct import errors, inputs_untouched, instances, outputs_owned, statelessness, threads
from ort_lite.testing.checks.device_memories import memories
from ort_lite.testing.checks.events import events
from ort_lite.testing.checks.forks import forks
from ort_lite.testing.checks.generated_models import attributes, graphs, numbers, sizes
from ort_lite.testing.checks.handles import handles
from ort_lite.testing.checks.interrupted import interrupted
from ort_lite.testing.checks.lent_memory import donations, replay
from ort_lite.testing.checks.operator_results import claims, constants, groups, shapes
from ort_lite.testing.checks.provider_answers import capability, contract
from ort_lite.testing.checks.provider_memory import allocator, caches, release, transfer
from ort_lite.testing.checks.provider_settings import devices, settings
from ort_lite.testing.checks.saved import saved
from ort_lite.testing.kit import Finding, Kit

ALL: tuple[Callable[[Kit], list[Finding]], ...] = (
    contract,
    settings,
    capability,
    transfer,
    claims,
    constants,
    shapes,
    groups,
    attributes,
    numbers,
    graphs,
    sizes,
    inputs_untouched,
    outputs_owned,
    handles,
    donations,
    replay,
    events,
    statelessness,
    threads,
    forks,
    instances,
    devices,
    release,
    allocator,
    caches,
    memories,
    saved,
    errors,
    interrupted,
)
"""In the order in which they run: what an earlier one finds explains what later ones find."""
