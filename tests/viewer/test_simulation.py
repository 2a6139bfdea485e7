"""The world of the viewer without any page."""

from __future__ import annotations

import numpy as np
import pytest

from sgrl.envs.observation import split
from sgrl.envs.variant import REACH_DISTANCE
from sgrl.morphology import FAMILIES, Morphology, body_names, get_body
from sgrl.viewer.driver import RandomDriver
from sgrl.viewer.robot import XY, Robot
from sgrl.viewer.shapes import lowest_point
from sgrl.viewer.simulation import (
    FARTHEST_TARGET,
    HOMES,
    MAX_ROBOTS,
    SPACING,
    Simulation,
    ground_point,
)
from tests.viewer.drivers import Still

CHEETAH, WALKER = get_body("3d_cheetah_14_full"), get_body("3d_walker_7_full")
HUMANOID = get_body("3d_humanoid_9_full")


def observed_direction(robot: Robot) -> XY:
    direction: XY = split(robot.observation, robot.body.num_limbs).target[:2]
    return direction


def test_every_robot_runs_at_its_own_rate() -> None:
    driver = Still()
    simulation = Simulation(driver, [CHEETAH, WALKER, WALKER])
    simulation.gets_up = False
    for _ in range(30):
        simulation.advance(1 / 30)
    assert [robot.clock for robot in simulation.robots] == pytest.approx([1.0] * 3, abs=1e-9)
    assert simulation.steps == 25 + 2 * 125
    assert sum(driver.calls) == simulation.steps
    assert len(driver.calls) < 160, "robots that are due at once act in one batch"
    assert max(driver.calls) == 3


def test_the_same_seed_gives_the_same_run() -> None:
    runs = []
    for _ in range(2):
        simulation = Simulation(RandomDriver(3), [CHEETAH, WALKER, WALKER], seed=5)
        simulation.advance(0.5)
        runs.append([robot.env.data.qpos.copy() for robot in simulation.robots])
    for first, second in zip(*runs, strict=True):
        assert np.array_equal(first, second)
    assert not np.array_equal(
        Simulation(Still(), [WALKER], seed=6).robots[0].env.data.qpos,
        Simulation(Still(), [WALKER], seed=5).robots[0].env.data.qpos,
    )


def test_a_new_target_is_seen_at_once() -> None:
    simulation = Simulation(Still(), [WALKER])
    (robot,) = simulation.robots
    for place in ((5.0, 0.0), (0.0, 7.0), (-3.0, -4.0)):
        simulation.aim(np.array(place))
        assert np.array_equal(robot.target, place)
        away = robot.target - robot.xy
        assert np.allclose(observed_direction(robot), away / np.hypot(*away), atol=1e-6)
        assert robot.distance == pytest.approx(np.hypot(*away))
        simulation.advance(0.008)
        assert np.array_equal(robot.target, place)


def test_a_group_keeps_its_formation_at_a_target() -> None:
    simulation = Simulation(Still(), [WALKER] * 4)
    simulation.aim(np.array([12.0, -3.0]))
    targets = np.array([robot.target for robot in simulation.robots])
    assert np.allclose(targets[0], (12.0, -3.0))
    gaps = np.linalg.norm(targets[:, None] - targets[None], axis=-1)[~np.eye(4, dtype=bool)]
    assert gaps.min() >= SPACING - 1e-9
    homes = np.array([robot.home for robot in simulation.robots])
    assert np.allclose(targets - targets[0], homes - homes[0])
    simulation.aim(np.array([1.0, 2.0]), simulation.robots[2])
    assert np.allclose(simulation.robots[2].target, (1.0, 2.0))
    targets = np.array([robot.target for robot in simulation.robots])
    assert np.allclose(targets - targets[0], homes - homes[0])


def test_a_target_in_a_direction_of_one_robot() -> None:
    simulation = Simulation(Still(), [WALKER] * 3)
    second = simulation.robots[1]
    simulation.aim_towards(second, np.pi / 2, 8.0)
    assert np.allclose(second.target - second.xy, (0.0, 8.0))
    gaps = np.array([r.target - second.target - r.home + second.home for r in simulation.robots])
    assert np.allclose(gaps, 0)


def test_every_robot_has_a_color_of_its_own() -> None:
    simulation = Simulation(Still(), [WALKER] * MAX_ROBOTS)
    assert simulation.robots[0].color == FAMILIES["walker"].color[:3]
    assert len({robot.color for robot in simulation.robots}) == MAX_ROBOTS
    simulation.replace(simulation.robots[3], CHEETAH)
    assert simulation.robots[3].color == FAMILIES["cheetah"].color[:3]
    simulation.remove(simulation.robots[0])
    assert simulation.add(WALKER).color == FAMILIES["walker"].color[:3]


