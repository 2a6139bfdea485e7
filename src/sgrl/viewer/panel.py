"""The controls and read-outs beside the scene, shared by all who watch.

A control never touches the simulation itself, since it is called from threads of the server: it
hands what is to be done to `do`, and the page does it between two frames.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import viser

from sgrl.viewer import readout
from sgrl.viewer.limb_colors import Coloring
from sgrl.viewer.pace import Pace
from sgrl.viewer.robot import Robot
from sgrl.viewer.simulation import MAX_ROBOTS, Simulation

Do = Callable[[Callable[[], None]], None]

HELP = "Click on the ground: the robot runs there. Drag to turn the view, scroll to zoom."
KEYS = """
| key | what it does |
| :-: | --- |
| I J K L | run away from you, left, towards you, right |
| N | next robot |
| B | push |
| R | reset |
| P | pause |
| F | follow the robot or not |
| G | roam or not |
| C | color by body, action, attention |
| W A S D Q E, arrows | move the camera |
| Ctrl+K | search all of these |

Click on the scene first if a control has the keyboard.
"""
ALL = "all"
SPEEDS = {"real time": 1.0, "1/2": 0.5, "1/4": 0.25, "1/10": 0.1}


class Panel:
    """What is set on the page: which robot is meant, how fast it goes, how it is colored."""

    def __init__(
        self, server: viser.ViserServer, simulation: Simulation, pace: Pace, do: Do
    ) -> None:
        self.selected = simulation.robots[0]
        """The robot that is followed, pushed, cut and replaced."""
        self.paused = False
        self.follows = True
        self.coloring: Coloring = "body"
        self._gui = server.gui
        self._simulation = simulation
        self._pace = pace
        self._do = do
        self._limbs: dict[str, viser.GuiCheckboxHandle] = {}
        self._limbs_of: Robot | None = None
        self._build()
        self.refresh_robots()
        self.refresh_numbers()

    def _build(self) -> None:
        gui, simulation = self._gui, self._simulation
        gui.main_panel.dock_right()
        gui.add_html(readout.title(simulation.driver))  # in Markdown a name could be code
        # Those it starts with may be others, such as mirror images.
        self._bodies = simulation.driver.bodies()
        self._bodies |= {robot.whole.name: robot.whole for robot in simulation.robots}
        families = dict.fromkeys(str(body.family) for body in self._bodies.values())
        self._family = gui.add_dropdown(
            "Family", (ALL, *families), visible=len(families) > 1, hint="Which bodies are listed"
        )
        self._on_change(self._family, self._list_bodies)
        self._body = gui.add_dropdown(
            "Body", tuple(self._bodies), hint="All that this policy can drive; type to search"
        )
        self._on_change(self._body, self._replace)
        self._robot = gui.add_dropdown("Robot", ("1",), hint="The one meant by all the controls")
        self._on_change(self._robot, self._select)
        self._time = gui.add_html("")
        self._table = gui.add_html("")
        tabs = gui.add_tab_group()
        with tabs.add_tab("Drive"):
            self._build_drive()
        self._limbs_tab = tabs.add_tab("Limbs")
        with self._limbs_tab:
            gui.add_markdown("Cut a limb off, or put it back. The policy is the same.")
        with tabs.add_tab("Actions"):
            gui.add_markdown("Of hinges x (red), y (green) and z (blue), from -1 to 1.")
            self._actions = gui.add_html("")
        with tabs.add_tab("Keys"):
            gui.add_markdown(KEYS)
        gui.add_markdown(HELP)

    def _build_drive(self) -> None:
        gui, simulation = self._gui, self._simulation
        many = gui.add_button_group("Robots", ("Add", "Remove"), hint=f"Up to {MAX_ROBOTS}")
        self._on_press(many, {"Add": self._add, "Remove": self._remove})
        buttons = gui.add_button_group("Do", ("Push", "Reset"), hint="Reset: a random start")
        self._on_press(buttons, {"Push": self.push, "Reset": simulation.reset})
        self._strength = gui.add_slider("Push, m/s", 0.5, 5.0, 0.5, 1.5)
        self._pause_box = gui.add_checkbox("Pause", False)
        self._on_change(self._pause_box, self._pause)
        self._on_change(gui.add_dropdown("Speed", tuple(SPEEDS)), self._slow_down)
        choices = ("body", "action") + ("attention",) * simulation.driver.has_attention
        self._color_by = gui.add_dropdown("Color by", choices)
        self._on_change(self._color_by, self._color)
        self._legend = gui.add_html("", visible=False)
        self._follow_box = gui.add_checkbox("Follow the robot", True)
        self._on_change(self._follow_box, self._follow)
        self._on_change(gui.add_checkbox("Get up after a fall", simulation.gets_up), self._get_up)
        hint = "A target that is reached makes way for a new one"
        self._roam_box = gui.add_checkbox("Roam", simulation.roams, hint=hint)
        self._on_change(self._roam_box, self._roam)

    def _on_change(self, handle: viser.GuiInputHandle[Any], act: Callable[[Any], None]) -> None:
        """Have `act` done with the new value when someone on the page changes it."""

        @handle.on_update
        def _(event: viser.GuiEvent[Any]) -> None:
            if event.client_id is not None:
                value = event.target.value
                self._do(lambda: act(value))

    def _on_press(
        self, group: viser.GuiButtonGroupHandle, acts: dict[str, Callable[[], object]]
    ) -> None:
        @group.on_click
        def _(event: viser.GuiEvent[Any]) -> None:
            act = acts[event.target.value]
            self._do(lambda: cast(None, act()))

    def _replace(self, name: str) -> None:
        self.selected = self._simulation.replace(self.selected, self._bodies[name])
        self.refresh_robots()

    def _list_bodies(self, family: str) -> None:
        """List the bodies of a family, and that of the selected robot."""
        own = self.selected.whole.name
        bodies = self._bodies.items()
        self._body.options = tuple(
            name for name, body in bodies if name == own or family in (ALL, body.family)
        )
        _set(self._body, own)

    def _select(self, label: str) -> None:
        number, robots = int(label.split(":")[0]), self._simulation.robots
        if number > len(robots):
            raise ValueError(f"robot {number} was removed")
        self.selected = robots[number - 1]
        self.refresh_robots()

    def _add(self) -> None:
        self.selected = self._simulation.add(self.selected.whole)
        self.refresh_robots()

    def _remove(self) -> None:
        self._simulation.remove(self.selected)
        self.selected = self._simulation.robots[0]
        self.refresh_robots()

    def push(self) -> None:
        """Push the selected robot."""
        self._simulation.push(self.selected, self._strength.value)

    def _pause(self, paused: bool) -> None:
        self.paused = paused
        self._pace.restart()

    def _slow_down(self, speed: str) -> None:
        self._pace.speed = SPEEDS[speed]
        self._pace.restart()

    def _color(self, coloring: Coloring) -> None:
        self.coloring = coloring
        self._legend.content = readout.legend(coloring)
        self._legend.visible = coloring != "body"

    def _follow(self, follows: bool) -> None:
        self.follows = follows

    def _get_up(self, gets_up: bool) -> None:
        self._simulation.gets_up = gets_up

    def _roam(self, roams: bool) -> None:
        self._simulation.roams = roams

    def toggle_pause(self) -> None:
        """Stop time, or let it go on."""
        _set(self._pause_box, not self.paused)
        self._pause(not self.paused)

    def toggle_follow(self) -> None:
        """Follow the selected robot, or stay where the camera is."""
        _set(self._follow_box, not self.follows)
        self._follow(not self.follows)

    def toggle_roaming(self) -> None:
        """Have targets that are reached make way for new ones, or stay."""
        _set(self._roam_box, not self._simulation.roams)
        self._roam(not self._simulation.roams)

    def next_coloring(self) -> None:
        """Color limbs by the next of what they can be colored by."""
        choices = self._color_by.options
        coloring = choices[(choices.index(self.coloring) + 1) % len(choices)]
        _set(self._color_by, coloring)
        self._color(cast(Coloring, coloring))

    def select_next(self) -> None:
        """Select the next robot."""
        robots = self._simulation.robots
        self.selected = robots[(robots.index(self.selected) + 1) % len(robots)]
        self.refresh_robots()

    def _cut(self, name: str, kept: bool) -> None:
        robot = self.selected
        below = frozenset(_below(robot, name))
        missing = robot.missing - below if kept else robot.missing | below
        try:
            self._simulation.cut(robot, missing)
        finally:
            self._show_limbs()

    def refresh_robots(self) -> None:
        """Show which robots there are, and the limbs of the one that is selected."""
        robots = self._simulation.robots
        labels = tuple(f"{i}: {robot.whole.name}" for i, robot in enumerate(robots, start=1))
        self._robot.options = labels
        _set(self._robot, labels[robots.index(self.selected)])
        self._robot.visible = len(robots) > 1
        self._list_bodies(self._family.value)
        self._show_limbs()

    def _show_limbs(self) -> None:
        """A box for each limb of the selected robot, ticked if it is there."""
        robot = self.selected
        if robot is not self._limbs_of:
            for box in self._limbs.values():
                box.remove()
            self._limbs = {}
            self._limbs_of = robot
            fixed = not self._simulation.driver.takes_any_body
            with self._limbs_tab:
                for limb in robot.whole.limbs[1:]:
                    box = self._gui.add_checkbox(limb.name, True, disabled=fixed)
                    self._on_change(box, partial(self._cut, limb.name))
                    self._limbs[limb.name] = box
        for limb in robot.whole.limbs[1:]:
            box = self._limbs[limb.name]
            _set(box, limb.name not in robot.missing)
            if self._simulation.driver.takes_any_body:
                box.disabled = limb.parent in robot.missing

    def refresh_numbers(self) -> None:
        """Show how the robots are doing."""
        pace = self._pace
        self._time.content = readout.pace(pace.speed, pace.achieved, pace.keeps_up, self.paused)
        self._table.content = readout.robots(
            self._simulation.robots, self.selected, self._simulation.driver
        )
        self._actions.content = readout.actions(self.selected)


def _set(handle: Any, value: object) -> None:
    """Show another value; viser's type for it lacks the setter."""
    handle.value = value


def _below(robot: Robot, name: str) -> list[str]:
    """A limb and all that hangs on it when the body is whole."""
    found = [name]
    for limb in robot.whole.limbs:
        if limb.parent in found:
            found.append(limb.name)
    return found
