"""The lists of what breaks a rule are no longer than they must be."""

from __future__ import annotations

import pytest

from tests.style.allowed import outdated


@pytest.mark.nightly
@pytest.mark.parametrize("rule", ["docstrings", "names", "words"])
def test_nothing_is_let_through_that_is_not_there(rule: str) -> None:
    assert not outdated(rule), "make allowed"
