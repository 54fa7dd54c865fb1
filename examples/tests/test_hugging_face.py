"""`examples/hugging_face.py`: Optimum's encoder-decoders write the same tokens with onnxruntime and with ort-lite."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent.parent / "hugging_face.py"
MODELS = ("t5", "bart", "marian")


def run(*command: str) -> list[str]:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_encoder_decoders_write_the_same_tokens_as_with_onnxruntime(tmp_path: Path) -> None:
    program = [str(PROGRAM), str(tmp_path)]
    expected = run(*program)
    assert [line.split()[0] for line in expected] == [name for name in MODELS for _ in range(4)]
    assert len({line.partition("[[")[2] for line in expected}) >= len(MODELS)
    assert run("-m", "ort_lite", "exec", *program) == expected
