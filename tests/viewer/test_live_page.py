"""The live page, used as a user does. The tests share a tab and may come in any order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("viser")
from sgrl.envs.observation import split
from sgrl.morphology import body_names, get_body
from sgrl.viewer.driver import Driver, load_driver
from sgrl.viewer.robot import Robot
from sgrl.viewer.stage import CAMERA
from tests.training.untrained import untrained_run
from tests.viewer.watching import (
    CHEETAH,
    SCENE,
    SIZE,
    WALKER,
    Viewer,
    colored,
    has_moved,
    held,
    picture,
    viewing,
    wait_for,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

View = tuple[Viewer, "Page", list[str]]
"""The viewer, its tab, and all addresses that the tab has asked."""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """A policy that has learned nothing, but can drive anything."""
    run, _ = untrained_run(tmp_path_factory.mktemp("runs"))
    return load_driver(run.path)


@pytest.fixture(scope="module")
def view(browser: Browser, driver: Driver) -> Iterator[View]:
    with browser.new_context(viewport=SIZE) as context:
        asked: list[str] = []
        context.on("request", lambda request: asked.append(request.url))
        context.on(
            "page", lambda page: page.on("websocket", lambda socket: asked.append(socket.url))
        )
        with viewing(context, driver, CHEETAH) as (viewer, page):
            yield viewer, page, asked


def choose(page: Page, shown: str, option: str) -> None:
    """Pick another value from the list of the panel that shows this one."""
    page.locator(f"input[value='{shown}']").first.click()
    page.get_by_role("option", name=option, exact=True).click()


def become(viewer: Viewer, page: Page, body: str) -> Robot:
    """Have a robot of this body, whichever the test before has left."""
    (robot,) = viewer.simulation.robots
    if robot.whole.name != body:
        choose(page, robot.whole.name, body)
        wait_for(lambda: viewer.simulation.robots[0].whole == get_body(body), page, body)
    return viewer.simulation.robots[0]


def test_the_page_asks_nobody_else(view: View) -> None:
    viewer, page, asked = view
    page.get_by_text("trained on 2 bodies").wait_for()
    address = f"127.0.0.1:{viewer.server.get_port()}"
    own = (f"http://{address}", f"ws://{address}", f"blob:http://{address}", "data:")
    assert any(url.startswith("ws:") for url in asked)
    assert [url for url in asked if not url.startswith(own)] == []


@pytest.mark.parametrize(("x", "y"), [(90, 350), (330, 330)])
def test_a_click_on_the_ground_moves_the_target(view: View, x: int, y: int) -> None:
    viewer, page, _ = view
    become(viewer, page, CHEETAH)

    def marked() -> bool:
        """Whether the target is drawn where the click was."""
        pixels = picture(page).astype(int)
        red = (pixels[..., 0] > 130) & (pixels[..., 1:].max(axis=-1) < 0.6 * pixels[..., 0])
        found = np.argwhere(red) + np.array([SCENE[1], SCENE[0]])
        return len(found) > 0 and np.abs(found - (y, x)).max(axis=1).min() < 40

    with held(viewer, page) as robot:
        before = robot.target
        page.mouse.click(x, y)
        wait_for(lambda: has_moved(robot, before), page, "the target to move")
        assert robot.distance < 8, "on the ground in front, not at the horizon"
        away = robot.target - robot.xy
        seen = split(robot.observation, robot.body.num_limbs).target[:2]
        assert seen @ (away / np.hypot(*away)) > 0.999
        wait_for(marked, page, "the marker to be drawn")


def test_a_click_at_the_sky_moves_nothing(view: View) -> None:
    viewer, page, _ = view
    clicks: list[object] = []
    viewer.server.scene.on_click()(clicks.append)
    with held(viewer, page) as robot:
        before = robot.target
        page.mouse.click(380, 20)
        wait_for(lambda: clicks, page, "the click")
        page.wait_for_timeout(200)
        assert np.array_equal(robot.target, before)


def test_the_numbers_are_alive(view: View) -> None:
    _, page, _ = view
    table = page.locator("table").first
    first = table.inner_text()
    wait_for(lambda: table.inner_text() != first, page, "other numbers")
    for word in ("m/s", "to go", "reward", "return", "falls"):
        assert word in first


def test_another_body(view: View) -> None:
    viewer, page, _ = view

    def drawn(family: str, other: str) -> bool:
        return colored(page, family).sum() > 100 and colored(page, other).sum() < 20

    become(viewer, page, CHEETAH)
    wait_for(lambda: drawn("cheetah", "walker"), page, "the cheetah alone to be drawn")
    robot = become(viewer, page, WALKER)
    assert robot.body == get_body(WALKER)
    wait_for(lambda: drawn("walker", "cheetah"), page, "the walker alone to be drawn")


def test_limbs_come_off_and_back(view: View) -> None:
    viewer, page, _ = view
    robot = become(viewer, page, WALKER)
    page.get_by_role("tab", name="Limbs").click()
    boxes = {
        name: page.get_by_role("checkbox", name=name, exact=True)
        for name in ("left_thigh", "left_shin", "left_foot", "right_thigh")
    }
    boxes["left_shin"].click()
    wait_for(lambda: robot.missing == {"left_shin", "left_foot"}, page, "the shin to be cut")
    wait_for(lambda: not boxes["left_foot"].is_checked(), page, "the foot's box")
    wait_for(lambda: boxes["left_foot"].is_disabled(), page, "it to be out of use")
    page.get_by_text("5 limbs, never seen in training").wait_for()
    boxes["left_thigh"].click()
    wait_for(lambda: "left_thigh" in robot.missing, page, "the thigh to be cut")
    boxes["right_thigh"].click()
    page.get_by_text("leave it at least one").wait_for()
    wait_for(lambda: boxes["right_thigh"].is_checked(), page, "the box to go back")
    assert robot.body.num_limbs == 4
    boxes["left_thigh"].click()
    wait_for(lambda: robot.body == robot.whole, page, "the limbs to come back")
    page.get_by_role("tab", name="Drive").click()


def test_pause_push_reset_and_slow_motion(view: View) -> None:
    viewer, page, _ = view
    simulation = viewer.simulation
    pause = page.get_by_role("checkbox", name="Pause")
    pause.click()
    wait_for(lambda: viewer.page.panel.paused, page, "the pause")
    page.get_by_text("paused", exact=True).wait_for()
    steps = simulation.steps
    page.get_by_role("button", name="Push").click()
    wait_for(lambda: simulation.robots[0].env.data.xfrc_applied.any(), page, "the push")
    old = simulation.robots[0].target
    page.get_by_role("button", name="Reset").click()
    wait_for(lambda: (simulation.robots[0].target != old).any(), page, "the reset")
    assert simulation.steps == steps
    choose(page, "real time", "1/4")
    wait_for(lambda: viewer.page.pace.speed == 0.25, page, "slow motion")
    pause.click()
    wait_for(lambda: simulation.steps > steps, page, "it to go on")
    choose(page, "1/4", "real time")
    wait_for(lambda: viewer.page.pace.speed == 1, page, "real time")


@pytest.mark.parametrize("coloring", ["action", "attention"])
def test_limbs_are_colored_by_what_the_policy_does(view: View, coloring: str) -> None:
    viewer, page, _ = view
    become(viewer, page, WALKER)
    choose(page, "body", coloring)
    wait_for(lambda: viewer.page.panel.coloring == coloring, page, "the coloring")
    wait_for(lambda: colored(page, "walker").sum() < 20, page, "other colors")
    choose(page, coloring, "body")
    wait_for(lambda: colored(page, "walker").sum() > 100, page, "its own color")


def test_the_page_says_whose_policy_it_is(view: View, driver: Driver) -> None:
    _, page, _ = view
    page.get_by_text(f"{driver.name} (set, 100 steps), trained on 2 bodies").wait_for()


def test_keys(view: View) -> None:
    viewer, page, _ = view
    become(viewer, page, CHEETAH)
    with held(viewer, page) as robot:
        page.mouse.click(380, 20)  # on the sky: the scene has the keyboard
        before = robot.target
        page.keyboard.press("j")
        wait_for(lambda: has_moved(robot, before), page, "a target to the left")
        assert robot.distance == pytest.approx(8.0, abs=0.01)
        left = np.array([CAMERA[1], -CAMERA[0]])  # of who looks from there at the origin
        away = (robot.target - robot.xy) / robot.distance
        assert away @ left / np.hypot(*left) > 0.99
        page.keyboard.press("c")
        page.get_by_text("full action").wait_for()
        page.keyboard.press("c")
        page.get_by_text("2 times an even share").wait_for()
        page.keyboard.press("c")
        wait_for(lambda: viewer.page.panel.coloring == "body", page, "the body's color")
    page.keyboard.press("p")
    wait_for(lambda: page.get_by_role("checkbox", name="Pause").is_checked(), page, "the pause")
    page.keyboard.press("p")
    wait_for(lambda: not viewer.page.panel.paused, page, "it to go on")
    page.keyboard.press("g")
    wait_for(lambda: not viewer.simulation.roams, page, "targets to stay")
    page.keyboard.press("g")


def test_bodies_by_family(view: View) -> None:
    viewer, page, _ = view
    robot = become(viewer, page, CHEETAH)

    def listed() -> set[str]:
        page.get_by_role("combobox", name="Body").click()
        page.get_by_role("option", name="3d_walker_7_full", exact=True).wait_for()
        return set(page.get_by_role("option").all_inner_texts())

    assert set(body_names()) <= listed()
    page.keyboard.press("Escape")
    choose(page, "all", "walker")
    walkers = {name for name in body_names() if get_body(name).family == "walker"}
    wait_for(lambda: set(viewer.page.panel._body.options) == {*walkers, CHEETAH}, page, "the list")
    assert viewer.simulation.robots[0] is robot
    assert walkers <= listed()
    page.keyboard.press("Escape")
    choose(page, "walker", "all")
    wait_for(lambda: len(viewer.page.panel._body.options) == 29, page, "all bodies")


def test_several_robots(view: View) -> None:
    viewer, page, _ = view
    simulation = viewer.simulation
    page.get_by_role("button", name="Add").click()
    wait_for(lambda: len(simulation.robots) == 2, page, "a second robot")
    wait_for(lambda: page.locator("table tr").count() == 3, page, "a row for each")
    page.get_by_role("button", name="Remove").click()
    wait_for(lambda: len(simulation.robots) == 1, page, "it to go")
    page.get_by_role("button", name="Remove").click()
    page.get_by_text("this is the last robot").wait_for()
