"""Call a provider's hooks. Errors and invalid answers are reported with the names of provider and hook."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ort_lite.errors import (
    InvalidArgument,
    OrtLiteError,
    OutOfMemory,
    ProviderError,
    RunTerminated,
    RuntimeException,
    format_error,
)
from ort_lite.graph.graph import Value
from ort_lite.inference.shape_rules import RuleFamily, ShapeRule
from ort_lite.native.checkpoint import checkpoint
from ort_lite.provider.forks import check_process
from ort_lite.provider.hardware import Hardware
from ort_lite.provider.provider import Capability, Device, ExecutionProvider, Overhead, ProfileEvent, Rejection, Resource
from ort_lite.transform.contract import GraphPass, LocalRule

LAYOUTS = ("NCHW", "NHWC")


def ask(
    provider: ExecutionProvider | type[ExecutionProvider],
    hook: str,
    *arguments: Any,
    label: str = "",
    error: type[OrtLiteError] = ProviderError,
) -> Any:
    """Call `provider.hook(*arguments)` and return the checked answer. An iterable answer is returned as a list. A checkpoint.

    `label` is the provider's name in the session. An exception of the hook becomes `error`, even if it is one of ort_lite's
    own; an answer that the hook does not allow raises ProviderError, and so does an instance that a fork has lost. InvalidArgument
    for rejected options is passed on.
    """
    checkpoint()
    check_process(provider)
    name = label or who(provider)
    try:
        answer = getattr(provider, hook)(*arguments)
        if hook in _LISTS and not isinstance(answer, (str, bytes)):
            answer = list(answer)
    except RunTerminated as ended:
        ended.about(provider=name)
        raise
    except Exception as raised:
        checkpoint()  # a cancelled creation is not the provider's failure
        kind = InvalidArgument if hook in _OPTIONS and isinstance(raised, InvalidArgument) else error
        raise kind(f"{name}: {hook} failed: {format_error(raised)}").about(provider=name).like(raised) from raised
    if hook in _ANSWERS:
        fits, expected = _ANSWERS[hook]
        if not fits(answer):
            raise ProviderError(f"{name}: {hook} returned {format_answer(answer)}; expected {expected}").about(
                provider=name, expected=expected, got=format_answer(answer)
            )
    return answer


def ask_object(made: Any, method: str, maker: str, expected: type | None = None) -> Any:
    """made.method(), of something that a provider made: a compiled partition, an allocator. `maker` says whose it is.

    Raises ProviderError from what it raised, and for an answer that is not `expected`.
    """
    try:
        answer = getattr(made, method)()
    except Exception as raised:
        checkpoint()
        raise ProviderError(f"{maker}: {method} failed: {format_error(raised)}") from raised
    if expected is not None and not isinstance(answer, expected):
        raise ProviderError(f"{maker}: {method} returned {format_answer(answer)}; expected a {expected.__name__}")
    return answer


@contextmanager
def name_errors(what: str) -> Iterator[None]:
    """Name a call of a transfer or allocator in its errors.

    ort_lite's own errors keep their class; others become a RuntimeException, or an OutOfMemory, saying that `what` failed.
    """
    try:
        yield
    except OrtLiteError as error:
        error.prefix(what)
        raise
    except Exception as error:
        kind = OutOfMemory if isinstance(error, MemoryError) else RuntimeException
        raise kind(f"{what} failed: {format_error(error)}") from error


def who(provider: Any) -> str:
    """Return the provider's name, or its class name if it has none."""
    name = getattr(provider, "name", "")
    return name if isinstance(name, str) and name else type(provider).__name__


def format_answer(answer: Any) -> str:
    """Return the repr of an answer for a message, shortened if it is long."""
    text = repr(answer)
    return text if len(text) <= 80 else f"{text[:77]}... ({type(answer).__name__})"


def _none_or(*classes: type) -> Callable[[Any], bool]:
    return lambda answer: answer is None or isinstance(answer, classes)


def _has(*methods: str) -> Callable[[Any], bool]:
    return lambda answer: answer is None or all(callable(getattr(answer, name, None)) for name in methods)


def _lists_rules(answer: Any) -> bool:
    return isinstance(answer, list) and all(
        isinstance(each, (ShapeRule, RuleFamily))
        or (isinstance(each, list) and all(isinstance(one, ShapeRule) for one in each))
        for each in answer
    )


