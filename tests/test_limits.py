"""Every wait of a test has a limit of its own: a process, a thread or a server that does not answer fails it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATTERNS = ("tests/**/*.py", "plugins/*/tests/**/*.py", "plugins/*/conftest.py", "examples/tests/**/*.py", "docs/conftest.py")
COMMANDS = {"tests/benchmarks", "tests/emulation"}
"""Run by hand, for as long as they take."""
EXCEPTIONS = {
    ("tests/native/test_loader.py", "worker.process.wait()"): "the process was killed, and a Sibling's wait takes no limit",
    ("tests/native/test_loader.py", "forked.wait()"): "the process was killed, and a Sibling's wait takes no limit",
}
SOURCES = {
    path.relative_to(ROOT).as_posix(): path
    for pattern in PATTERNS
    for path in sorted(ROOT.glob(pattern))
    if not any(path.is_relative_to(ROOT / folder) for folder in COMMANDS)
}
BARE = {"wait", "join", "result"}
"""Methods that wait for good where they are called without arguments, which `str.join` and `os.path.join` never are."""
TIMEOUTS = {"urlopen": 2, "create_connection": 1, "HTTPConnection": 2, "communicate": 1}
"""The position of the argument `timeout`."""
RUNS = {f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output")}


def unlimited(source: str) -> list[str]:
    """The calls that may wait for good, and Popen as a context manager, whose end does."""
    tree = ast.parse(source)
    entered = {id(item.context_expr) for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [ast.unparse(call) for call in calls if _waits_for_good(call, id(call) in entered)]


def _waits_for_good(call: ast.Call, entered: bool) -> bool:
    function = ast.unparse(call.func)
    name = function.rpartition(".")[2]
    limited = any(keyword.arg in ("timeout", None) for keyword in call.keywords)  # None: **options
    if name in BARE and isinstance(call.func, ast.Attribute):
        return not call.args and not call.keywords
    if name in TIMEOUTS:
        return len(call.args) <= TIMEOUTS[name] and not limited
    return (function in RUNS and not limited) or (name == "Popen" and entered)


@pytest.mark.parametrize("name", SOURCES)
def test_every_wait_has_a_limit(name: str) -> None:
    found = unlimited(SOURCES[name].read_text(encoding="utf-8"))
    assert [call for call in found if (name, call) not in EXCEPTIONS] == []


@pytest.mark.parametrize(("name", "call"), EXCEPTIONS)
def test_an_exception_is_needed(name: str, call: str) -> None:
    assert call in unlimited(SOURCES[name].read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("thread.join()", 1),
        ("thread.join(5)", 0),
        ("', '.join(names)", 0),
        ("os.path.join(folder, name)", 0),
        ("event.wait()", 1),
        ("event.wait(timeout=5)", 0),
        ("future.result()", 1),
        ("process.communicate(data)", 1),
        ("process.communicate(data, 5)", 0),
        ("subprocess.run(command)", 1),
        ("subprocess.run(command, timeout=5)", 0),
        ("subprocess.check_output(command)", 1),
        ("urlopen(address)", 1),
        ("urllib.request.urlopen(address, None, 5)", 0),
        ("with subprocess.Popen(command) as process: pass", 1),
        ("process = subprocess.Popen(command)", 0),
    ],
)
def test_calls_that_wait_for_good_are_found(source: str, count: int) -> None:
    assert len(unlimited(source)) == count
