"""Keys for what is done most often; they are also commands of the palette under Ctrl+K.

W, A, S, D, Q, E and the arrows move the camera, which is the viewer library's own doing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import viser

from sgrl.viewer.panel import Do, Panel
from sgrl.viewer.simulation import Simulation

AHEAD = 8.0
"""Meters from the robot to a target that is set by a key."""


def bind_keys(gui: viser.GuiApi, simulation: Simulation, panel: Panel, do: Do) -> None:
    """Register all keys; what one of them asks for is handed to `do`, as by the controls."""

    def steer(key: viser._messages.HotkeyKey, words: str, turns: float) -> None:
        @gui.add_command(f"Run {words}", hotkey=key).on_trigger
        def _(event: viser.CommandEvent) -> None:
            if event.client is None:
                return
            camera = event.client.camera
            ahead = np.asarray(camera.look_at) - np.asarray(camera.position)
            angle = math.atan2(ahead[1], ahead[0]) + math.pi * turns
            do(lambda: simulation.aim_towards(panel.selected, angle, AHEAD))

    def bind(key: viser._messages.HotkeyKey, words: str, act: Callable[[], None]) -> None:
        @gui.add_command(words, hotkey=key).on_trigger
        def _(event: viser.CommandEvent) -> None:
            do(act)

    steer("I", "away from you", 0.0)
    steer("J", "to the left", 0.5)
    steer("K", "towards you", 1.0)
    steer("L", "to the right", -0.5)
    bind("P", "Pause", panel.toggle_pause)
    bind("R", "Reset", simulation.reset)
    bind("B", "Push", panel.push)
    bind("N", "Next robot", panel.select_next)
    bind("F", "Follow the robot", panel.toggle_follow)
    bind("G", "Roam", panel.toggle_roaming)
    bind("C", "Color by", panel.next_coloring)
