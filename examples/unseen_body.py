"""Evaluate a policy on bodies that it has never seen: held out by the paper, and made up here.

python examples/unseen_body.py
"""

from __future__ import annotations

import tyro

import sgrl

HELD_OUT = ("3d_cheetah_11_leftbkneen_rightffoot", "3d_cheetah_12_tail_leftffoot")


def main(policy: str = "set-cheetah", episodes: int = 20) -> None:
    """Evaluate a policy on what it was trained on and on what it was not.

    Args:
        policy: One that ships, see sgrl policies, or the folder of a run.
        episodes: Episodes of each body.
    """
    loaded = sgrl.load_policy(policy)
    # A body is a value: a copy of a known one without its tail and one shin.
    made_up = sgrl.get_body("3d_cheetah_14_full").cut("upper_tail", "left_bshin", name="made_up")
    trained = [body for body in loaded.bodies if "mirrored" not in body.name][:2]
    for title, bodies in [("trained on", trained), ("held out", HELD_OUT), ("made up", [made_up])]:
        for result in sgrl.evaluate(loaded, bodies, episodes=episodes):
            mean = result.mean("total_reward")
            error = result.standard_error("total_reward")
            print(f"{title:10} {result.body:40} {mean:8,.0f} ± {error:.0f}")


if __name__ == "__main__":
    tyro.cli(main)