def test_a_target_behind_each_robot() -> None:
    simulation = Simulation(Still(), [CHEETAH, WALKER])
    simulation.aim_behind(8.0)
    for robot in simulation.robots:
        assert robot.distance == pytest.approx(8.0)
        ahead = robot.env.data.xmat[1].reshape(3, 3)[:2, 0]
        assert observed_direction(robot) @ ahead == pytest.approx(-np.hypot(*ahead), abs=1e-6)


def test_a_target_under_the_robot_is_ignored() -> None:
    simulation = Simulation(Still(), [WALKER])
    (robot,) = simulation.robots
    before = robot.target
    simulation.aim(robot.xy)
    assert np.array_equal(robot.target, before)


@pytest.mark.parametrize("body", [WALKER, CHEETAH])
@pytest.mark.parametrize("angle", [0.0, 2.0])
def test_a_push_moves_the_whole_body(body: Morphology, angle: float) -> None:
    speed = 2.0
    velocities = []
    for pushed in (False, True):
        simulation = Simulation(Still(), [body], seed=1)
        simulation.gets_up = False
        (robot,) = simulation.robots
        # High up, where no ground takes part.
        robot.env.data.qpos[2] += 5.0
        if pushed:
            simulation.push(robot, speed, angle)
        simulation.advance(0.24)
        data, model = robot.env.data, robot.env.model
        mass = model.body_mass[:, None]
        # A body's velocity at its centre of mass, from cvel at the centre of the whole.
        arm = data.xipos - data.subtree_com[1]
        linear = data.cvel[:, 3:] + np.cross(data.cvel[:, :3], arm)
        velocities.append((mass * linear).sum(axis=0)[:2] / mass.sum())
        assert not data.xfrc_applied.any(), "it is over"
    gained = velocities[1] - velocities[0]
    assert np.allclose(gained, speed * np.array([np.cos(angle), np.sin(angle)]), atol=0.05)


def test_a_push_in_any_direction() -> None:
    simulation = Simulation(Still(), [WALKER])
    (robot,) = simulation.robots
    angles = []
    for _ in range(8):
        simulation.push(robot, 1.0)
        force = robot.env.data.xfrc_applied[1]
        assert force[2:].any() == np.False_
        angles.append(np.arctan2(force[1], force[0]))
    assert np.ptp(angles) > 1


def test_who_falls_gets_up_where_it_lies() -> None:
    simulation = Simulation(Still(), [HUMANOID])
    (robot,) = simulation.robots
    target = robot.target
    simulation.push(robot, 4.0, angle=1.0)
    places = []
    while robot.falls == 0:
        places.append(robot.xy)
        total = robot.total
        simulation.advance(0.008)
    assert np.hypot(*(robot.xy - places[-1])) < 0.2
    assert np.hypot(*(robot.xy - robot.home)) > 0.3, "not at home"
    assert np.allclose(robot.target, target)
    assert abs(total) > 1
    assert robot.total == 0
    assert robot.env.data.qpos[2] == pytest.approx(HUMANOID.torso_height, abs=0.02)
    away = robot.target - robot.xy
    assert np.allclose(observed_direction(robot), away / np.hypot(*away), atol=1e-6)


def test_or_stays_down() -> None:
    simulation = Simulation(Still(), [HUMANOID])
    simulation.gets_up = False
    (robot,) = simulation.robots
    simulation.advance(2.0)
    assert robot.falls == 0
    assert robot.env.data.xpos[1, 2] < 0.6
    assert robot.clock == pytest.approx(2.0)


@pytest.mark.parametrize("roams", [True, False])
def test_a_target_that_is_reached(roams: bool) -> None:
    simulation = Simulation(Still(), [WALKER], roams=roams)
    (robot,) = simulation.robots
    goal = robot.xy + np.array([0.6 * REACH_DISTANCE, 0.0])
    simulation.aim(goal)
    simulation.advance(0.08)
    assert robot.reached == 1, "once, though it is there for ten steps"
    assert robot.is_at_target != roams
    if not roams:
        assert np.allclose(robot.target, goal)
        assert observed_direction(robot)[0] > 0.9
    else:
        assert 9 < robot.distance < 21


