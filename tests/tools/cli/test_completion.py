"""`ort-lite completion`: the scripts complete in a shell."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ort_lite.tools.cli.completion_command import script

BASH = """
source {script}
COMP_WORDS=({words}); COMP_CWORD={last}; COMP_LINE="{words}"
_shtab_ort_lite
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
zmodload zsh/zpty
zpty shell 'PS1= zsh -f -i'
zpty -w shell 'autoload -U compinit; compinit -u -D; fpath=({folder} $fpath); autoload -U _ort-lite; compdef _ort-lite ort-lite'
zpty -w shell 'print rea''dy'
zpty -r -m shell ready '*ready*'
zpty -n -w shell $'{words}\\t'
zpty -r -m shell found '*{expected}*'
print -r -- $found
zpty -d shell
"""


def complete_in_bash(words: str, tmp_path: Path) -> list[str]:
    (tmp_path / "completion.bash").write_text(script("bash"), encoding="utf-8")
    text = BASH.format(script=tmp_path / "completion.bash", words=words, last=len(words.split(" ")) - 1)
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)
    return [word.strip() for word in done.stdout.split()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ort-lite ve", ["verify"]),
        ("ort-lite run --prov", ["--provider", "--providers"]),
        ("ort-lite verify m.onnx --against onn", ["onnxruntime"]),
        ("ort-lite cache pr", ["prune"]),
        ("ort-lite run mod", ["model.onnx"]),
    ],
)
def test_bash_completes_commands_options_values_and_files(words: str, expected: list[str], tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    (tmp_path / "model.onnx").touch()
    assert sorted(complete_in_bash(words, tmp_path)) == expected


def test_zsh_completes_a_command(tmp_path: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh")
    (tmp_path / "_ort-lite").write_text(script("zsh"), encoding="utf-8")
    text = ZSH.format(folder=tmp_path, words="ort-lite veri", expected="ort-lite verify")
    done = subprocess.run(["zsh", "-f", "-c", text], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)
    assert "ort-lite verify" in done.stdout
