"""Every public name of onnxruntime is there with a signature that its callers can use, or the page on migrating says why not.

What it has is in tests/data/onnxruntime_names.json, which tests/compat/record_names.py writes.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

import ort_lite
from ort_lite.compat.datasets import get_example
from tests.compat.record_names import described, recorded

ROOT = Path(__file__).parents[2]
RECORD: dict[str, Any] = json.loads((ROOT / "tests" / "data" / "onnxruntime_names.json").read_text())
PAGE = ROOT / "docs" / "migrating-from-onnxruntime.md"


def excused() -> list[str]:
    """The names of the page's table, as shell patterns would have them: `SessionOptions.x`, `onnxruntime.capi.y`."""
    text = PAGE.read_text().partition("## Not supported")[2]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def sample(name: str) -> Any:
    """An instance, of classes whose members are attributes of their instances alone."""
    if name in ("IOBinding", "SessionIOBinding"):
        session = ort_lite.InferenceSession(get_example("sigmoid.onnx"))
        return ort_lite.SessionIOBinding(session) if name == "SessionIOBinding" else session.io_binding()
    made: dict[str, Any] = {"OrtArenaCfg": ort_lite.OrtArenaCfg, "OrtMemoryInfo": partial(ort_lite.OrtMemoryInfo, "Cpu")}
    return made.get(name, object)()


def differences(record: dict[str, Any]) -> Iterator[str]:
    """Yield what is missing or cannot be called alike, as "module.name: what"."""
    for module, names in record.items():
        if module == "version":
            continue
        ours = import_module(module.replace("onnxruntime", "ort_lite.compat.onnxruntime", 1))
        for name, wanted in names.items():
            if not hasattr(ours, name):
                yield f"{module}.{name}: missing"
                continue
            yield from compared(f"{module}.{name}", wanted, getattr(ours, name))


def compared(where: str, wanted: dict[str, Any], here: Any) -> Iterator[str]:
    """Of one name, and of its members where it is a class: fields of instances, and what members of enums have, are members too."""
    found = described(here)
    instance = sample(where.rpartition(".")[2])
    fields = {
        *getattr(here, "__match_args__", ()),
        *(("name", "value") if isinstance(here, type) and issubclass(here, Enum) else ()),
    }
    if why := callable_alike(wanted.get("parameters"), found.get("parameters")):
        yield f"{where}: {why}"
    for member, theirs in wanted.get("members", {}).items():
        ours = found.get("members", {}).get(member)
        if ours is None and (member in fields or hasattr(here, member) or hasattr(instance, member)):
            continue
        if ours is None:
            yield f"{where}.{member}: missing"
        elif (theirs["kind"] == "method") != (ours["kind"] == "method"):
            yield f"{where}.{member}: is a {ours['kind']}, expected a {theirs['kind']}"
        elif why := callable_alike(theirs.get("parameters"), ours.get("parameters")):
            yield f"{where}.{member}: {why}"


def callable_alike(wanted: list[list[str]] | None, found: list[list[str]] | None) -> str:
    """Why a call that suits `wanted` would not suit `found`; "" where it would, or nothing tells. Native parameters have no names."""
    if wanted is None or found is None or any(kind == "any" for _, kind in wanted):
        return ""
    names = [name for name, kind in found if kind != "any"]
    open_ended = len(names) < len(found)
    listed = [name for name, kind in wanted if kind != "any"]
    missing = [name for name in listed if name not in names and not re.fullmatch(r"arg\d+", name)]
    if (missing or len(listed) > len(names)) and not open_ended:
        return f"takes {names}, expected {listed}"
    needed = sum(kind == "required" for _, kind in found)
    given = sum(kind == "required" for _, kind in wanted)
    return f"requires {needed} parameters, expected {given}" if needed > given and len(listed) < needed else ""


def is_excused(difference: str, names: list[str]) -> bool:
    """Whether the page has the name, or its class; `OrtDevice()` is the constructor alone."""
    whole = difference.partition(": ")[0]
    if any(f"{whole}()".endswith(f".{name}") for name in names):
        return True
    return any(re.search(rf"(^|\.){re.escape(name)}($|\.)", whole) for name in names)


def test_every_name_is_there_or_explained() -> None:
    names = excused()
    assert [each for each in differences(RECORD) if not is_excused(each, names)] == []


def test_the_page_excuses_no_module_as_a_whole() -> None:
    assert [name for module in RECORD for name in excused() if is_excused(f"{module}.any_name: missing", [name])] == []


def test_the_comparison_can_fail() -> None:
    assert callable_alike([["a", "required"]], [["b", "required"]])
    assert callable_alike([["arg0", "required"], ["arg1", "required"]], [["x", "required"]])
    assert callable_alike([], [["x", "required"]])
    assert not callable_alike([["arg0", "required"]], [["x", "required"], ["y", "optional"]])
    assert not callable_alike([["a", "required"]], [["args", "any"]])
    assert is_excused("onnxruntime.OrtDevice: takes more", ["OrtDevice()"])
    assert not is_excused("onnxruntime.OrtDevice.make: missing", ["OrtDevice()"])
    assert not is_excused("onnxruntime.OrtDevice: missing", ["OrtDev"])


@pytest.mark.skipif(
    onnxruntime.__version__ != RECORD["version"], reason="another onnxruntime is installed than the recorded one"
)
def test_the_record_is_of_the_installed_onnxruntime() -> None:
    """In a process of its own: tests of the switch may have put ort_lite in onnxruntime's place here."""
    code = "import json, sys; from tests.compat.record_names import recorded; json.dump(recorded(), sys.stdout, sort_keys=True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=240)
    assert json.loads(done.stdout) == RECORD
    assert recorded.__doc__