def test_a_target_that_stays_also_if_the_robot_falls_on_it() -> None:
    simulation = Simulation(Still(), [WALKER], roams=False)
    (robot,) = simulation.robots
    goal = robot.xy + np.array([0.1, 0.05])
    simulation.aim(goal)
    robot.fall()
    assert np.allclose(robot.target, goal)
    assert np.array_equal(robot.observation, robot.env.set_target(goal - robot.origin))
    simulation.advance(0.08)
    assert np.allclose(robot.target, goal)


def test_cut_limbs_are_gone_and_the_rest_goes_on() -> None:
    simulation = Simulation(RandomDriver(), [CHEETAH])
    simulation.gets_up = False
    (robot,) = simulation.robots
    simulation.advance(0.2)
    target, qpos, qvel = robot.target, robot.env.data.qpos.copy(), robot.env.data.qvel.copy()
    simulation.cut(robot, frozenset({"left_fthigh", "left_fshin", "upper_tail"}))
    assert robot.body == CHEETAH.cut("upper_tail", "left_fthigh", name=robot.body.name)
    assert robot.missing == set(CHEETAH.limb_names) - set(robot.body.limb_names)
    assert {"left_fthigh", "left_fshin", "left_ffoot"} <= robot.missing
    assert np.array_equal(robot.target, target)
    kept = [i for i, name in enumerate(CHEETAH.limb_names[1:]) if name in robot.body.limb_names]
    hinges = np.array([3 * i + j for i in kept for j in range(3)])
    # The torso may be lifted, if the limbs reached into the ground.
    assert np.array_equal(robot.env.data.qpos[[0, 1, 3, 4, 5, 6]], qpos[[0, 1, 3, 4, 5, 6]])
    assert np.array_equal(robot.env.data.qpos[7:], qpos[7 + hinges])
    assert np.array_equal(robot.env.data.qvel, np.concatenate((qvel[:6], qvel[6 + hinges])))
    assert len(robot.observation) == 41 * robot.body.num_limbs
    simulation.advance(0.2)
    assert robot.action.shape == (robot.body.action_dim,)


def test_limbs_come_back_without_reaching_into_the_ground() -> None:
    simulation = Simulation(Still(), [WALKER])
    simulation.gets_up = False
    (robot,) = simulation.robots
    simulation.cut(robot, frozenset({"left_shin", "left_foot", "right_shin", "right_foot"}))
    simulation.advance(1.0)
    simulation.cut(robot, frozenset())
    assert robot.body == WALKER
    assert not robot.missing
    assert lowest_point(robot.env.model, robot.env.data) > -1e-6
    simulation.advance(0.5)
    assert np.abs(robot.env.data.qvel).max() < 30


def test_what_can_not_be_cut() -> None:
    simulation = Simulation(Still(), [WALKER])
    (robot,) = simulation.robots
    for limbs, message in (
        (frozenset({"left_thigh", "right_thigh"}), "leave it at least one"),
        (frozenset({"tail"}), "has no limb 'tail'"),
        (frozenset({"torso"}), "the torso can't be removed"),
    ):
        with pytest.raises(ValueError, match=message):
            simulation.cut(robot, limbs)
    assert robot.body == WALKER
    simulation.advance(0.1)


def test_a_policy_for_one_body_keeps_its_limbs() -> None:
    class OnlyWalkers(Still):
        name = "a walker's policy"
        takes_any_body = False
        trained_on = (WALKER,)

    simulation = Simulation(OnlyWalkers(), [WALKER])
    (robot,) = simulation.robots
    for refused in (
        lambda: simulation.cut(robot, frozenset({"left_foot"})),
        lambda: simulation.replace(robot, CHEETAH),
        lambda: simulation.add(CHEETAH),
        lambda: Simulation(OnlyWalkers(), [CHEETAH]),
    ):
        with pytest.raises(ValueError, match=r"policy can't drive .*it can drive 3d_walker_7"):
            refused()
    assert simulation.robots == [robot]
    assert robot.body == WALKER
    simulation.cut(robot, frozenset())


@pytest.mark.parametrize("name", body_names())
def test_every_single_limb_of_every_body_can_be_cut(name: str) -> None:
    simulation = Simulation(Still(), [get_body(name)])
    (robot,) = simulation.robots
    for limb in robot.whole.limb_names[1:]:
        if len(robot.whole.cut(limb).limbs) > 1:
            simulation.cut(robot, frozenset({limb}))
            simulation.advance(robot.env.dt)
            assert limb not in robot.body.limb_names


