"""For the pages that the tests execute."""

import pytest

from ort_lite.plugins import plugins


@pytest.fixture(autouse=True)
def _registrations_of_a_page_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = plugins.register_provider.__self__
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
