"""Pictures of a simulation: off screen as arrays, or live in a window.

The camera follows the torso, the floor is endless with squares of one metre, a pole marks
a target that is near, and an arrow on the ground points to one that is not.
"""

from __future__ import annotations

import atexit
import copy
import os
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from sgrl.cores import cores_are_busy
from sgrl.envs.bounds import MAX_FRAME_PIXELS, whole_number

if TYPE_CHECKING:
    from mujoco.viewer import Handle

POLE_DISTANCE = 60.0
"""Metres up to which the target itself is drawn."""
POLE = np.array([0.0, 0.0, 1.5])
"""The way from a target on the ground to the top of its pole, metres."""
TARGET_COLOR = (0.90, 0.15, 0.20, 1.0)
CAMERA_DISTANCE = 4.0
CAMERA_ELEVATION = -18.0
CAMERA_AZIMUTH = 120.0


class FrameRenderer:
    """Draws data of one model into arrays (height, width, 3) of uint8."""

    def __init__(
        self, model: mujoco.MjModel, width: int = 480, height: int = 480, *, fast: bool = False
    ) -> None:
        """`fast`: without smoothed edges and with coarser shadows, in a third of the time."""
        self._model = _endless(model)
        if fast:
            self._model.vis.quality.offsamples = 0
            self._model.vis.quality.shadowsize = 1024
        self._model.vis.global_.offwidth = max(width, 640)
        self._model.vis.global_.offheight = max(height, 480)
        use_egl_without_display()
        if cores_are_busy():
            # Mesa draws in software with a thread for each core, which would wait for each other.
            os.environ.setdefault("LP_NUM_THREADS", "1")
        try:
            self._renderer = mujoco.Renderer(self._model, height, width)
        except Exception as error:
            raise RuntimeError(
                "no OpenGL to render with. On a machine without a screen install EGL "
                "(Debian: apt-get install libegl1 libgl1-mesa-dri) or OSMesa (libosmesa6) and "
                f"set MUJOCO_GL to egl or osmesa before Python starts. MuJoCo said: {error}"
            ) from error
        self.camera = tracking_camera()

    def frame(
        self, data: mujoco.MjData, target: NDArray[np.float64] | None = None
    ) -> NDArray[np.uint8]:
        """The scene as it is in `data`, whose positions must be current."""
        self.camera.lookat[:] = data.xpos[1]
        self.camera.lookat[2] = max(0.6, self.camera.lookat[2] * 0.7)
        self._renderer.update_scene(data, self.camera)
        if target is not None:
            draw_target(self._renderer.scene, data.xpos[1], target)
        frame: NDArray[np.uint8] = self._renderer.render()
        return frame

    def close(self) -> None:
        """Free what the renderer holds."""
        self._renderer.close()