def test_robots_come_and_go() -> None:
    simulation = Simulation(Still(), [WALKER])
    simulation.advance(0.5)
    while len(simulation.robots) < MAX_ROBOTS:
        simulation.add(CHEETAH)
    assert len({tuple(robot.home) for robot in simulation.robots}) == MAX_ROBOTS == len(HOMES)
    with pytest.raises(ValueError, match="8 robots at once are the most"):
        simulation.add(CHEETAH)
    steps = simulation.steps
    simulation.advance(0.04)
    assert simulation.steps - steps == 5 + 7, "newcomers don't catch up on the past"
    for robot in simulation.robots[1:]:
        simulation.remove(robot)
    with pytest.raises(ValueError, match="the last robot"):
        simulation.remove(simulation.robots[0])


def test_newcomers_start_beside_the_others_and_run_with_them() -> None:
    simulation = Simulation(Still(), [WALKER, WALKER])
    first, second = simulation.robots
    first.start(np.array([40.0, -30.0]), np.array([50.0, -20.0]))
    new = simulation.add(CHEETAH)
    away = new.home - first.home
    assert np.allclose(new.xy, first.xy + away, atol=0.2)
    assert np.allclose(new.target, first.target + away)
    simulation.remove(first)
    simulation.aim(np.array([3.0, 4.0]))
    another = simulation.add(WALKER)
    assert np.allclose(second.target, (3.0, 4.0))
    assert np.allclose(another.target, second.target + another.home - second.home)
    assert len({tuple(robot.target) for robot in simulation.robots}) == 3


def test_newcomers_fall_into_step_with_others_of_their_rate() -> None:
    driver = Still()
    simulation = Simulation(driver, [WALKER])
    simulation.advance(0.101)
    simulation.add(HUMANOID)
    simulation.replace(simulation.add(CHEETAH), WALKER)
    driver.calls.clear()
    for _ in range(5):
        simulation.advance(0.033)
    assert len({robot.clock for robot in simulation.robots}) == 1
    assert set(driver.calls) == {3}, "all in one batch"


def test_another_body_takes_a_robots_place() -> None:
    simulation = Simulation(Still(), [WALKER, WALKER])
    simulation.robots[0].start(np.array([3.0, 4.0]), np.array([9.0, 9.0]))
    new = simulation.replace(simulation.robots[0], CHEETAH)
    assert simulation.robots[0] is new
    assert new.body == CHEETAH
    assert np.allclose(new.xy, (3.0, 4.0), atol=0.2)
    assert np.allclose(new.target, (9.0, 9.0))


def test_reset_begins_at_home_turned_anyhow() -> None:
    simulation = Simulation(RandomDriver(), [WALKER, CHEETAH])
    headings, targets = set(), set()
    for _ in range(4):
        simulation.advance(0.3)
        simulation.reset()
        for robot in simulation.robots:
            assert np.allclose(robot.xy, robot.home, atol=0.15)
            assert robot.total == robot.falls == 0
            assert len(robot.trail) == 1
        headings.add(round(float(simulation.robots[0].env.data.qpos[3]), 3))
        targets.add(tuple(simulation.robots[0].target))
    assert len(headings) == len(targets) == 4


def test_far_targets_are_those_of_v1() -> None:
    simulation = Simulation(Still(), [WALKER], variant="v1")
    assert simulation.robots[0].distance == pytest.approx(10_000, rel=1e-3)


@pytest.mark.parametrize("count", [0, MAX_ROBOTS + 1])
def test_too_few_or_too_many(count: int) -> None:
    with pytest.raises(ValueError, match=f"1 to 8 bodies at once, not {count}"):
        Simulation(Still(), [WALKER] * count)


def test_where_a_ray_meets_the_ground() -> None:
    place = ground_point((1.0, 2.0, 3.0), (0.6, 0.0, -0.6))
    assert place is not None
    assert np.allclose(place, (4.0, 2.0))
    assert np.allclose(ground_point((1.0, 2.0, 3.0), (0.0, 0.0, -1.0)), (1.0, 2.0))
    assert ground_point((0.0, 0.0, 2.0), (1.0, 0.0, 0.1)) is None
    assert ground_point((0.0, 0.0, 2.0), (1.0, 0.0, 0.0)) is None
    assert ground_point((0.0, 0.0, -1.0), (1.0, 0.0, -0.5)) is None
    far = ground_point((0.0, 0.0, 2.0), (1.0, 0.0, -1e-9))
    assert far is not None
    assert np.hypot(*far) == pytest.approx(FARTHEST_TARGET)
