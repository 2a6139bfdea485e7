"""Draws robots into a viser scene, with their targets, arrows, trails and the ground.

The world moves under the camera rather than the camera over the world, so that a robot is
followed while whoever watches turns and zooms as they like. All limbs of all robots are two
nodes, tubes and balls, so that a frame is a handful of messages however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import trimesh
import viser
from numpy.typing import NDArray

from sgrl.envs.rendering import TARGET_COLOR
from sgrl.viewer.limb_colors import Colors, to_bytes
from sgrl.viewer.robot import XY, Robot

Array = NDArray[np.float64]

WORLD = "/world"
SKY = (255, 255, 255)
SHADE = (170, 175, 185)
SUN = (-3.0, -2.0, 6.0)
GROUND = (226, 231, 236)
CELL = (196, 203, 211)
SECTION = (160, 169, 180)
SECTION_SIZE = 5.0
"""Meters between the strong lines on the ground; the weak ones are one meter apart."""
TARGET = np.round(255 * np.array(TARGET_COLOR[:3])).astype(np.uint8)
TRAIL = (45, 105, 190)
POLE_HEIGHT = 1.6
ARROW = (0.6, 1.5)
"""Meters from the torso at which the arrow to the target starts and ends."""
CAMERA = (-2.4, -3.0, 1.9)
LOOK_AT = (0.0, 0.0, 0.55)
FOLLOWING = 0.2
"""The share of its lag that the world makes up in a frame: smooths the gait away."""
TRAIL_EVERY = 5
"""Frames between two updates of the trails, which are long."""
TELEPORT = 3.0
"""Meters; a robot that is suddenly farther away is followed at once."""


class Stage:
    """The scene of one server."""

    def __init__(self, server: viser.ViserServer, robots: int) -> None:
        """`robots`: how many are to be in the picture at first."""
        self._scene = scene = server.scene
        # viser's own light is so bright that colors turn pale.
        scene.configure_environment_map(None)
        scene.configure_default_lights(False)
        scene.add_light_hemisphere("/light/sky", ground_color=SHADE, intensity=1.0)
        scene.add_light_directional("/light/sun", position=SUN, intensity=1.6, cast_shadow=True)
        scene.configure_fog(30.0, 90.0, color=SKY)
        server.initial_camera.position = (1.0 + 0.2 * (robots - 1)) * np.array(CAMERA)
        server.initial_camera.look_at = LOOK_AT
        self._followed = np.zeros(2)
        self._world = scene.add_frame(WORLD, show_axes=False)
        self._ground = scene.add_grid(
            "/ground",
            infinite_grid=True,
            cell_size=1.0,
            cell_color=CELL,
            section_size=SECTION_SIZE,
            section_color=SECTION,
            fade_distance=80.0,
            plane_color=GROUND,
            plane_opacity=1.0,
            shadow_opacity=0.35,
        )
        self._drawn: tuple[object, ...] = ()
        self._draws = 0
        self._trails: list[viser.LineSegmentsHandle] = []
        self._labels: list[viser.LabelHandle] = []

    def to_world(self, xy: XY) -> XY:
        """Shift a point of the scene, such as one that was clicked, to that of the world."""
        world: XY = xy + self._followed
        return world

    def draw(
        self,
        robots: Sequence[Robot],
        colors: Sequence[Colors],
        *,
        follow: Robot | None,
        labels: Sequence[str] = (),
    ) -> None:
        """Show robots as they are, each limb in its color; `labels` float above them."""
        key = tuple((id(robot), robot.body) for robot in robots)
        if key != self._drawn:
            self._make(robots)
            self._drawn, self._draws = key, 0
        if len(labels) != len(self._labels):
            self._make_labels(len(labels))
        if follow is not None:
            self._follow(follow.xy)
        self._place_limbs(robots, colors)
        self._place_targets(robots)
        if self._draws % TRAIL_EVERY == 0:
            self._place_trails(robots)
        self._draws += 1
        for label, text, robot in zip(self._labels, labels, robots, strict=False):
            label.text = text
            label.position = (*robot.xy, float(robot.env.data.xpos[1, 2]) + 0.75)

    def _follow(self, xy: XY) -> None:
        lag = xy - self._followed
        self._followed = self._followed + (1.0 if np.hypot(*lag) > TELEPORT else FOLLOWING) * lag
        self._world.position = (*-self._followed, 0.0)
        # The ground is endless in the picture only, so that it stays under the camera.
        self._ground.position = (*-np.mod(self._followed, SECTION_SIZE), 0.0)

    def _add_limbs(
        self, name: str, mesh: trimesh.Trimesh, scales: Sequence[Array]
    ) -> viser.BatchedMeshHandle:
        """One node for all parts of all robots that have this shape, each with its scale."""
        count = sum(map(len, scales))
        return self._scene.add_batched_meshes_simple(
            f"{WORLD}/{name}",
            mesh.vertices,
            mesh.faces,
            batched_wxyzs=np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)),
            batched_positions=np.zeros((count, 3)),
            batched_scales=np.concatenate(scales),
            batched_colors=np.zeros((count, 3), np.uint8),
            lod="off",
        )

    def _make(self, robots: Sequence[Robot]) -> None:
        """New nodes under the old names, which takes the old ones away."""
        scene = self._scene
        tube = trimesh.creation.cylinder(radius=1.0, height=2.0, sections=24, cap=False)
        ball = trimesh.creation.icosphere(subdivisions=3)
        self._tubes = self._add_limbs("tubes", tube, [robot.shape.tube_scales for robot in robots])
        self._balls = self._add_limbs("balls", ball, [robot.shape.ball_scales for robot in robots])
        marker = _marker()
        colors = self._target_colors(robots)
        self._targets = scene.add_batched_meshes_simple(
            f"{WORLD}/targets",
            marker.vertices,
            marker.faces,
            batched_wxyzs=np.tile([1.0, 0.0, 0.0, 0.0], (len(robots), 1)),
            batched_positions=np.zeros((len(robots), 3)),
            batched_colors=colors,
            lod="off",
        )
        self._arrows = scene.add_arrows(
            f"{WORLD}/arrows",
            np.zeros((len(robots), 2, 3)),
            colors,
            shaft_radius=0.03,
            head_radius=0.08,
            head_length=0.18,
        )
        for trail in self._trails:
            trail.remove()
        self._trails = [
            scene.add_line_segments(
                f"{WORLD}/trails/{index}",
                np.zeros((1, 2, 3)),
                to_bytes(np.array(robot.color)) if len(robots) > 1 else TRAIL,
                thickness=0.03,
            )
            for index, robot in enumerate(robots)
        ]

    @staticmethod
    def _target_colors(robots: Sequence[Robot]) -> NDArray[np.uint8]:
        """(robots, 3): red for a single robot, else its own, to tell whose target it is."""
        if len(robots) == 1:
            return TARGET[None]
        return to_bytes(np.array([robot.color for robot in robots]))

    def _make_labels(self, count: int) -> None:
        for label in self._labels:
            label.remove()
        self._labels = [
            self._scene.add_label(f"{WORLD}/labels/{index}", "", anchor="bottom-center")
            for index in range(count)
        ]

    def _place_limbs(self, robots: Sequence[Robot], colors: Sequence[Colors]) -> None:
        tubes, turns, balls = [], [], []
        for robot in robots:
            shift = np.array([*robot.origin, 0.0])
            centers, wxyz, ends = robot.shape.poses(robot.env.data)
            tubes.append(centers + shift)
            turns.append(wxyz)
            balls.append(ends + shift)
        self._tubes.batched_positions = np.concatenate(tubes)
        self._tubes.batched_wxyzs = np.concatenate(turns)
        self._balls.batched_positions = np.concatenate(balls)
        pairs = list(zip(robots, colors, strict=True))
        self._tubes.batched_colors = np.concatenate([c[r.shape.tube_limbs] for r, c in pairs])
        self._balls.batched_colors = np.concatenate([c[r.shape.ball_limbs] for r, c in pairs])

    def _place_targets(self, robots: Sequence[Robot]) -> None:
        """Markers on the targets, and arrows in their direction."""
        self._targets.batched_positions = np.array([(*r.target, 0.0) for r in robots])
        arrows = []
        for robot in robots:
            away = robot.target - robot.xy
            direction = away / max(float(np.hypot(*away)), 1e-9)
            arrows.append([(*(robot.xy + reach * direction), 0.03) for reach in ARROW])
        self._arrows.points = np.array(arrows)

    def _place_trails(self, robots: Sequence[Robot]) -> None:
        for robot, trail in zip(robots, self._trails, strict=True):
            points = np.array([*robot.trail, robot.xy])
            points = np.column_stack((points, np.full(len(points), 0.015)))
            trail.points = np.stack((points[:-1], points[1:]), axis=1)


def _marker() -> trimesh.Trimesh:
    """A pole in a ring of one meter, within which a target counts as reached."""
    ring = trimesh.creation.annulus(r_min=0.92, r_max=1.0, height=0.02, sections=48)
    pole = trimesh.creation.cylinder(radius=0.04, height=POLE_HEIGHT, sections=16)
    pole.apply_translation((0.0, 0.0, POLE_HEIGHT / 2))
    knob = trimesh.creation.icosphere(subdivisions=2, radius=0.12)
    knob.apply_translation((0.0, 0.0, POLE_HEIGHT))
    parts = (ring, pole, knob)
    offsets = np.cumsum([0, *(len(part.vertices) for part in parts[:-1])])
    return trimesh.Trimesh(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.faces + offset for part, offset in zip(parts, offsets, strict=True)]),
    )
