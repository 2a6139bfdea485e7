"""Whatever resets, steps and makers are given: they work, or say in one line what is wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sgrl
from sgrl.envs.disturbances import NAMES
from tests.hostile import EXAMPLES, in_time, made

HOPPER = "3d_hopper_3_shin"
some = made(EXAMPLES)

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-3, 3),
    st.integers(-(10**30), 10**30),
    st.booleans(),
)
things = st.recursive(
    st.one_of(numbers, st.none(), st.text(max_size=5), st.binary(max_size=5), st.just(object())),
    lambda inner: st.one_of(
        st.lists(inner, max_size=15),
        st.dictionaries(st.text(max_size=3), inner, max_size=2),
        st.lists(numbers, min_size=2, max_size=14).map(np.array),
    ),
    max_leaves=15,
)
keys = st.one_of(st.sampled_from(["yaw", "target", "qpos", "qvel", *NAMES]), st.text(max_size=5))
options = st.one_of(st.none(), st.dictionaries(keys, things, max_size=4), things)
single = sgrl.make_env(HOPPER)
vector = sgrl.make_vec(HOPPER, 2, threads=1)


def check(call):
    """Whether it worked; what it says otherwise is a line of a `ValueError`."""
    said = None
    try:
        with in_time():
            call()
    except ValueError as error:
        said = str(error)
    assert said is None or ("\n" not in said and 10 < len(said) < 500), said
    return said is None


@pytest.mark.parametrize("env", [single, vector], ids=["single", "vector"])
@some
@given(seed=st.one_of(things, st.none(), st.integers(0, 100)), options=options)
def test_a_reset(env, seed, options):
    if check(lambda: env.reset(seed=seed, options=options)):
        observations = env.step(np.zeros(env.action_space.shape))[0]
        assert np.isfinite(observations).all()


@pytest.mark.parametrize("env", [single, vector], ids=["single", "vector"])
@some
@given(actions=st.one_of(things, st.lists(st.lists(numbers, min_size=6, max_size=6), max_size=2)))
def test_a_step(env, actions):
    env.reset(seed=0)
    before = env.reset(seed=0)[0]
    if not check(lambda: env.step(actions)):
        # Nothing was stepped.
        zeros = np.zeros(env.action_space.shape)
        stepped = env.step(zeros)[0]
        env.reset(seed=0)
        np.testing.assert_array_equal(env.step(zeros)[0], stepped)
        assert np.isfinite(before).all()


NUMBERS = ("envs_per_body", "threads", "max_episode_steps", "width", "height", "yaw")


@some
@given(
    options=st.dictionaries(
        st.sampled_from([*NUMBERS, "variant", "disturbances", "autoreset_mode", "render_mode"]),
        st.one_of(things, st.dictionaries(st.sampled_from(NAMES), numbers, max_size=2)).filter(
            # Thousands of environments are allowed, but take their time.
            lambda value: not (isinstance(value, int) and 8 < value < 10**6)
        ),
        max_size=2,
    )
)
def test_making(options):
    check(lambda: sgrl.make_vec(HOPPER, **options))


@some
@given(target=things)
def test_moving_the_target(target):
    single.reset(seed=0)
    check(lambda: single.set_target(target))


@some
@given(array=things)
def test_splitting(array):
    check(lambda: vector.split(array))
