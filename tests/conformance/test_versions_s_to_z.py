"""Every version of the operators S* to Z*, against an oracle."""

import pytest

from tests.conformance.versions.checking import check_version, keys, label
from tests.conformance.versions.schemas import Key


@pytest.mark.slow
@pytest.mark.parametrize("key", keys("S", "Z"), ids=label)
def test_a_version_gives_what_its_schema_says(key: Key) -> None:
    check_version(key)
