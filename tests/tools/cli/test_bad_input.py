"""What a user gets wrong, subcommand by subcommand: one line that says what to do, and the exit status 2."""

from pathlib import Path

import numpy as np
import pytest

import ort_lite
from ort_lite.__main__ import main
from ort_lite.tools.cli.exit_status import ExitStatus
from tests.tools.saved_model import save

MODEL = '<ir_version: 8, opset_import: ["": 17]> main (float[N, 3] x) => (float[N, 3] y) { y = Neg(x) }'
PICTURE = '<ir_version: 8, opset_import: ["": 17]> main (float[1, 3, 4, 4] x) => (float[1, 3, 4, 4] y) { y = Neg(x) }'

CASES = {
    "no subcommand": ("", "required: COMMAND"),
    "another subcommand": ("inspct model.onnx", "did you mean 'inspect'"),
    "no model": ("run", "required: MODEL.onnx"),
    "an option that is not there": ("run model.onnx --provders CPUExecutionProvider", "did you mean '--providers'"),
    "a level that is not there": ("explain model.onnx --level extnded", "did you mean 'extended'"),
    "a word too many": ("run model.onnx other.onnx", "unexpected argument other.onnx"),
    "no such file": ("run missing.onnx", "missing.onnx"),
    "a folder": ("inspect folder", "folder"),
    "an empty file": ("check empty.onnx", "empty.onnx"),
    "a text": ("explain text.onnx", "text.onnx (22 bytes) is no ONNX model: it is text"),
    "half a model": ("run half.onnx", "half.onnx"),
    "a config entry without a value": ("run model.onnx --config ort_lite.compile", "--config"),
    "a config entry that makes no sense": ("run model.onnx --config ort_lite.compile=perhaps", "ort_lite.compile"),
    "a negative number of threads": ("run model.onnx --threads -2", "-2"),
    "a dimension without a number": ("run model.onnx --dim N", "expected NAME=VALUE"),
    "an input that is not there": ("run model.onnx --input z=x.npy", "the model has no input 'z'"),
    "another rank": ("run model.onnx --shape x=2x3x4", "3 dimensions"),
    "another size": ("run model.onnx --shape x=2x4", "expected"),
    "a shape of letters": ("plan model.onnx --shape x=axb", "expected a number"),
    "a dimension that is not there": ("inspect model.onnx --dim M=3", "no dimension of this name"),
    "values that are no numbers": ("run model.onnx --value x=one", "expected numbers"),
    "too many values": ("run model.onnx --value x=1,2", "2 values, expected 1 or 3"),
    "feeds of another name": ("run model.onnx --feeds other.npz", "the model has no input 'z'"),
    "feeds of another type": ("verify model.onnx --input x=integers.npy", "int64"),
    "feeds that are not there": ("step model.onnx --feeds missing.npz", "missing.npz: there is no such file"),
    "a file that is no archive": ("profile model.onnx --feeds broken.npz", "broken.npz: it cannot be read"),
    "a picture that is none": ("run picture.onnx --input x=broken.png", "broken.png: it cannot be read"),
    "a node that is not there": ("step model.onnx --until Neg_1", "did you mean 'Neg_0'"),
    "a stage that is not there": ("dump model.onnx --stage partion", "did you mean 'partition'"),
    "a trace where no folder is": ("run model.onnx --trace nowhere/trace.json", "nowhere"),
    "a page where no folder is": ("view model.onnx -o nowhere/page.html", "nowhere"),
    "a folder without models": ("bench folder", "no file in it ends in .onnx"),
    "no time at all": ("bench model.onnx --seconds -1", "expected 0 or more"),
    "callers below zero": ("bench model.onnx --concurrency -1", "expected a number of callers"),
    "an operator that is not there": ("bench --operator MatMal --shape 2x2", "MatMal"),
    "an attribute without a value": ("bench --operator Softmax --shape 2x2 --attribute axis", "--attribute"),
    "models that are not there": ("warmup folder", "no file in it ends in .onnx"),
    "a name that makes no package": ("new-provider My_NPU --directory made", "no name for a provider"),
    "a module that is not there": ("check-provider nowhere:Provider", "nowhere"),
    "options that are no JSON": ("check-provider CPUExecutionProvider --options {", "--options"),
    "nothing to prune": ("cache prune", "--older-than DAYS"),
    "a size of letters": ("cache prune --keep-bytes much", "--keep-bytes much: expected a number"),
    "a file that is no cache": ("cache import text.onnx", "text.onnx"),
    "an action that is not there": ("cache lst", "did you mean 'list'"),
    "no provider at all": ("providers CPUExecutionProvider", "unexpected argument"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("given")
    save(made / "model.onnx", MODEL)
    save(made / "picture.onnx", PICTURE)
    for name in ("model.onnx", "picture.onnx"):
        ort_lite.InferenceSession(made / name)  # compiles the kernels, which a command would say on stderr
    (made / "half.onnx").write_bytes((made / "model.onnx").read_bytes()[:60])
    (made / "empty.onnx").write_bytes(b"")
    (made / "text.onnx").write_text("this is text, no model", encoding="utf-8")
    (made / "folder").mkdir()
    np.savez(made / "other.npz", z=np.zeros((1, 3), np.float32))
    np.save(made / "integers.npy", np.zeros((1, 3), np.int64))
    for name in ("broken.npz", "broken.png"):
        (made / name).write_bytes(b"neither of both")
    return made


@pytest.mark.parametrize("case", CASES)
def test_one_line_says_what_to_do(
    case: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, said = CASES[case]
    monkeypatch.chdir(folder)
    try:
        status = main(command.split())
    except SystemExit as ended:  # as argparse ends a program
        status = ended.code  # type: ignore[assignment]
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    about_the_model = any(name in line for name in ("NoSuchFile: ", "InvalidProtobuf: "))
    assert status == (ExitStatus.MODEL if about_the_model else ExitStatus.USAGE), line
    assert line.startswith("ort-lite") and said in line
    assert shown.out == ""
