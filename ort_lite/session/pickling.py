"""Pickle a session: its source and arguments are transferred, and the session is recreated from them.

`copy.deepcopy` works the same way. Compiled code is not transferred: the other process finds it in the kernel cache, and reads
the weights of a model that came from a path.
"""

from collections.abc import Mapping
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.graph.model import Model
from ort_lite.load.source import ModelSource
from ort_lite.options.options import SessionOptions
from ort_lite.plugins.selection import ProviderEntry
from ort_lite.provider.ask import ask
from ort_lite.provider.provider import ExecutionProvider
from ort_lite.session.preparation import Arguments

Parts = tuple[type[Any], ModelSource | Model, SessionOptions, Arguments]


def parts(
    kind: type[Any],
    source: ModelSource | Model | None,
    options: SessionOptions,
    given: Arguments,
    own_params: bool,
) -> Parts:
    """Return the arguments of `recreate`. Raises InvalidArgument if the session cannot be rebuilt from what it kept."""
    if own_params:
        raise InvalidArgument(
            "the session has parameters that are not the model's file's: pickle one without, and load them there"
        )
    if source is None:
        raise InvalidArgument(
            "the session was made from a large buffer or file object that it has not kept; make it from a path to pickle it"
        )
    entries = None if given.providers is None else [_entry(each) for each in given.providers]
    return kind, source, options.copy(), given.replace(providers=entries)


def recreate(kind: type[Any], source: ModelSource | Model, options: SessionOptions, given: Arguments) -> Any:
    """Create the session again. Raises the errors of session creation."""
    return kind(
        source,
        options,
        given.providers,
        given.provider_options,
        parse_options=given.parse_options,
        placement_rules=given.placement_rules,
        partitioning=given.partitioning,
        verify=given.verify,
    )


def _entry(entry: ProviderEntry) -> ProviderEntry:
    """Replace a provider instance, which cannot leave its process, by its class and options."""
    provider, own = entry if isinstance(entry, tuple) else (entry, None)
    if not isinstance(provider, ExecutionProvider):
        return entry
    options: Mapping[str, Any] = {**ask(provider, "get_options"), **(own or {})}
    return type(provider), options


made_again = recreate
"""The name in pickles of earlier releases."""
