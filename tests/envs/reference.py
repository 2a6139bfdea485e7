"""The task computed a second time, in plain Python from `qpos` and `qvel`, to test against.

It shares nothing with the package but the table of facts written out below.
"""

import math

import mujoco
import numpy as np

TIMESTEP = {"hopper": 0.002, "walker": 0.002, "humanoid": 0.002, "cheetah": 0.01}
HOPPER_LOW = {"3_shin": 0.45, "4_lower_shin": 0.60, "5_full": 0.95}
WALKER_BOUNDS = {
    "2_right_leg_left_knee": (0.54, 1.74),
    "3_left_knee_right_knee": (0.54, 1.74),
    "4_right_knee_left_foot": (0.664, 1.864),
    "3_left_leg_right_foot": (0.664, 2.0),
    "5_left_knee": (0.664, 2.0),
    "5_foot": (0.8, 2.0),
    "6_right_foot": (0.8, 2.0),
    "7_full": (0.8, 2.0),
}


def family_and_rest(name):
    _, family, rest = name.split("_", 2)
    return family, rest


def roll_pitch_yaw(quat):
    """Angles of the turn z, then y, then x."""
    w, x, y, z = quat
    roll = math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x))))
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return roll, pitch, yaw


def terms(name, before, after, action, target):
    """The four reward terms of a step between two states (qpos, qvel)."""
    family, _ = family_and_rest(name)
    dt = 4 * TIMESTEP[family]
    start, end = before[0][:2], after[0][:2]
    yaw = roll_pitch_yaw(before[0][3:7])[2]
    forward = (end - start) @ np.array([math.cos(yaw), math.sin(yaw)]) / dt
    return {
        "reward_alive": 0.0 if family == "cheetah" else 1.0,
        "reward_progress": (math.dist(start, target) - math.dist(end, target)) / dt,
        "reward_forward": 0.0 if family == "hopper" else forward,
        "reward_control": -0.001 * sum(min(1.0, max(-1.0, float(a))) ** 2 for a in action),
    }


def healthy(name, model, qpos, qvel):
    """Whether the episode goes on."""
    family, rest = family_and_rest(name)
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    height = qpos[2]
    roll, pitch, _ = roll_pitch_yaw(qpos[3:7])
    if family == "hopper":
        tilt = math.acos(max(-1.0, min(1.0, 1 - 2 * (qpos[4] ** 2 + qpos[5] ** 2))))
        state = np.concatenate([qpos[2:], qvel])
        finite = np.isfinite(state).all() and (np.abs(state) < 100).all()
        return bool(finite and height > HOPPER_LOW[rest] and tilt < 1)
    if family == "walker":
        low, high = WALKER_BOUNDS[rest]
        return low < height < high and abs(pitch) < 1 and abs(roll) < 1
    if family == "humanoid":
        return 0.834625 < height < 1.834625 and abs(pitch) < 1 and abs(roll) < 1
    names = [model.body(i).name for i in range(model.nbody)]
    watched = [n for n in ("torso", "left_fthigh", "right_fthigh") if n in names]
    lowest = min(data.body(n).xpos[2] for n in watched)
    moving = float(qvel @ qvel) > 1
    return lowest > 0.26 and abs(pitch) < 1.35 and abs(roll) < 1.35 and moving


def observation(model, qpos, qvel, target):
    """The flat observation, limb by limb."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = qpos, qvel
    mujoco.mj_forward(model, data)
    offset = np.array([*target, 0.0]) - [*data.xpos[1, :2], 0.0]
    direction = offset / np.linalg.norm(offset)
    numbers = []
    for body in range(1, model.nbody):
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 0)
        angular, linear = velocity[:3], velocity[3:]
        numbers += [*(data.xpos[body] - data.xpos[1]), 0, 0, -1, *direction]
        for vector in (linear, angular):
            numbers += list(vector * min(1.0, 10 / max(np.linalg.norm(vector), 1e-300)))
        if body == 1:
            numbers += [0.0] * 9 + [0.0] * 3 + [0.5] * 9
        else:
            first = model.body_jntadr[body]
            named = {
                model.joint(joint).name[-1]: joint
                for joint in range(first, first + model.body_jntnum[body])
            }
            joints = [named.get(axis) for axis in "xyz"]
            for joint in joints:
                numbers += [0.0] * 3 if joint is None else list(data.xaxis[joint])
            angles = [0.0 if joint is None else qpos[model.jnt_qposadr[joint]] for joint in joints]
            numbers += angles
            for joint, angle in zip(joints, angles, strict=True):
                if joint is None:
                    numbers += [0.0] * 3
                    continue
                low, high = model.jnt_range[joint]
                scaled = [(math.pi + limit) / (2 * math.pi) for limit in (low, high)]
                numbers += [(angle - low) / (high - low), *scaled]
        name = model.body(body).name
        numbers += [float(kind in name) for kind in ("torso", "thigh", "shin", "foot")]
        numbers.append(data.xpos[body, 2])
    return np.array(numbers)
