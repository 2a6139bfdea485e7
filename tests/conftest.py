"""One headless Chromium for all tests that look at pages."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sgrl.models.methods import METHODS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As below nohup and in many CI runners. Children inherit what is ignored, and tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

NEED_BROWSER = "SGRL_NEED_BROWSER"
"""Set in CI, so that a browser that is missing there fails the tests instead of skipping them."""
REBOUND = "rebound.example"
"""A name that points to this machine, as an attacker's can after DNS rebinding."""
FLAGS = (
    "--no-sandbox",
    f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1",
    "--disable-background-networking",
    "--ignore-gpu-blocklist",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, with WebGL in software and a profile that is gone afterwards."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        missing("playwright (pip install 'sgrl[test]')")
    if chromium is None:
        missing("chromium (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        browser.close()


def missing(what: str) -> None:
    """Skip, or fail where the tests must run."""
    reason = f"needs {what}"
    if os.environ.get(NEED_BROWSER):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _own_methods() -> Iterator[None]:
    """A method that a test registers is gone after it."""
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)
