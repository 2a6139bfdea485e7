"""A forked child has no native threads: a vector environment makes its own there."""

import os
import select
import signal
import sys

import numpy as np
import pytest

import sgrl

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork, which Windows lacks")

PATIENCE = 60.0
"""Seconds after which a child counts as hanging."""


def in_child(work):
    """What `work` returns, as bytes, in a forked child that exits as Python programs do."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        code = 1
        try:
            os.write(write, work())
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    try:
        ready, _, _ = select.select([read], [], [], PATIENCE)
        if not ready:
            os.kill(pid, signal.SIGKILL)
            pytest.fail("the child hangs")
        return os.read(read, 1 << 20)
    finally:
        os.close(read)
        os.waitpid(pid, 0)


# Python 3.12 warns of every fork of a process with threads, which is what is tried here.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("bodies", ["3d_cheetah_14_full", ("3d_hopper_5_full", "3d_walker_7_full")])
def test_a_child_goes_on_to_the_bit(bodies):
    env = sgrl.make_vec(bodies, 4, threads=2)
    env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (6, *env.action_space.shape))
    for action in actions[:3]:
        env.step(action)

    def work():
        height = env.get_data(1).qpos[2]
        last = [env.step(action)[0] for action in actions[3:]][-1]
        return last.tobytes() + height.tobytes()

    assert in_child(work) == work()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_may_free_what_it_never_used():
    envs = [sgrl.make_vec("3d_hopper_5_full", 4, threads=2)]
    envs[0].reset(seed=0)

    def work():
        envs.clear()
        return str(sys.getrefcount(envs)).encode()

    assert in_child(work)
