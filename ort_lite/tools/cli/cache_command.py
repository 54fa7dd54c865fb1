"""`ort-lite cache dir|list|verify|prune|export|import`: manage the folder of compiled kernels, and of the programs beside them."""

import time
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.native import cache
from ort_lite.tools.cli import upkeep
from ort_lite.tools.cli.exit_status import ExitStatus
from ort_lite.tools.cli.printing import print_json, print_table, print_text

_AGES = (("today", 1.0), ("this week", 7.0), ("this month", 30.0), ("longer ago", float("inf")))
_UNITS = {"k": 10**3, "M": 10**6, "G": 10**9}


def main(arguments: Namespace) -> int:
    """Run `ort-lite cache` and return the exit status."""
    actions = {"dir": _dir, "list": _list, "verify": _verify, "prune": _prune, "export": _export, "import": _import}
    return actions[arguments.action](arguments, cache.directory())


def _dir(arguments: Namespace, folder: str) -> int:
    if arguments.json:
        print_json("cache", {"action": arguments.action, "folder": folder})
    else:
        print_text(folder or "no folder: there is no home; name one in ORT_LITE_CACHE_DIR")
    return ExitStatus.DONE if folder else ExitStatus.FINDINGS


def _list(arguments: Namespace, folder: str) -> int:
    found = upkeep.entries(folder)
    stale = [entry for entry in found if entry.stale]
    programs = upkeep.entries(upkeep.programs_of(folder))
    ages = _by_age(found)
    if arguments.json:
        groups = {
            "all": found,
            "stale": stale,
            "programs": programs,
            **{name.replace(" ", "_"): group for name, group in ages.items()},
        }
        print_json(
            "cache", {"action": arguments.action, "folder": folder, **{name: _sums(group) for name, group in groups.items()}}
        )
        return 0
    print_text(folder)
    rows = [("all", found), *((f"used {name}", group) for name, group in ages.items()), ("of other versions", stale)]
    rows.append(("programs, and kernels of plugins", programs))
    print_table(("objects", "count", "MB"), [(name, *_cells(group)) for name, group in rows], ("count", "MB"))
    return 0


def _by_age(found: Sequence[upkeep.Entry]) -> dict[str, list[upkeep.Entry]]:
    """Group the objects by age. Each object is in the first group that its last use is recent enough for."""
    groups: dict[str, list[upkeep.Entry]] = {name: [] for name, _ in _AGES}
    now = time.time()
    for entry in found:
        groups[next(name for name, days in _AGES if now - entry.used < days * cache.DAY)].append(entry)
    return groups


def _sums(found: Sequence[upkeep.Entry]) -> dict[str, int]:
    return {"count": len(found), "bytes": sum(entry.nbytes for entry in found)}


def _cells(found: Sequence[upkeep.Entry]) -> tuple[int, str]:
    return len(found), f"{sum(entry.nbytes for entry in found) / 1e6:.1f}"


def _verify(arguments: Namespace, folder: str) -> int:
    """Return FINDINGS if a broken object remains, otherwise DONE."""
    found, broken = list[upkeep.Entry](), dict[str, str]()
    for place in (folder, upkeep.programs_of(folder)):
        own = upkeep.entries(place)
        own_broken = {entry.key: why for entry in own if (why := upkeep.trouble(place, entry.key))}
        own_broken |= dict.fromkeys(upkeep.find_partial_files(place), "was never finished")
        if arguments.delete:
            upkeep.remove(place, own_broken)
        found += own
        broken |= own_broken
    if arguments.json:
        print_json(
            "cache",
            {"action": arguments.action, "folder": folder, "count": len(found), "broken": broken, "deleted": arguments.delete},
        )
    else:
        for name, wrong in broken.items():
            print_text(f"{name} {wrong}{': deleted' if arguments.delete else ''}")
        print_text(f"{len(found)} objects, {len(broken)} broken")
    return ExitStatus.FINDINGS if broken and not arguments.delete else ExitStatus.DONE


def _prune(arguments: Namespace, folder: str) -> int:
    nbytes = None if arguments.keep_bytes is None else _bytes(arguments.keep_bytes)
    if not arguments.stale and arguments.older_than is None and nbytes is None:
        raise InvalidArgument("nothing says what may go: --stale, --older-than DAYS, --keep-bytes N")
    gone = list[upkeep.Entry]()
    for place in (folder, upkeep.programs_of(folder)):
        own = upkeep.to_prune(upkeep.entries(place), arguments.stale, arguments.older_than, nbytes)
        upkeep.remove(place, [*(entry.key for entry in own), *upkeep.find_partial_files(place)])
        gone += own
    _tell(arguments, folder, {"removed": len(gone), "bytes": _sums(gone)["bytes"]}, "removed {removed} objects, {bytes} bytes")
    return 0


def _bytes(text: str) -> int:
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    if not number.isdecimal():
        raise InvalidArgument(f"--keep-bytes {text}: expected a number, or one with k, M or G behind it")
    return int(number) * unit


def _export(arguments: Namespace, folder: str) -> int:
    count = upkeep.export(folder, arguments.file)
    _tell(arguments, folder, {"file": arguments.file, "exported": count}, "{file}: {exported} objects")
    return 0


def _import(arguments: Namespace, folder: str) -> int:
    new, stale = upkeep.import_(folder, arguments.file)
    text = "{file}: {imported} new objects" + (", {stale} in it of other versions, which nobody here asks for" if stale else "")
    _tell(arguments, folder, {"file": arguments.file, "imported": new, "stale": stale}, text)
    return 0


def _tell(arguments: Namespace, folder: str, facts: dict[str, Any], text: str) -> None:
    if arguments.json:
        print_json("cache", {"action": arguments.action, "folder": folder, **facts})
    else:
        print_text(text.format(**facts))
