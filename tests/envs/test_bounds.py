"""Every number that making and resetting takes has a bound, and one line says it."""

import re
from pathlib import Path

import numpy as np
import pytest

import sgrl
from sgrl.envs import bounds
from sgrl.envs.observation import FEATURES
from sgrl.morphology.task import LARGEST

NAME = "3d_hopper_5_full"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "environments.md"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sgrl.make_vec(NAME, 1e30), "envs_per_body .* 1 to 65,536, not 1e[+]30"),
        (lambda: sgrl.make_vec(NAME, 10**30), "envs_per_body .* 1 to 65,536, not 1000"),
        (lambda: sgrl.make_vec("3d_hopper++", 21_846), "envs_per_body .* 1 to 21,845, not 21846"),
        (lambda: sgrl.make_vec(NAME, True), "envs_per_body .* not True"),
        (lambda: sgrl.make_vec(NAME, "many"), "envs_per_body .* not 'many'"),
        (lambda: sgrl.make_vec(NAME, threads=2**32), "threads .* 0 to 1,024 .*, not 4294967296"),
        (lambda: sgrl.make_vec(NAME, threads=1.5), "threads .* not 1.5"),
        (lambda: sgrl.make_vec(NAME, max_episode_steps=10**10), "max_episode_steps .* 10000000000"),
        (lambda: sgrl.make_env(NAME, max_episode_steps=10**10), "max_episode_steps .* 10000000000"),
        (lambda: sgrl.make_env(NAME, max_episode_steps=0.5), "max_episode_steps .* not 0.5"),
        (lambda: sgrl.make_env(NAME, width=10**6), "width of a frame .* 8,192 pixels, not 1000000"),
        (lambda: sgrl.make_env(NAME, yaw=1e11), "yaw must be a finite angle .* below 1e[+]10"),
    ],
)
def test_a_number_out_of_reason_is_one_line(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 160


@pytest.mark.parametrize("seed", [2**63, 10**30, -1, 1e30])
def test_a_seed_has_bounds(seed):
    for env in (sgrl.make_env(NAME), sgrl.make_vec(NAME, 2)):
        with pytest.raises(ValueError, match="a seed is a whole number"):
            env.reset(seed=seed)


def test_numpys_whole_numbers_are_whole_numbers():
    env = sgrl.make_vec(NAME, np.int64(2), threads=np.int32(1), max_episode_steps=np.int64(5))
    assert env.num_envs == 2
    assert sgrl.make_env(NAME, max_episode_steps=np.int64(5)) is not None


def test_the_page_of_environments_names_every_bound():
    page = PAGE.read_text()
    for number in (bounds.MAX_ENVS, bounds.MAX_THREADS, bounds.LONGEST_EPISODE):
        assert f"{number:,}" in page
    assert f"{bounds.MAX_FRAME_PIXELS:,}" in page
    assert "0 to 2**63" in page
    assert f"{LARGEST:g}".replace("e+", "e") in page


@pytest.mark.parametrize("shape", [(), (2,), (2, 5), (3, 5 * FEATURES), (2, 5 * FEATURES, 1)])
def test_splitting_says_what_shape_it_takes(shape):
    env = sgrl.make_vec(NAME, 2)
    message = f"observations to split must have shape (2, 205), not {shape}"
    with pytest.raises(ValueError, match=re.escape(message)):
        env.split(np.zeros(shape))


@pytest.mark.parametrize("row", [2, -1, 1.0, None, np.zeros(2, int)])
def test_the_data_of_a_row_that_there_is_not(row):
    env = sgrl.make_vec(NAME, 2)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"row of an environment must be .* from 0 to 1,"):
        env.get_data(row)


def test_a_state_says_which_of_its_arrays_does_not_fit():
    env = sgrl.make_vec(NAME, 2)
    env.reset(seed=0)
    state = env.state_dict()
    with pytest.raises(ValueError, match=r"'target' must have shape \(2, 2\), not \(3,\)"):
        env.load_state_dict({**state, "target": np.zeros(3)})
    with pytest.raises(ValueError, match="'physics' is missing"):
        env.load_state_dict({key: value for key, value in state.items() if key != "physics"})
    with pytest.raises(ValueError, match="taken from other bodies"):
        env.load_state_dict({})
