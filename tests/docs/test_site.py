"""The docs as a site: built without a warning, and whole without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, NAMES

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    options = ("--quiet", "--fail-on-warning", "--builder", "html", "-d", folder / "doctrees")
    command = (sys.executable, "-m", "sphinx", *options, DOCS, folder / "html")
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_every_page_is_there_and_loads_nothing_from_elsewhere(site: Path) -> None:
    for name in NAMES:
        text = (site / name).with_suffix(".html").read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\bsrc=\"([^\"]+)", text)
        loaded += re.findall(
            r"<link[^>]*rel=\"(?:stylesheet|preload|icon)\"[^>]*href=\"([^\"]+)", text
        )
        assert loaded
        assert not [address for address in loaded if "//" in address]


def test_the_public_names_are_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "api" / "sgrl.html").read_text(encoding="utf-8")
    for name in ("make_env", "make_vec", "load_policy", "get_body"):
        assert f'<span class="pre">{name}</span>' in text, name
