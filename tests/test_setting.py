"""What is known of a settings field, and bounds."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest

from sgrl.setting import Setting, check_bounds, setting, setting_of, settings_of


@dataclass(frozen=True)
class Config:
    rate: float = setting(0.1, key="rate", above=0.0, most=1.0)
    count: int = setting(3, key="number", least=1, most=1_000, may_change=True)
    size: int | None = setting(None, key="size", least=1)
    horizon: float | tuple[float, ...] | None = setting(None, key="horizon", above=0.0, most=9.0)
    place: str = setting("here", key="place", identifies=False, before="there")
    parts: list[int] = setting(list, key="parts")
    plain: int = 4


def test_what_is_known_of_each_field() -> None:
    known = settings_of(Config)
    assert known["count"] == Setting("number", may_change=True, least=1, most=1_000)
    assert known["place"].before == "there"
    assert not known["place"].identifies
    assert not known["place"].is_old
    assert known["rate"].is_old
    assert setting_of(fields(Config)[-1]) == Setting("plain")
    assert Config().parts is not Config().parts


def test_numbers_in_their_bounds_pass() -> None:
    check_bounds(Config())
    check_bounds(Config(rate=1, count=1, size=10**9, horizon=(1.0, 9.0)))


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"rate": 0.0}, ["rate must be above 0.0 and at most 1.0, not 0.0"]),
        ({"rate": float("nan")}, ["rate must be above 0.0 and at most 1.0, not nan"]),
        ({"count": 1_001}, ["count must lie between 1 and 1,000, not 1001"]),
        ({"count": 1.5}, ["count must be a whole number, not 1.5"]),
        ({"count": True}, ["count must be a number, not True"]),
        ({"size": 0}, ["size must be at least 1, not 0"]),
        ({"horizon": (1.0, -1.0)}, ["horizon must be above 0.0 and at most 9.0, not -1.0"]),
        (
            {"rate": "a", "count": 0},
            ["rate must be a number, not 'a'", "count must lie between 1 and 1,000, not 0"],
        ),
    ],
)
def test_a_line_for_each_that_is_out_of_them(changes: dict[str, object], lines: list[str]) -> None:
    with pytest.raises(ValueError, match="must") as error:
        check_bounds(Config(**changes), "mine.")  # type: ignore[arg-type]
    assert str(error.value).splitlines() == [f"mine.{line}" for line in lines]
