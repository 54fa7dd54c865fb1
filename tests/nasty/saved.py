"""Compiled models: `serialize`, `deserialize`, what they depend on, and EPContext nodes that are not as they were."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx

import ort_lite
from ort_lite.errors import InvalidGraph, NoDevice
from ort_lite.provider import Partition
from tests.nasty.cases import NASTY, feeds, nasty, options, raises, says, session, wanted
from tests.nasty.judging import Case, Table, crossed, table
from tests.provider.numpy_provider import FUNCTIONS, evaluate

ERRORS = {"os": OSError("bus"), "ours": InvalidGraph("ours"), "stop": StopIteration(), "device": NoDevice("gone")}


def restored(data: bytes) -> Any:
    """Operators of one input each, in a row."""
    names = bytes(data).decode().split()
    assert names, "nothing was saved"

    def run(inputs: Sequence[Any]) -> list[Any]:
        y = inputs[0]
        for name in names:
            y = FUNCTIONS[name](y)
        return [y]

    return run


class Part:
    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.data = " ".join(node.op_type for node in partition.nodes).encode()

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return evaluate(self.partition, inputs)


RIGHT: dict[str, Any] = {
    "compile": lambda self, partitions: [Part(p) for p in partitions],
    "serialize": lambda self, compiled: compiled.data if hasattr(compiled, "data") else b"Abs Neg",
    "deserialize": lambda self, partition, data: restored(data),
    "compatibility": lambda self: "driver 7",
}


def saving(**members: Any) -> Any:
    return nasty("Abs Neg", **{**RIGHT, **members})


def there_and_back(
    embed: bool = True, saver: Any = None, loader: Any = None, change: Callable[[Any], Any] | None = None
) -> Any:
    """A saved model, changed by somebody, and loaded."""
    path = Path(tempfile.mkdtemp(prefix="nasty")) / "model.onnx"
    session("chain", saver or saving()).save_compiled(path, embed)
    if change is not None:
        model = onnx.load(path, load_external_data=False)
        (node,) = (node for node in model.graph.node if node.op_type == "EPContext")
        change(node)
        path.write_bytes(model.SerializeToString())
    made = ort_lite.InferenceSession(str(path), options(), providers=[loader or saving()])
    return [(made.run(None, feeds("chain")), wanted("chain"))]


def file_changed(change: Callable[[Path], Any]) -> Any:
    folder = Path(tempfile.mkdtemp(prefix="nasty"))
    session("chain", saving()).save_compiled(folder / "model.onnx", False)
    (file,) = folder.glob("*.bin")
    change(file)
    made = ort_lite.InferenceSession(str(folder / "model.onnx"), options(), providers=[saving()])
    return [(made.run(None, feeds("chain")), wanted("chain"))]


def attribute(name: str, value: Any) -> Callable[[Any], None]:
    """Puts another value in its place; None: takes it away."""

    def change(node: Any) -> None:
        kept = [found for found in node.attribute if found.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
        if value is not None:
            node.attribute.append(onnx.helper.make_attribute(name, value))

    return change


def inputs_gone(node: Any) -> None:
    del node.input[:]


def one_output_more(node: Any) -> None:
    node.output.append("more")


SERIALIZED: dict[str, Any] = {"text": "abc", "number": 3, "list": [1], "object": object()}
FINE: dict[str, Any] = {"bytearray": bytearray(b"Abs Neg"), "view": memoryview(b"Abs Neg")}
DESERIALIZED: dict[str, Any] = {"none": None, "number": 3, "text": "abc", "list": [len]}
RESTORED: dict[str, Any] = {
    "none": says(None),
    "nothing": says([]),
    "wide": lambda inputs: [inputs[0].astype("f8")],
    "raises": raises(OSError("bus")),
}
COMPATIBILITY: dict[str, Any] = {"none": None, "number": 7, "bytes": b"driver"}
CHECKED: dict[str, Any] = {"number": 3, "true": True, "reason": "another driver", "bytes": b"no"}
CHANGES: dict[str, tuple[Callable[[Any], None], bool]] = {
    "context-gone": (attribute("ep_cache_context", None), False),
    "context-a-number": (attribute("ep_cache_context", 3), False),
    "context-empty": (attribute("ep_cache_context", ""), False),
    "context-of-others": (attribute("ep_cache_context", b"\xff\x00"), False),
    "mode-2": (attribute("embed_mode", 2), False),
    "mode-0": (attribute("embed_mode", 0), False),
    "mode-a-text": (attribute("embed_mode", "1"), False),
    "mode-gone": (attribute("embed_mode", None), True),
    "source-gone": (attribute("source", None), False),
    "source-of-others": (attribute("source", "OtherExecutionProvider"), False),
    "source-a-number": (attribute("source", 3), False),
    "version-gone": (attribute("ep_sdk_version", None), False),
    "version-a-number": (attribute("ep_sdk_version", 3), False),
    "name-gone": (attribute("partition_name", None), True),
    "main-gone": (attribute("main_context", None), True),
    "inputs-gone": (inputs_gone, False),
    "one-output-more": (one_output_more, False),
}


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def a_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/hostname")


FILES: dict[str, Callable[[Path], Any]] = {
    "gone": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "not-text": lambda file: file.write_bytes(b"\xff\xfe\x00"),
    "a-folder": a_folder,
    "a-link-out": a_link,
}


def _cases() -> Iterator[tuple[str, Case]]:
    how = {"embedded": True, "apart": False}
    for name, (embed, answer) in crossed(embed=how, answer=SERIALIZED):
        yield (
            f"serialize-{name}",
            Case(lambda e=embed, a=answer: there_and_back(e, saving(serialize=says(a))), (NASTY, "serialize")),
        )
    for name, (embed, answer) in crossed(embed=how, answer=FINE):
        yield f"serialize-fine-{name}", Case(lambda e=embed, a=answer: there_and_back(e, saving(serialize=says(a))))
    for name, (hook, error) in crossed(hook={h: h for h in ("serialize", "compatibility")}, error=ERRORS):
        yield f"raises-{name}", Case(lambda h=hook, e=error: there_and_back(saver=saving(**{h: raises(e)})), (NASTY, hook))
    for name, (hook, error) in crossed(
        hook={h: h for h in ("deserialize", "compatibility", "check_compatibility")}, error=ERRORS
    ):
        yield (
            f"raises-at-load-{name}",
            Case(lambda h=hook, e=error: there_and_back(loader=saving(**{h: raises(e)})), (NASTY, hook)),
        )
    for name, answer in DESERIALIZED.items():
        yield f"deserialize-{name}", Case(lambda a=answer: there_and_back(loader=saving(deserialize=says(a))), (NASTY,))
    for name, function in RESTORED.items():
        yield f"restored-returns-{name}", Case(lambda f=function: there_and_back(loader=saving(deserialize=says(f))), (NASTY,))
    for name, answer in COMPATIBILITY.items():
        yield (
            f"compatibility-{name}",
            Case(lambda a=answer: there_and_back(saver=saving(compatibility=says(a))), (NASTY, "compatibility")),
        )
        yield (
            f"compatibility-at-load-{name}",
            Case(lambda a=answer: there_and_back(loader=saving(compatibility=says(a))), (NASTY, "compatibility|compiled for")),
        )
    for name, answer in CHECKED.items():
        yield f"check-{name}", Case(lambda a=answer: there_and_back(loader=saving(check_compatibility=says(a))), (NASTY,))
    for name, (change, right) in CHANGES.items():
        yield (
            f"node-{name}",
            Case(lambda c=change: there_and_back(change=c), () if right else ("EPContext|ep_cache_context|" + NASTY,)),
        )
    for name, damage in FILES.items():
        yield f"file-{name}", Case(lambda d=damage: file_changed(d), (NASTY + r"|model_.*\.bin|EPContext",))


CASES: Table = table(
    [
        *_cases(),
        ("right", Case(there_and_back)),
        ("right-apart", Case(lambda: there_and_back(False))),
        ("saves-nothing", Case(lambda: there_and_back(saver=saving(serialize=says(None))), (NASTY,))),
        (
            "no-deserialize",
            Case(lambda: there_and_back(loader=nasty("Abs Neg", compatibility=says("driver 7"))), (NASTY, "deserialize")),
        ),
        ("nobody-to-load-it", Case(lambda: there_and_back(loader=nasty("Abs", name="OtherExecutionProvider")), (NASTY,))),
    ]
)
