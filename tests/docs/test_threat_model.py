"""Every promise of the threat model names its test, and there is one of that name."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS, ROOT

PAGE = DOCS / "explanation" / "threat_model.md"


def test_every_test_that_is_named_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"


def test_every_promise_names_one() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## A folder from a stranger")[2]
    promises = re.split(r"\n- ", text)[1:]
    for promise in promises:
        assert "tests/" in promise, promise
