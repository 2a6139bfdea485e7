"""A rollout as one HTML file with a timeline, which plays anywhere without a server."""

from __future__ import annotations

from pathlib import Path

from sgrl.files import writable
from sgrl.viewer.limb_colors import body_colors
from sgrl.viewer.robot import Robot
from sgrl.viewer.server import start_server
from sgrl.viewer.simulation import Simulation
from sgrl.viewer.stage import Stage
from sgrl.viewer.video import show_progress

FPS = 25
FIRST_PORT = 8600
"""Where to look for a port: viser records only what a server is told to show."""


def write_replay(path: Path, simulation: Simulation, seconds: float) -> int:
    """Simulate so many seconds and write them as a page; returns the number of frames."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{path}: a replay is an .html file")
    frames = max(1, round(seconds * FPS))
    with writable(path) as target:
        server = start_server("127.0.0.1", FIRST_PORT, "sgrl")
        try:
            stage = Stage(server, len(simulation.robots))
            recording = server.get_scene_serializer()
            for frame in show_progress(range(frames), frames, str(path)):
                if frame:
                    simulation.advance(1 / FPS)
                robots = simulation.robots
                stage.draw(
                    robots,
                    [body_colors(robot.body, robot.color) for robot in robots],
                    follow=robots[0],
                    labels=[caption(robot) for robot in robots],
                )
                recording.insert_sleep(1 / FPS)
            target.write_text(recording.as_html(), encoding="utf-8")
        finally:
            server.stop()
    return frames


def caption(robot: Robot) -> str:
    """What is said of a robot in a replay or a video."""
    return f"{robot.speed:.1f} m/s  return {robot.total:.0f}  {robot.distance:.1f} m to go"