class Window:
    """A window on a screen, following the torso."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, dt: float) -> None:
        """`dt`: seconds between two calls of `show`, so that it runs in real time."""
        if not has_display():
            raise RuntimeError(
                'render_mode="human" needs a screen and there is none (DISPLAY is not set); '
                'use render_mode="rgb_array"'
            )
        import glfw
        from mujoco import viewer

        # MuJoCo would end the whole process where GLFW finds no screen.
        with warnings.catch_warnings(action="ignore"):
            if not glfw.init():
                raise RuntimeError(
                    'render_mode="human" can\'t open a window on the screen '
                    f"{os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY')}; "
                    'use render_mode="rgb_array"'
                )
        others = set(threading.enumerate())
        self._handle: Handle = viewer.launch_passive(
            model, data, show_left_ui=False, show_right_ui=False
        )
        self._threads = [thread for thread in threading.enumerate() if thread not in others]
        # Left open, the window must close before MuJoCo ends GLFW, or Python crashes at exit.
        atexit.register(self.close)
        with self._handle.lock():
            camera = tracking_camera()
            self._handle.cam.type = mujoco.mjtCamera.mjCAMERA_TRACKING
            self._handle.cam.trackbodyid = 1
            self._handle.cam.distance = camera.distance
            self._handle.cam.elevation = camera.elevation
            self._handle.cam.azimuth = camera.azimuth
            model.geom("floor").size[:2] = 0.0
        self._dt = dt
        self._shown = time.monotonic()

    def show(self, data: mujoco.MjData, target: NDArray[np.float64]) -> None:
        """Show the present state."""
        if self._handle.is_running():
            with self._handle.lock():
                self._handle.user_scn.ngeom = 0
                draw_target(self._handle.user_scn, data.xpos[1], target)
            self._handle.sync()
            time.sleep(max(0.0, self._shown + self._dt - time.monotonic()))
            self._shown = time.monotonic()

    def close(self) -> None:
        """Close the window, if it is open."""
        atexit.unregister(self.close)
        self._handle.close()
        for thread in self._threads:
            thread.join(timeout=5.0)


def check_frame_size(width: int, height: int) -> None:
    """Refuse what no frame can have."""
    for name, size in (("width", width), ("height", height)):
        whole_number(f"{name} of a frame", size, 1, MAX_FRAME_PIXELS, " pixels")


def has_display() -> bool:
    """Whether a window can be opened."""
    if not sys.platform.startswith("linux"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def use_egl_without_display() -> None:
    """On Linux without a screen, render through EGL unless MUJOCO_GL says otherwise.

    MuJoCo reads MUJOCO_GL once, when it is imported, which is too early for us to set it.
    """
    if has_display() or os.environ.get("MUJOCO_GL"):
        return
    os.environ.setdefault("PYOPENGL_PLATFORM", "egl")
    from mujoco.egl import GLContext
    from mujoco.rendering.classic import gl_context

    gl_context.GLContext = GLContext


def tracking_camera() -> mujoco.MjvCamera:
    """A free camera behind and to the side; point it with `lookat`."""
    camera = mujoco.MjvCamera()
    camera.distance = CAMERA_DISTANCE
    camera.elevation = CAMERA_ELEVATION
    camera.azimuth = CAMERA_AZIMUTH
    return camera


def draw_target(scene: Any, torso: NDArray[np.float64], target: NDArray[np.float64]) -> None:
    """Add a pole on a near target, and an arrow on the ground in its direction."""
    foot = np.array([target[0], target[1], 0.0])
    start = np.array([torso[0], torso[1], 0.02])
    offset = foot[:2] - start[:2]
    distance = float(np.hypot(*offset))
    if distance < POLE_DISTANCE:
        _connect(scene, mujoco.mjtGeom.mjGEOM_CYLINDER, 0.06, foot, foot + POLE)
    if distance > 1e-6:
        direction = np.array([*(offset / distance), 0.0])
        _connect(
            scene,
            mujoco.mjtGeom.mjGEOM_ARROW,
            0.035,
            start + 0.5 * direction,
            start + min(1.5, distance) * direction,
        )


def _connect(
    scene: Any,
    kind: mujoco.mjtGeom,
    width: float,
    start: NDArray[np.float64],
    end: NDArray[np.float64],
) -> None:
    if scene.ngeom >= scene.maxgeom:
        return
    geom = scene.geoms[scene.ngeom]
    mujoco.mjv_initGeom(
        geom, kind, np.zeros(3), np.zeros(3), np.zeros(9), np.array(TARGET_COLOR, np.float32)
    )
    mujoco.mjv_connector(geom, kind, width, start, end)
    scene.ngeom += 1


def _endless(model: mujoco.MjModel) -> mujoco.MjModel:
    """A copy for drawing, whose floor has no edge (for contact it has none anyway)."""
    drawn = copy.copy(model)
    drawn.geom("floor").size[:2] = 0.0
    # MuJoCo sizes shadows by the model, floor included; a wide floor would make them coarse.
    drawn.stat.extent = 4.0
    return drawn
