"""Write the documentation's pictures of the viewer: `python -m tests.browser.picture`.

The digits model on two providers. In the graph a convolution is selected, so the panel on the right says why it runs where it runs. The
other pictures show the memory plan and the timeline.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from ort_lite_sample import SampleExecutionProvider
from playwright.sync_api import Browser, expect

from ort_lite import InferenceSession
from tests.browser.chromium import chromium
from tests.docs.pages import ROOT

DIGITS = ROOT / "examples" / "digits"
PICTURES = {name: ROOT / "docs" / "pictures" / f"{name}.png" for name in ("view", "memory", "timeline")}
SELECTED = "conv3+norm3"
SIZE = (1280, 720)
"""Pixels."""
SETTLED = 1000
"""Milliseconds until the graph has moved to the selected node."""


def write_page(path: Path) -> Path:
    images = np.load(DIGITS / "test_images.npz")["images"]
    with InferenceSession(DIGITS / "digits_cnn.onnx", providers=[SampleExecutionProvider, "CPUExecutionProvider"]) as session:
        page: Path = session.view({"images": images}).save(path)
    return page


def take_picture(browser: Browser, page: Path, name: str, path: Path) -> None:
    """Write the picture of a tab: "memory", "timeline", or "view" for the graph with a selected node."""
    context = browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light")
    opened = context.new_page()
    opened.goto(page.as_uri())
    expect(opened.get_by_role("application")).to_have_attribute("aria-busy", "false")
    if name == "view":
        opened.get_by_role("treeitem").filter(has_text=SELECTED).click()
    else:
        opened.locator(f"[role=tab][data-id={name}]").click()
    opened.wait_for_timeout(SETTLED)
    opened.screenshot(path=path)
    context.close()


def main() -> None:
    with TemporaryDirectory() as folder, chromium() as browser:
        page = write_page(Path(folder) / "digits.html")
        for name, path in PICTURES.items():
            take_picture(browser, page, name, path)


if __name__ == "__main__":
    main()
