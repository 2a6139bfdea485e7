"""What the page says in words and bars, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from sgrl.viewer.driver import Driver
from sgrl.viewer.limb_colors import ACTING, ATTENDED, FULL_ATTENTION, IDLE, Coloring
from sgrl.viewer.robot import Robot

BAR = 46
"""Pixels from the middle to the end of a bar."""
HINGE_COLORS = ("#d9534f", "#3c9d5b", "#3b77c4")
"""The colors of hinges x, y and z."""
_STYLE = "font-size:12px;padding:0 1.2em 0 0.6em;line-height:1.5"


def title(driver: Driver) -> str:
    """What drives the robots, and what it has been trained on."""
    trained = driver.trained_on
    about = ": no policy was given"
    if trained:
        on = trained[0].name if len(trained) == 1 else f"{len(trained)} bodies"
        about = f" ({escape(driver.details)}), trained on {escape(on)}"
    return f'<div style="{_STYLE}"><b>{escape(driver.name)}</b>{about}</div>'


def name(number: int, robot: Robot) -> str:
    """What floats above a robot among others."""
    return f"{number} {robot.whole.name.removeprefix('3d_')}"


def legend(coloring: Coloring) -> str:
    """What the colors of limbs mean."""
    if coloring == "body":
        return ""
    full, low, high = {
        "action": (ACTING, "no action", "full action"),
        "attention": (ATTENDED, "no attention", f"{FULL_ATTENTION:g} times an even share"),
    }[coloring]
    bar = f"height:8px;background:linear-gradient(90deg,{_css(IDLE)},{_css(full)})"
    return (
        f'<div style="{_STYLE}" data-legend><div style="{bar}"></div>'
        f'<div style="display:flex;justify-content:space-between"><span>{low}</span>'
        f"<span>{high}</span></div></div>"
    )


def _css(color: Iterable[float]) -> str:
    return f"rgb({','.join(str(round(255 * float(channel))) for channel in color)})"


def pace(wanted: float, achieved: float, keeps_up: bool, paused: bool) -> str:
    """A line about time."""
    if paused:
        text = "paused"
    elif not keeps_up:
        text = f"<b>slowed down to {achieved:.2f} of real time</b>: too much for this machine"
    elif wanted == 1:
        text = "real time"
    else:
        text = f"slow motion, {wanted:g} of real time"
    return f'<div style="{_STYLE}" data-pace>{text}</div>'


def robots(shown: Sequence[Robot], selected: Robot, driver: Driver) -> str:
    """A table with a row for each robot."""
    heads = "".join(
        f'<th style="text-align:right;font-weight:600">{head}</th>'
        for head in ("m/s", "to go", "reward", "return", "falls")
    )
    rows = []
    for number, robot in enumerate(shown, start=1):
        weight = "600" if robot is selected and len(shown) > 1 else "400"
        cells = (
            f"{robot.speed:.1f}",
            "reached" if robot.is_at_target else _meters(robot.distance),
            f"{robot.reward:.1f}",
            f"{robot.total:.0f}",
            f"{robot.falls}",
        )
        swatch = (
            '<i style="display:inline-block;width:9px;height:9px;border-radius:2px;'
            f'margin-right:5px;background:{_css(robot.color)}"></i>'
        )
        numbers = "".join(f'<td style="text-align:right">{cell}</td>' for cell in cells)
        rows.append(f'<tr style="font-weight:{weight}"><td>{swatch}{number}</td>{numbers}</tr>')
    table = (
        '<table style="width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums">'
        f"<tr><th></th>{heads}</tr>{''.join(rows)}</table>"
    )
    return f'<div style="{_STYLE}">{table}{_about(selected, driver)}</div>'


def _about(robot: Robot, driver: Driver) -> str:
    known = ""
    if driver.trained_on:
        # Whatever it is called: a body that was cut here may be one of the paper's.
        own = robot.body.limbs, robot.body.physics
        seen = any((body.limbs, body.physics) == own for body in driver.trained_on)
        known = ", seen in training" if seen else ", never seen in training (zero-shot)"
    limbs = f"{robot.body.num_limbs} limbs{known}<br>targets reached: {robot.reached}"
    return f'<div style="opacity:0.7;padding:2px 0 6px">{limbs}</div>'


def actions(robot: Robot) -> str:
    """Bars for the actions of each limb, hinges x, y and z."""
    rows = []
    for name, values in zip(robot.body.limb_names[1:], robot.limb_actions[1:], strict=True):
        bars = "".join(
            _bar(float(value), color) for value, color in zip(values, HINGE_COLORS, strict=True)
        )
        rows.append(
            '<div style="display:flex;align-items:center;gap:6px">'
            f'<div style="flex:1;overflow:hidden;text-overflow:ellipsis">{escape(name)}</div>'
            f'<div style="width:{2 * BAR}px">{bars}</div></div>'
        )
    return f'<div style="{_STYLE};line-height:1.3">{"".join(rows)}</div>'


def _bar(value: float, color: str) -> str:
    width = min(abs(value), 1.0) * BAR
    left = BAR if value >= 0 else BAR - width
    return (
        '<div style="height:4px;margin:1px 0;background:rgba(128,128,128,0.15)">'
        f'<div style="height:4px;margin-left:{left:.0f}px;width:{width:.0f}px;background:{color}">'
        "</div></div>"
    )


def _meters(distance: float) -> str:
    return f"{distance:.1f} m" if distance < 1000 else f"{distance / 1000:.0f} km"
