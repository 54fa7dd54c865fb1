"""A session's policy if a provider fails: options that ort-lite removes from the provider's own.

    providers=[("MyExecutionProvider", {"device_id": 1, "required": True, "on_run_error": "next"})]

on_create_error   "raise" (default): the session is not made; "next": it does without the provider
on_compile_error  "next" (default): the nodes of that partition go to the next provider; "raise": the session is not made
on_run_error      "raise" (default): `run` raises; "next": the next provider runs the partition's nodes from the same inputs, also
                  where copying to or from the device fails
required          True: a provider that is not installed, has no device or is assigned no node is a ProviderError, whatever else is
                  said. A session with `strict=True` requires all listed providers but the CPU provider, and those that say False
limit_nodes, limit_bytes   the most that it is given: nodes; bytes of their constants and outputs

Of partitioning, in the words of TensorRT, TFLite and NNAPI; operators are named as in `explain()` ("com.microsoft.Gelu"):

min_subgraph_size, max_subgraph_size   the nodes of a partition, at least and at most: smaller ones go to the next provider, larger ones
                  become several
max_partitions    of a graph (the main one, each body): the largest are kept
partitioning_stop_ops   "TopK,NonMaxSuppression" or a list: these nodes and all behind them go to the next provider
cpu_preferred_nodes   True: nodes that compute shapes from results of Shape and Size go to the next provider

DequantizeLinear, an operator and QuantizeLinear of its results are kept, or lost, together. Nodes that nobody else runs stay where
`partitioning_stop_ops` and `cpu_preferred_nodes` would have taken them. What each option cost: `explain().controls()`.

Whatever goes to the next provider costs a warning and a line of `InferenceSession.explain()`.
"""

from collections.abc import Collection, Mapping
from operator import index
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.record import Record

RAISE, NEXT = "raise", "next"
_TRUTHS = {"1": True, "true": True, "0": False, "false": False}


class Policy(Record):
    """The options of one provider that ort-lite itself handles. A limit of None means no limit."""

    required: bool = False
    on_create_error: str = RAISE
    on_compile_error: str = NEXT
    on_run_error: str = RAISE
    limit_nodes: int | None = None
    limit_bytes: int | None = None
    min_subgraph_size: int | None = None
    max_subgraph_size: int | None = None
    max_partitions: int | None = None
    partitioning_stop_ops: tuple[str, ...] = ()
    cpu_preferred_nodes: bool = False

    @property
    def prefers_others(self) -> bool:
        """Return True if there may be nodes that the provider is not asked about."""
        return bool(self.partitioning_stop_ops or self.cpu_preferred_nodes)

    @property
    def shapes_partitions(self) -> bool:
        """Return True if an option limits the size or the number of partitions."""
        return any(limit is not None for limit in (self.min_subgraph_size, self.max_subgraph_size, self.max_partitions))


def split(options: Mapping[str, Any], provider: str, strict: bool = False) -> tuple[Policy, dict[str, Any]]:
    """Split a provider's options into ort-lite's Policy and the options of the provider. `strict` is the default of `required`.

    Values may be strings, as in onnxruntime. Raises InvalidArgument for an invalid value.
    """
    own = dict(options)
    found: dict[str, Any] = {"required": strict}
    for name in Policy.__match_args__:
        if name in own:
            found[name] = _value(name, own.pop(name), provider)
    return Policy(**found), own


def _value(name: str, value: Any, provider: str) -> Any:
    made: Any
    if name in ("required", "cpu_preferred_nodes"):
        made = _TRUTHS.get(str(value).lower())
        expected = "True or False"
    elif name.startswith("on_"):
        made = value if value in (RAISE, NEXT) else None
        expected = f"{RAISE!r} or {NEXT!r}"
    elif name == "partitioning_stop_ops":
        made = _names(value)
        expected = "names of operators"
    else:
        least = 1 if name.startswith("max_") else 0
        made = _number(value, least)
        expected = f"a number, {least} or more"
    if made is None:
        raise InvalidArgument(f"{provider}: option {name} is {value!r}; expected {expected}").about(
            provider=provider, expected=expected, got=repr(value)
        )
    return made


def _number(value: Any, least: int) -> int | None:
    try:
        number = index(value) if not isinstance(value, str) else int(value) if value.isascii() and value.isdecimal() else -1
    except (TypeError, ValueError):
        return None
    return number if number >= least else None


def _names(value: Any) -> tuple[str, ...] | None:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
        return None
    return tuple(filter(None, map(str.strip, names)))