def _lists_schemas(answer: Any) -> bool:
    return isinstance(answer, list) and all(hasattr(each, "versions") or hasattr(each, "since") for each in answer)


def _devices(answer: Any) -> bool:
    return isinstance(answer, Mapping) and all(
        isinstance(device, Device) and isinstance(options, Mapping) for device, options in answer.items()
    )


def _seconds(answer: Any) -> bool:
    number = isinstance(answer, (int, float, np.integer, np.floating)) and not isinstance(answer, bool)
    return answer is None or (number and bool(0 <= answer < math.inf))


def _whole(*numbers: Any) -> bool:
    return all(isinstance(number, (int, np.integer)) and not isinstance(number, bool) for number in numbers)


def _resource(answer: Any) -> bool:
    if not isinstance(answer, Resource):
        return answer is None
    return all(limit is None or (_whole(limit) and limit >= 0) for limit in (answer.nodes, answer.nbytes))


def _events(answer: Any) -> bool:
    return _all(ProfileEvent)(answer) and all(
        isinstance(e.name, str) and _whole(e.begin, e.end, e.thread) and isinstance(e.args, Mapping) and _plain(e.args)
        for e in answer
    )


def _plain(args: Mapping[Any, Any]) -> bool:
    """Return True for values that a JSON file can hold."""
    return all(isinstance(key, str) and isinstance(arg, (str, int, float, type(None))) for key, arg in args.items())


def _overhead(answer: Any) -> bool:
    if not isinstance(answer, Overhead):
        return answer is None
    said: list[Any] = [answer.launch, answer.latency]
    rate: Any = answer.bandwidth
    return None not in said and all(map(_seconds, said)) and isinstance(rate, (int, float)) and bool(rate > 0)


def _all(*classes: type) -> Callable[[Any], bool]:
    def fits(answer: Any) -> bool:
        return (
            isinstance(answer, Iterable)
            and not isinstance(answer, (str, bytes))
            and all(isinstance(x, classes) for x in answer)
        )

    return fits


_OPTIONS = frozenset({"configure", "set_dynamic_options"})
_LISTS = frozenset({"get_capability", "end_profiling", "fusions", "hardware", "host_values", "shape_rules", "schemas"})
_ANSWERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "get_capability": (_all(Capability, Rejection), "Capability and Rejection objects"),
    "fusions": (_all(str, LocalRule, GraphPass), "names of transforms, or rules and passes"),
    "hardware": (_all(Hardware), "Hardware objects"),
    "supported_devices": (_devices, "a dict from Devices to dicts of options"),
    "shape_rules": (_lists_rules, "what @shape_rule makes"),
    "schemas": (_lists_schemas, "what op_schema makes, or files of schemas"),
    "host_values": (_all(Value), "inputs and outputs of the partition"),
    "supports_type": (lambda answer: isinstance(answer, (bool, np.bool_)), "True or False"),
    "wait_on_device": (lambda answer: isinstance(answer, (bool, np.bool_)), "True or False"),
    "allocator": (_has("allocate", "free"), "an object with `allocate` and `free`, or None"),
    "data_transfer": (_has("can_copy", "copy"), "an object with `can_copy` and `copy`, or None"),
    "available_resource": (_resource, "a Resource of whole numbers, or None"),
    "cost": (_seconds, "a finite number of seconds, 0 or more, or None"),
    "overhead": (_overhead, "an Overhead of finite times, 0 or more, and a bandwidth above 0, or None"),
    "preferred_layout": (lambda answer: answer is None or answer in LAYOUTS, f"one of {', '.join(LAYOUTS)}, or None"),
    "end_profiling": (_events, "ProfileEvent objects: whole numbers for begin, end and thread, and texts or numbers in args"),
    "serialize": (_none_or(bytes, bytearray, memoryview), "bytes, or None"),
    "compatibility": (lambda answer: isinstance(answer, str), "a text"),
    "check_compatibility": (_none_or(str), "a text that says what does not fit, or None"),
    "get_options": (lambda answer: isinstance(answer, dict), "a dict"),
}


def labels_of(providers: Sequence[ExecutionProvider]) -> list[str]:
    """Return a unique name for each provider: the second instance of a name is "Name#2"."""
    seen: dict[str, int] = {}
    labels = []
    for provider in providers:
        name = who(provider)
        seen[name] = count = seen.get(name, 0) + 1
        labels.append(name if count == 1 else f"{name}#{count}")
    return labels
