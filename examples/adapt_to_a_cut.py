"""Cut a leg off a robot, see what its policy makes of that, and let it adapt to the new body.

python examples/adapt_to_a_cut.py --minutes 10
"""

from __future__ import annotations

from pathlib import Path

import tyro

import sgrl

LEG = "left_bthigh"


def main(minutes: float = 10.0, episodes: int = 20, runs: Path = Path("runs")) -> None:
    """Evaluate a policy on a body without a leg, before and after training on it.

    Args:
        minutes: How long to train.
        episodes: Episodes of each evaluation.
        runs: Folder that the run's own is made in.
    """
    whole = sgrl.get_body("3d_cheetah_14_full")
    tripod = whole.cut(LEG)
    print(f"{whole.name} has {whole.num_limbs} limbs, {tripod.name} has {tripod.num_limbs}")

    # The same weights move both bodies: they are shared by all limbs.
    before = sgrl.evaluate(sgrl.load_policy("set-cheetah"), [whole, tripod], episodes=episodes)

    settings = sgrl.TrainSettings(
        bodies=(f"{whole.name}-{LEG}",),
        algorithm="ppo",
        preset="many",  # that of the policy that it starts from
        init_from=Path("set-cheetah"),
        minutes=minutes,
        name="tripod",
        runs=runs,
    )
    run = sgrl.train(settings)
    (after,) = sgrl.evaluate(sgrl.load_policy(run), tripod, episodes=episodes)
    for when, result in [("whole", before[0]), ("cut", before[1]), ("adapted", after)]:
        print(f"{when:8} mean return {result.mean('total_reward'):8,.0f}")


if __name__ == "__main__":
    tyro.cli(main)
