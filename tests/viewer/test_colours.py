"""Colours that show what a policy does."""

from __future__ import annotations

import numpy as np
import pytest

from sgrl.morphology import FAMILIES
from sgrl.viewer.colours import (
    ACTING,
    FULL_ATTENTION,
    HEARD,
    IDLE,
    action_colours,
    attention_colours,
    body_colours,
)


def rgb(colour: np.ndarray) -> list[int]:
    return [round(255 * float(channel)) for channel in colour]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_body_has_its_familys_colour(family: str) -> None:
    body = FAMILIES[family].body
    colours = body_colours(body)
    assert colours.shape == (body.num_limbs, 3)
    assert colours[0].tolist() == rgb(np.array(FAMILIES[family].color[:3]))
    for limb, parent in enumerate(body.parents[1:], start=1):
        assert (colours[limb] < colours[parent]).all()


def test_the_larger_an_action_the_redder_the_limb() -> None:
    actions = np.array([[0, 0, 0], [0.2, 0, -0.2], [0.5, 0.5, -0.5], [1, -1, 1]], np.float32)
    colours = action_colours(actions)
    assert colours[0].tolist() == rgb(IDLE)
    assert colours[-1].tolist() == rgb(ACTING)
    redness = colours[:, 0].astype(int) - colours[:, 1]
    assert (np.diff(redness) > 0).all()


def test_attention_is_compared_with_an_even_share() -> None:
    for limbs in (4, 14):
        even = attention_colours(np.full(limbs, 1 / limbs, np.float32))
        assert (even == even[0]).all()
        assert even[0].tolist() not in (rgb(IDLE), rgb(HEARD))
        one = np.zeros(limbs, np.float32)
        one[2] = FULL_ATTENTION / limbs
        assert attention_colours(one)[2].tolist() == rgb(HEARD)
        assert attention_colours(one)[0].tolist() == rgb(IDLE)
