"""The documentation's pictures of the viewer can be made again."""

from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser

from tests.browser.conftest import SCREENSHOTS
from tests.browser.picture import PICTURES, SIZE, take_picture, write_page


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_the_documentation_is_made_by_a_script(name: str, browser: Browser, tmp_path: Path) -> None:
    taken = SCREENSHOTS / f"documentation-{name}.png"
    take_picture(browser, write_page(tmp_path / "digits.html"), name, taken)
    for path in (taken, PICTURES[name]):
        with Image.open(path) as image:
            assert image.size == SIZE
