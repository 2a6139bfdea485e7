"""`sgrl eval`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tyro

from sgrl.command_line import BodiesOption
from sgrl.envs.disturbances import read_levels
from sgrl.envs.variant import MAX_EPISODE_STEPS, Variant
from sgrl.experiments.paper import paper_return
from sgrl.files import SafeFolder
from sgrl.markup import one_line
from sgrl.morphology import resolve_bodies
from sgrl.morphology.digest import physics, physics_warning
from sgrl.plugins import TrustOption
from sgrl.training.acting import MirroredPolicy, Policy, RandomPolicy
from sgrl.training.evaluate import evaluate
from sgrl.training.results import (
    KEEPING_UP,
    LASTING,
    BodyResult,
    format_mean,
    format_table,
    write_results,
)

LEGEND = {
    "specialist": "the best return of any run of the project on the body (docs/results/index.md)",
    "paper": "the paper's return of this method, trained on the same bodies",
    "lasts": f"share of episodes of all {MAX_EPISODE_STEPS:,} steps",
    "gained (m)": "metres nearer to the target; with near ones, to each until it was reached",
    "targets": "near targets reached in an episode",
    "weak": f"falls: fewer than {LASTING:.0%} of the episodes last; behind: less than "
    f"{KEEPING_UP:.0%} of the specialist's return",
}


def eval_command(
    run: tyro.conf.Positional[Path],
    bodies: BodiesOption = (),
    episodes: int = 100,
    variant: Variant | None = None,
    *,
    checkpoint: int | None = None,
    seed: int = 0,
    yaw: float | None = None,
    random: bool = False,
    mirror: bool = False,
    disturb: tuple[str, ...] = (),
    threads: int = 0,
    device: str = "cpu",
    out: Path | None = None,
    trust: TrustOption = (),
) -> Path:
    """Evaluate a run on any bodies: a table on the screen, episodes and summary on the disk.

    Args:
        run: Folder of the run, its name in runs, or the name of a policy that ships; RUN@best or
            RUN@STEPS for one of its checkpoints.
        bodies: Bodies or collections, seen in training or not, or with _mirrored after the name
            their mirror images; those of the training if none.
        episodes: Episodes of each body, all in parallel.
        variant: Far targets (v1), near ones (v2), or both in rows of their own (mixed); as in
            training if not given.
        checkpoint: Steps of the checkpoint to take; the best, or else the newest, if not given.
        seed: Of the evaluation; its episodes never coincide with those of a training.
        yaw: Start every episode turned by so many radians; uniform if not given.
        random: Add a random policy to compare with.
        mirror: Add the mirrored policy, which acts on each body as on its mirror image.
        disturb: Make it harder, by NAME=LEVEL: friction, mass, motor_delay, observation_noise,
            push, push_interval, as friction=0.5 (docs/howto/disturb.md).
        threads: Threads of the physics; 0 for all cores.
        device: Where the network runs.
        out: Folder for the results; a new one in the run's `evaluations` if not given.

    Returns the folder of the results.
    """
    # Here, because no other part of an evaluation needs torch.
    from sgrl.training.policy import act_on_one_thread, load_policy
    from sgrl.training.run import SHIPPED, Run

    levels = read_levels(disturb)
    act_on_one_thread()
    policy = load_policy(run, checkpoint, device, trust=trust)
    kind = "best checkpoint" if policy.is_best else "checkpoint"
    name = one_line(str(policy.run))
    print(f"{name}, the {kind} at {policy.checkpoint:,} steps", file=sys.stderr)
    if warning := physics_warning(Run(policy.run).physics(), policy.run.name):
        print(one_line(warning), file=sys.stderr)
    chosen = resolve_bodies(bodies) or policy.bodies
    variant = variant or policy.settings.variant
    policies: dict[str, Policy] = {policy.method: policy}
    if mirror:
        policies[f"{policy.method} mirrored"] = MirroredPolicy(policy)
    if random:
        policies["random"] = RandomPolicy(seed)
    # What ships with the package is not written to.
    parent = (
        policy.run if policy.run.resolve().parent != SHIPPED else Path("runs") / policy.run.name
    )
    if out is None:
        parent.mkdir(parents=True, exist_ok=True)
        SafeFolder(parent).make_folder("evaluations", exist_ok=True)
    variants: tuple[Variant, ...] = ("v1", "v2") if variant == "mixed" else (variant,)
    several = len(chosen) * len(policies) * len(variants) > 1
    with _new_folder(out, parent / "evaluations") as folder:
        results = []
        for label, each in policies.items():
            for one in variants:
                results += evaluate(
                    each,
                    chosen,
                    variant=one,
                    episodes=episodes,
                    seed=seed,
                    threads=threads,
                    yaw=yaw,
                    options=levels,
                    label=label,
                    report=_print_progress if several else None,
                )
        about = {
            "run": str(policy.run),
            "checkpoint": policy.checkpoint,
            "method": policy.method,
            "trained_on": [body.name for body in policy.bodies],
            "variant": variant,
            "seed": seed,
            "yaw": yaw,
            "disturbances": levels,
            "physics": physics(),
        }
        write_results(results, folder, about=about)
    trained_on = [body.name for body in policy.bodies]
    numbers = {body.name: paper_return(policy.method, trained_on, body.name) for body in chosen}
    table = format_table(results, {body: one for body, one in numbers.items() if one})
    print(f"{table}\n\n{_explain(table)}\nwrote {one_line(str(folder))}")
    return folder


def _explain(table: str) -> str:
    """What the columns of a table mean that do not say so themselves, those that it has."""
    titles = [title.strip() for title in table.splitlines()[0].strip("|").split("|")]
    return "".join(f"{title}: {text}\n" for title, text in LEGEND.items() if title in titles)


def _print_progress(result: BodyResult) -> None:
    reward = format_mean(result.mean("total_reward"), result.standard_error("total_reward"))
    what = f"{one_line(result.policy)} on {result.body}, {result.variant}"
    print(f"{what}: return {reward}", file=sys.stderr, flush=True)


@contextmanager
def _new_folder(asked: Path | None, parent: Path) -> Iterator[Path]:
    """A new folder, taken before the work so that it is not done in vain; gone if that fails."""
    if asked is not None and asked.exists():
        raise FileExistsError(f"{asked} exists; name a folder that does not, for the results")
    number, folder = 1, asked or parent / "001"
    while True:
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            if asked is not None:
                raise
            number, folder = number + 1, parent / f"{number + 1:03d}"
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder)
        raise
