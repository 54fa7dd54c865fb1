"""`ort-lite exec` runs RapidOCR and Magika as they are published. No onnxruntime is installed: ort_lite takes its place."""

import subprocess
import sys
from pathlib import Path

import pytest

import ort_lite
from examples import ocr

EVIDENCE = """
import onnxruntime
print(onnxruntime.get_build_info(), "onnxruntime_pybind11_state" in open("/proc/self/maps").read())
"""
SERVED = f"{ort_lite.get_build_info()} False"
"""The build is ort_lite's, and the native library of an onnxruntime is not loaded."""
RAPIDOCR = """
import sys
from rapidocr_onnxruntime import RapidOCR
lines, _ = RapidOCR()(sys.argv[1])
print(*(text for _, text, _ in lines), sep="\\n")
"""
MAGIKA = """
import sys
from magika import Magika
print(Magika().identify_path(sys.argv[1]).output.description)
"""


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    ocr.drawn().save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    ort_lite_exec = [sys.executable, "-m", "ort_lite", "exec"]
    done = subprocess.run([*ort_lite_exec, *command], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return done


def test_rapidocr_reads_a_picture(picture: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(RAPIDOCR + EVIDENCE)
    first, *others, evidence = run("python", str(tmp_path / "program.py"), str(picture)).stdout.splitlines()
    assert first[1:] == "nvoice20417"  # it reads l for I, with onnxruntime too
    assert (others, evidence) == ([*ocr.LINES[1:]], SERVED)


def test_rapidocr_s_console_script_reads_a_picture(picture: Path) -> None:
    done = run("rapidocr_onnxruntime", "-img", str(picture))
    assert ocr.LINES[1] in done.stdout + done.stderr


def test_magika_tells_the_type_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(MAGIKA + EVIDENCE)
    done = run(str(tmp_path / "program.py"), str(tmp_path / "program.py"))
    assert done.stdout.splitlines() == ["Python source", SERVED]


def test_magika_s_native_launcher_runs_with_its_own_onnxruntime_and_that_is_said(tmp_path: Path) -> None:
    """It runs no Python. Its client in Python runs on ort_lite, and prints the same."""
    (tmp_path / "program.py").write_text(MAGIKA)
    launcher = run("magika", "--no-colors", str(tmp_path / "program.py"))
    client = run("-m", "magika.cli.magika_client", "--no-colors", str(tmp_path / "program.py"))
    assert launcher.stdout == client.stdout == f"{tmp_path / 'program.py'}: Python source (code)\n"
    assert "magika has onnxruntime built in and does not use ort-lite" in launcher.stderr
    assert client.stderr == ""
