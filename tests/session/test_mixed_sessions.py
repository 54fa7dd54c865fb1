"""Random models of all kinds of values over two to four providers: the bits of the CPU provider alone, partitions as they should be.

`python -m tests.session.mixed_sessions 0 10000` runs more of them.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ort_lite.partition.assignment import Level
from tests.provider.texts import plain
from tests.session.mixed_models import mixed_model
from tests.session.mixed_providers import session
from tests.session.mixed_sessions import check_level, same

BATCH = 150
SOME = (
    "control flow",
    "nested",
    "captures",
    "sequences",
    "optionals",
    "functions",
    "fused",
    "3 devices",
    "4 providers",
    "copies",
    "host values",
    "bodies on a device",
)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
def test_random_models_give_the_bits_of_the_cpu_provider_alone(batch: int) -> None:
    """In a process of its own: a model that hangs ends it."""
    command = [sys.executable, "-m", "tests.session.mixed_sessions", str(batch * BATCH), str(BATCH)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    assert counted["models"] == BATCH
    assert all(counted[kind] >= 5 for kind in (*SOME, "float16", "float32", "float64", "int64", "bool", "string"))


def level() -> Level:
    """Of one partition, the CPU provider's."""
    model = mixed_model(3, 12, depth=0, without=("string", "float16"))
    (found,) = session(model.SerializeToString(), plain(), []).explain().assignment.levels
    return found


def test_partitions_that_could_be_one_are_found() -> None:
    whole = level()
    check_level(whole)
    (partition,) = whole.partitions
    cut = len(partition.nodes) // 2
    parts = [partition.replace(nodes=partition.nodes[:cut]), partition.replace(nodes=partition.nodes[cut:])]
    with pytest.raises(AssertionError, match="could be one"):
        check_level(whole.replace(partitions=tuple(parts)))
    with pytest.raises(AssertionError, match="comes before what it reads"):
        check_level(whole.replace(partitions=tuple(parts[::-1])))
    with pytest.raises(AssertionError):
        check_level(whole.replace(partitions=(parts[0],)))


def test_bits_are_compared() -> None:
    zero, nan = np.zeros(1, np.float32), np.full(1, np.nan, np.float32)
    assert same([zero, nan], [zero, -nan])
    assert not same(zero, -zero)
    assert not same(zero, np.zeros(1))
    assert not same(None, nan)
    assert not same(np.array(["a"]), np.array(["a"], object))
