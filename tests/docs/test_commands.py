"""Commands that pages show are run, page by page, in a folder that holds what the page says before; each must succeed."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

from tests.docs.pages import ROOT, Block, blocks, commands, commands_of_tables

BY_PAGE: dict[str, list[Block]] = {}
for found in blocks():
    BY_PAGE.setdefault(found.page, []).append(found)

TAKEN_AS_DONE = {
    r"pip install \./plugins/ort-lite-sample": "the tests' environment has it",
    r"pip install dist/ort_lite-.*": "the tests' environment has it; check-wheels installs wheels into a fresh one",
    r"python3 -m venv \.venv|source \.venv/bin/activate|pip install \"?\.(\[examples\])?\"?": "the tests run in one",
    r"pip install onnxruntime": "the tests' environment has it",
    r"pip install \. \./plugins/ort-lite-(ep|onnxruntime) .*": "make test-plugins installs them, each into an environment of its own",
    r"ort-lite desk .*": "serves until somebody stops it: tests/tools/playground",
    r"python examples/.*": "tests/examples",
    r"pip install torch optimum-onnx .*": "torch is large: make test-optimum installs it",
    r"(ort-lite exec )?python examples/hugging_face\.py folder": "make test-optimum runs it",
    r"ort-lite exec classify\.py": "downloads a model",
    r"optimum-cli export .*": "downloads a model",
    r"ort-lite check-provider .* --in onnxruntime": "ort-lite-ep needs a C compiler: plugins/ort-lite-ep/tests",
    r"make .*": "the Makefile makes this environment; .ci/run has them",
    r"ort-lite bench (?!.*--seconds).*": "measures for seconds, beside a rival that may not be there: tests/tools/cli/test_bench.py",
}
"""Commands, as whole texts, that are not run, and why."""

INSTALLED = re.compile(r"pip install -e \./ort-lite-([\w-]+)")
"""Is done as pip does it, without an environment of its own: a path, and a dist-info that holds the entry point."""

MODEL = '<ir_version: 10, opset_import: ["": 21]> main (float[N] x) => (float[N] y) { y = Relu(x) }'

PROGRAM = """import numpy
import onnxruntime
session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
session.run(None, {"x": numpy.ones(3, numpy.float32)})
"""


class Shell:
    """A folder, and what commands in it find: this Python under its names, ort-lite's sources, packages installed meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.installed = folder / "work", folder / "installed"
        names = {"python": "", "pip": "-m pip", "ort-lite": "-m ort_lite"}
        for path in (self.folder, self.installed, folder / "bin"):
            path.mkdir()
        for name, arguments in names.items():
            script = folder / "bin" / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            script.chmod(0o755)
        self.paths = [
            str(self.installed),
            *(str(ROOT / part) for part in (".", "providers", "transforms", "plugins/ort-lite-sample")),
        ]
        self.environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def give_models(self) -> None:
        """Create what pages expect: the reader's model.onnx, other.onnx, models/ and my_program.py, and the digits of a clone."""
        (self.folder / "models").mkdir()
        for name in ("model.onnx", "other.onnx", "models/first.onnx"):
            onnx.save(onnx.parser.parse_model(MODEL), self.folder / name)
        (self.folder / "examples").mkdir()
        (self.folder / "examples" / "digits").symlink_to(ROOT / "examples" / "digits")
        (self.folder / "my_program.py").write_text(PROGRAM)

    def install(self, name: str) -> None:
        package = f"ort_lite_{name.replace('-', '_')}"
        folder = self.folder / f"ort-lite-{name}"
        (entry,) = re.findall(r'entry-points."ort_lite.providers"\]\n(.*)', (folder / "pyproject.toml").read_text())
        info = self.installed / f"{package}-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: ort-lite-{name}\nVersion: 0.1.0\n")
        (info / "entry_points.txt").write_text(f"[ort_lite.providers]\n{entry.replace(chr(34), '')}\n")
        self.paths.insert(0, str(folder))

    def run(self, command: str) -> str:
        environment = {**self.environment, "PYTHONPATH": os.pathsep.join(self.paths)}
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=240
        )
        assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


def is_taken_as_done(command: str) -> bool:
    return any(re.fullmatch(pattern, _bare(command)) for pattern in TAKEN_AS_DONE)


def _bare(command: str) -> str:
    """Without the comment."""
    return re.sub(r"\s+#.*", "", command)


SHOWN = [
    *((page, command) for page, of_it in BY_PAGE.items() for block in of_it for command, _ in commands(block)),
    *((page, command) for page in BY_PAGE for command in commands_of_tables(ROOT / page)),
]


@pytest.mark.slow
@pytest.mark.parametrize("page", dict.fromkeys(page for page, command in SHOWN if not is_taken_as_done(command)))
def test_the_commands_of_a_page_succeed(page: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    if page != "docs/start.md":
        shell.give_models()
    if page == "docs/kernel-cache.md":  # its commands delete
        shell.environment["ORT_LITE_CACHE_DIR"] = str(tmp_path / "cache")
    for block in BY_PAGE[page]:
        if block.file and "/" not in block.file:
            (shell.folder / block.file).write_text(block.text)
        for command, printed in commands(block):
            if new := INSTALLED.fullmatch(command):
                shell.install(new[1])
            elif not is_taken_as_done(command):
                got = shell.run(command)
                assert not printed or doctest.OutputChecker().check_output(printed, got, doctest.ELLIPSIS), f"{block}\n{got}"


@pytest.mark.slow
def test_the_commands_that_answer_questions_succeed(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.give_models()
    asked = commands_of_tables(ROOT / "README.md")
    assert asked
    for command in asked:
        if not is_taken_as_done(command):
            shell.run(command.replace("MyNpuExecutionProvider", "SampleExecutionProvider"))  # stands for the reader's own


@pytest.mark.parametrize("pattern", TAKEN_AS_DONE)
def test_what_is_taken_as_done_is_on_a_page(pattern: str) -> None:
    assert any(re.fullmatch(pattern, _bare(command)) for _, command in SHOWN)
