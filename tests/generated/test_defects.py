"""Each class of explanation has a node that shows it, and explains what that node shows."""

from pathlib import Path

import pytest

from tests.generated import saved
from tests.generated.defects import DEFECTS
from tests.generated.judge import judge
from tests.generated.nodes import CONDITIONING
from tests.generated.verdict import EXPLAINED

PROOFS = sorted(path for path in (Path(__file__).parents[1] / "data" / "generated").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", PROOFS, ids=lambda folder: folder.name)
def test_a_saved_node_is_explained(folder: Path) -> None:
    found = judge(*saved.load(folder), thorough=folder.name.startswith(("3_threads", "accelerator", "other_target")))
    assert found.status == EXPLAINED, found.differences


def test_every_class_of_explanation_has_a_node() -> None:
    texts = [(folder / "verdict.txt").read_text(encoding="utf-8") for folder in PROOFS]
    names = [CONDITIONING, *(one.name for one in DEFECTS if "what memory held" not in one.reason)]  # no two runs repeat that
    assert not [name for name in names if not any(f"({name})" in text for text in texts)]
