"""What a session does when a provider fails: options that the framework takes out of the provider's own.

    providers=[("MyExecutionProvider", {"device_id": 1, "required": True, "on_run_error": "next"})]

on_create_error   "raise" (default): the session is not made; "next": it does without the provider
on_compile_error  "next" (default): the nodes of that partition go to the next provider; "raise": the session is not made
on_run_error      "raise" (default): `run` raises; "next": the next provider runs the partition's nodes from the same inputs, also
                  where copying to or from the device fails
required          True: a provider that is not installed or has no device is an error, whatever else is said
limit_nodes, limit_bytes   the most that it is given: nodes; bytes of their constants and outputs

Whatever goes to the next provider costs a warning and a line of `InferenceSession.explain()`.
"""

from collections.abc import Mapping
from operator import index
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.record import Record

RAISE, NEXT = "raise", "next"
_TRUTHS = {"1": True, "true": True, "0": False, "false": False}


class Policy(Record):
    """The framework's options of one provider in a session. A limit of None is none."""

    required: bool = False
    on_create_error: str = RAISE
    on_compile_error: str = NEXT
    on_run_error: str = RAISE
    limit_nodes: int | None = None
    limit_bytes: int | None = None


def split(options: Mapping[str, Any], provider: str) -> tuple[Policy, dict[str, Any]]:
    """The Policy in a provider's options, and the options that are its own.

    Raises InvalidArgument for a value that is none of those above. Option values may be text, as onnxruntime's are.
    """
    own = dict(options)
    found: dict[str, Any] = {}
    for name in Policy.__match_args__:
        if name in own:
            found[name] = _value(name, own.pop(name), provider)
    return Policy(**found), own


def _value(name: str, value: Any, provider: str) -> Any:
    made: Any
    if name == "required":
        made = _TRUTHS.get(str(value).lower())
        expected = "True or False"
    elif name.startswith("on_"):
        made = value if value in (RAISE, NEXT) else None
        expected = f"{RAISE!r} or {NEXT!r}"
    else:
        made = _number(value)
        expected = "a number, 0 or more"
    if made is None:
        raise InvalidArgument(f"{provider}: option {name} is {value!r}; expected {expected}")
    return made


def _number(value: Any) -> int | None:
    try:
        number = int(value) if isinstance(value, str) else index(value)
    except (TypeError, ValueError):
        return None
    return number if number >= 0 else None
