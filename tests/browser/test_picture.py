"""The README's picture can be made again."""

from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

from tests.browser.conftest import SCREENSHOTS
from tests.browser.picture import PICTURE, SIZE, take_picture, write_page


def test_the_picture_of_the_readme_is_made_by_a_script(browser: Browser, tmp_path: Path) -> None:
    taken = SCREENSHOTS / "readme.png"
    take_picture(browser, write_page(tmp_path / "digits.html"), taken)
    for path in (taken, PICTURE):
        with Image.open(path) as image:
            assert image.size == SIZE
