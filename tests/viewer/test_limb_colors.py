"""Colors that show what a policy does."""

from __future__ import annotations

import numpy as np
import pytest

from sgrl.morphology import FAMILIES
from sgrl.viewer.limb_colors import (
    ACTING,
    ATTENDED,
    FULL_ATTENTION,
    IDLE,
    action_colors,
    attention_colors,
    body_colors,
    robot_color,
)


def rgb(color: np.ndarray) -> list[int]:
    return [round(255 * float(channel)) for channel in color]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_body_has_its_familys_color(family: str) -> None:
    body = FAMILIES[family].body
    colors = body_colors(body, robot_color(body, ()))
    assert colors.shape == (body.num_limbs, 3)
    assert colors[0].tolist() == rgb(np.array(FAMILIES[family].color[:3]))
    for limb, parent in enumerate(body.parents[1:], start=1):
        assert (colors[limb] < colors[parent]).all()


def test_the_larger_an_action_the_redder_the_limb() -> None:
    actions = np.array([[0, 0, 0], [0.2, 0, -0.2], [0.5, 0.5, -0.5], [1, -1, 1]], np.float32)
    colors = action_colors(actions)
    assert colors[0].tolist() == rgb(IDLE)
    assert colors[-1].tolist() == rgb(ACTING)
    redness = colors[:, 0].astype(int) - colors[:, 1]
    assert (np.diff(redness) > 0).all()


def test_attention_is_compared_with_an_even_share() -> None:
    for limbs in (4, 14):
        even = attention_colors(np.full(limbs, 1 / limbs, np.float32))
        assert (even == even[0]).all()
        assert even[0].tolist() not in (rgb(IDLE), rgb(ATTENDED))
        one = np.zeros(limbs, np.float32)
        one[2] = FULL_ATTENTION / limbs
        assert attention_colors(one)[2].tolist() == rgb(ATTENDED)
        assert attention_colors(one)[0].tolist() == rgb(IDLE)
