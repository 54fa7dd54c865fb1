"""Start the Chromium that is installed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a headless browser. Raises FileNotFoundError if no Chromium is on PATH."""
    path = next((path for name in NAMES if (path := shutil.which(name))), None)
    if path is None:
        raise FileNotFoundError(f"no Chromium: none of {', '.join(NAMES)} is on PATH; on Debian, apt-get install chromium")
    unconfined = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's sandbox refuses to start as root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=unconfined)
        yield browser
        browser.close()
