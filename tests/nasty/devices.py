"""Devices: data transfers and allocators that answer nonsense, or nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ort_lite.errors import InvalidGraph, OutOfMemory
from ort_lite.graph import Value
from ort_lite.provider import CPU, Device
from tests.execute.test_device_inputs import CRATE, Crate, Transfer
from tests.nasty.cases import NASTY, NastyDevice, feeds, nasty, options, raises, ran, says, session, wanted
from tests.nasty.computing import WRONG
from tests.nasty.judging import Case, Table, crossed, table
from tests.provider.numpy_provider import Box, BoxTransfer, OtherDevice

BOX = Device("box")
MODELS = {"open": "open", "last": "last", "two": "two"}
KINDS = {kind: kind for kind in ("open", "integer", "scalar", "matrix", "empty")}
ERRORS = {"os": OSError("bus"), "ours": InvalidGraph("ours"), "memory": OutOfMemory("none left"), "stop": StopIteration()}


def boxed(takes: str = "Abs", **methods: Any) -> Any:
    """A device whose transfer has these methods."""
    transfer = type("Boxes", (BoxTransfer,), methods)(BOX)
    return nasty(takes, NastyDevice, data_transfer=says(transfer))


def leaving(change: Callable[[Any], Any]) -> Any:
    def copy(self: Any, value: Any, source: Device, destination: Device) -> Any:
        made = BoxTransfer.copy(self, value, source, destination)
        return change(made) if destination == CPU else made

    return boxed(copy=copy)


def entering(change: Callable[[Any], Any]) -> Any:
    def copy(self: Any, value: Any, source: Device, destination: Device) -> Any:
        made = BoxTransfer.copy(self, value, source, destination)
        return made if destination == CPU else change(made)

    return boxed(copy=copy)


ENTERED: dict[str, Callable[[Any], Any]] = {
    "none": says(None),
    "number": says(3),
    "text": says("box"),
    "array": lambda box: box.open(BOX),
    "class": says(OtherDevice),
}
CAN: dict[str, Any] = {"none": None, "text": "yes", "number": 3, "false": False}


class NastyCrate(Crate):
    name = NASTY


class Memory:
    """An allocator as a crate has it, with other methods."""

    def __init__(self, **methods: Any) -> None:
        from ort_lite.memory.allocators import ArenaAllocator

        self.real, self.device = ArenaAllocator(CRATE), CRATE
        for name in ("allocate", "free", "statistics", "shrink"):
            setattr(self, name, methods.get(name, getattr(self.real, name)))

    @property
    def bytes_in_use(self) -> int:
        return self.real.bytes_in_use


def crate(copy_into: Any = None, **methods: Any) -> Any:
    provider: Any = NastyCrate(lambda node: node.op_type == "Abs")
    provider.memory = Memory(**methods)
    if copy_into is not None:
        provider.transfer = type("Crates", (Transfer,), {"copy_into": copy_into})()
    return provider


def shrunk(provider: Any) -> Any:
    made = session("open", provider)
    made.run(None, feeds("open"))
    made.trim()
    return [(made.run(None, feeds("open")), wanted("open"))]


def counted(provider: Any) -> Any:
    made = session("open", provider)
    made.memory()
    return [(made.run(None, feeds("open")), wanted("open"))]


INTO: dict[str, Any] = {
    "none": says(None),
    "handle": lambda self, value, source, destination, memory: memory,
    "number": says(3),
    "list": lambda self, value, source, destination, memory: [memory],
    "array": lambda self, value, source, destination, memory: np.array(value),
    "takes-too-little": lambda self, value: value,
}
HOST_VALUES: dict[str, Any] = {
    "none": None,
    "number": 3,
    "text": "x",
    "names": ["x"],
    "nones": [None],
    "a-stranger": [Value("x")],
}


def hosting(change: Callable[[Any], Any]) -> Any:
    """A device whose inputs and outputs are all on the host."""
    return nasty(
        "Abs",
        NastyDevice,
        host_values=lambda self, partition: [*partition.inputs, *partition.outputs],
        compile=lambda self, partitions: [lambda inputs: [change(np.abs(inputs[0]))] for _ in partitions],
    )


ALLOCATED: dict[str, Any] = {"none": None, "number": 3, "text": "memory"}


def _cases() -> Iterator[tuple[str, Case]]:
    copied = r"(copied|copy of '\w+',) (cpu:0 -> box:0|box:0 -> cpu:0)"
    for name, (kind, change) in crossed(kind=KINDS, wrong=WRONG):
        yield f"leaves-{name}", Case(lambda k=kind, c=change: ran(k, leaving(c)), (NASTY, copied, "'a'"))
    for name, (kind, change) in crossed(kind=KINDS, wrong=WRONG):
        yield f"host-{name}", Case(lambda k=kind, c=change: ran(k, hosting(c)), (NASTY, "'a'"))
    for name, answer in HOST_VALUES.items():
        yield (
            f"host-values-{name}",
            Case(lambda a=answer: ran("open", nasty("Abs", NastyDevice, host_values=says(a))), (NASTY, "host_values")),
        )
    for name, error in ERRORS.items():
        yield (
            f"host-values-raises-{name}",
            Case(lambda e=error: ran("open", nasty("Abs", NastyDevice, host_values=raises(e))), (NASTY, "host_values")),
        )
    yield "host-right", Case(lambda: ran("two", hosting(lambda y: y)))
    yield "host-a-box", Case(lambda: ran("two", hosting(lambda y: Box(BOX, y))), (NASTY, "Box"))
    for name, (model, change) in crossed(model=MODELS, entered=ENTERED):
        yield f"enters-{name}", Case(lambda m=model, c=change: ran(m, entering(c)), (NASTY,))
    for name, (model, error) in crossed(model=MODELS, error=ERRORS):
        yield f"copy-raises-{name}", Case(lambda m=model, e=error: ran(m, boxed(copy=raises(e))), (NASTY, "copy '[xa]'"))
        yield f"can-copy-raises-{name}", Case(lambda m=model, e=error: ran(m, boxed(can_copy=raises(e))), ("Boxes", "can_copy"))
    for name, answer in CAN.items():
        yield (
            f"can-copy-{name}",
            Case(
                lambda a=answer: ran("open", boxed(can_copy=says(a))),
                ("box:0", "can_copy|data_transfer"),
                either=name in ("text", "number"),
            ),
        )
    for name, made in INTO.items():
        yield (
            f"copy-into-{name}",
            Case(lambda m=made: ran("open", crate(m)), (NASTY, "copy_into|copy 'x'"), either=name == "array"),
        )
    for name, made in ALLOCATED.items():
        yield f"allocates-{name}", Case(lambda m=made: ran("open", crate(allocate=says(m))), (NASTY, "allocat|copy 'x'"))
    for name, error in ERRORS.items():
        yield (
            f"allocate-raises-{name}",
            Case(lambda e=error: ran("open", crate(allocate=raises(e))), (NASTY, "allocat|copy 'x'")),
        )
        yield f"copy-into-raises-{name}", Case(lambda e=error: ran("open", crate(raises(e))), (NASTY, "copy 'x'"))
        yield f"free-raises-{name}", Case(lambda e=error: ran("open", crate(free=raises(e))), (NASTY, "free"), either=True)
        yield f"statistics-raises-{name}", Case(lambda e=error: counted(crate(statistics=raises(e))), (NASTY, "statistics"))
        yield f"shrink-raises-{name}", Case(lambda e=error: shrunk(crate(shrink=raises(e))), (NASTY, "shrink"))
    for name, made in {"none": None, "number": 3, "texts": ["a"]}.items():
        yield f"statistics-{name}", Case(lambda m=made: counted(crate(statistics=says(m))), (NASTY, "statistics"))
    for name, answer in {"number": 3, "text": "pool", "object": object()}.items():
        provider = lambda a=answer: nasty("Abs", NastyDevice, allocator=says(a), data_transfer=says(Transfer()), device=CRATE)  # noqa: E731
        yield f"allocator-{name}", Case(lambda p=provider: ran("open", p()), (NASTY, "allocator"))


CASES: Table = table(
    [
        *_cases(),
        (
            "has-no-transfer",
            Case(lambda: ran("open", nasty("Abs", NastyDevice, data_transfer=says(None))), ("box:0", NASTY, "data_transfer")),
        ),
        (
            "another-s-transfer",
            Case(lambda: ran("open", nasty("Abs", NastyDevice, data_transfer=says(BoxTransfer(CRATE)))), ("box:0", NASTY)),
        ),
        (
            "leaves-arrays-on-the-cpu",
            Case(
                lambda: ran(
                    "open",
                    nasty(
                        "Abs", NastyDevice, compile=lambda self, ps: [lambda inputs: [np.abs(inputs[0].open(BOX))] for _ in ps]
                    ),
                ),
                (NASTY,),
                either=True,
            ),
        ),
        ("the-cpu-as-another-object", Case(lambda: ran("open", nasty("Abs", device=Device("cpu", 0))))),
        ("another-cpu", Case(lambda: ran("open", nasty("Abs", device=Device("cpu", 1))), (NASTY, "cpu:1"))),
        (
            "two-devices",
            Case(
                lambda: ran(
                    "split",
                    nasty("Abs", NastyDevice),
                    nasty("Neg Tanh", OtherDevice, device=Device("crate"), name="CrateExecutionProvider"),
                )
            ),
        ),
        (
            "verified",
            Case(
                lambda: [(session("open", leaving(lambda y: y)).run(None, feeds("open"), verify="partition"), wanted("open"))]
            ),
        ),
        ("no-optimisation", Case(lambda: ran("two", boxed(), with_=options("ORT_ENABLE_ALL")))),
    ]
)
