"""Policies to pass on: a small run without what only training needs, and a card that says
what it is, how it was made and what it can do.

set-cheetah/
  settings.json                   of the run
  checkpoints/0012000000/         its weights and their checksum
  card.json                       everything that is known of it
  card.md                         the same to read
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sgrl.envs.observation import mirrored
from sgrl.envs.variant import Variant
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.morphology import Morphology, get_body, mirror_of
from sgrl.morphology.digest import physics
from sgrl.morphology.mirror import alike
from sgrl.morphology.table import TABLE
from sgrl.plugins import TRUST
from sgrl.training.acting import MirroredPolicy
from sgrl.training.card import format_card
from sgrl.training.checkpoint import WEIGHTS, read_metadata
from sgrl.training.evaluate import evaluate
from sgrl.training.place import describe_place, split_place
from sgrl.training.results import BodyResult, format_mean
from sgrl.training.run import SHIPPED, Run, current_commit, find_run
from sgrl.training.settings import TrainSettings, plain
from sgrl.training.stages import DIRTY, Stage, uncommitted

if TYPE_CHECKING:
    from sgrl.training.policy import TrainedPolicy

FAR = 10_000.0
"""Metres to the target of the start angles' table; progress is what is missing in the end."""
ANGLES = (0, 90, 180, 270)
"""Degrees between the heading and the target at the start."""
MIRROR_STEPS = 40
"""Steps of eight episodes whose states `mirror_difference` looks at."""
LICENSE = "MIT"


def list_published() -> dict[str, dict[str, Any]]:
    """The cards of the policies that come with the package, by name."""
    cards = sorted(SHIPPED.glob("*/card.json"))
    return {card.parent.name: json.loads(card.read_text(encoding="utf-8")) for card in cards}


def publish(
    run: str | Path,
    out: Path,
    *,
    episodes: int = 100,
    threads: int = 0,
    trust: Sequence[str] = (),
    allow_uncommitted: bool = False,
    say: Callable[[str], None] = print,
) -> Path:
    """Write the best weights of a run, or the newest, and their card to a new folder.

    A number that nobody can make again is not published: ValueError if the code that trained or
    that measures is in no commit, unless `allow_uncommitted`; the card then says so. `trust` names
    modules that may be imported for a method `module:Class`.
    """
    # Which need torch.
    from sgrl.training.history import history_of
    from sgrl.training.policy import load_policy, read_policy_weights
    from sgrl.training.sources import copy_policy

    TRUST.add(trust)
    if episodes < 2:
        raise ValueError(f"a card needs 2 episodes or more to tell a spread, not {episodes}")
    if out.exists():
        raise FileExistsError(f"{out} exists; name a folder that does not")
    place, which = split_place(run)
    found = find_run(place)
    if found.is_published():
        raise ValueError(f"{found.path} is published already: copy its folder")
    folder, weights = read_policy_weights(found, which)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        # Copied first: a training that goes on removes its older checkpoints.
        draft = Run(Path(scratch) / out.name)
        copy_policy(found, folder, weights, draft, out.name)
        say(f"publishing {describe_place(folder)} of {found.path}")
        kept = draft.checkpoints / folder.name
        history = history_of(found, kept)
        commit = current_commit()
        if not allow_uncommitted:
            _check_committed(history["stages"], commit)
        digest = read_metadata(kept)["sha256"][WEIGHTS]
        made = _made(found, out.name) | {"weights_sha256": digest} | history
        made |= {"measured_at": commit}
        measured = _measured(load_policy(draft.path), episodes, threads, say)
        card = made | {"physics": physics()} | measured
        (draft.path / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        (draft.path / "card.md").write_text(format_card(card), encoding="utf-8")
        draft.path.rename(out)
    return out


def _check_committed(stages: Sequence[Stage], commit: str | None) -> None:
    """ValueError if a stage ran code that is in no commit, or if this code is in none."""
    names = uncommitted(stages)
    if (commit or "").endswith(DIRTY):
        names.append("this code, which would measure it")
    if names:
        raise ValueError(
            f"in no commit: {', '.join(names)}; commit and train again, or publish with "
            "--allow-uncommitted, and the card says so"
        )


def _made(run: Run, name: str) -> dict[str, Any]:
    """What a policy is, and where it was trained."""
    settings, versions = run.settings(), run.versions()
    return {
        "name": name,
        "method": settings.method,
        "preset": settings.preset,
        "network": plain(settings.network),
        "algorithm": settings.algorithm,
        "variant": settings.variant,
        "bodies": list(settings.bodies),
        "known_by_mirror": known_by_mirror(settings),
        "seed": settings.seed,
        "versions": {key: versions[key] for key in ("python", "torch", "mujoco")},
        "license": LICENSE,
    }


def known_by_mirror(settings: TrainSettings) -> list[str]:
    """Bodies of the table that were not trained on, but whose mirror images were."""
    if not settings.algorithm_config().learns_images:
        return []
    bodies = settings.morphologies()
    images = [mirror_of(body).body for body in bodies]
    others = [get_body(entry.name) for entry in TABLE if entry.name not in settings.bodies]
    return [body.name for body in others if any(alike(image, body) for image in images)]


def _measured(
    policy: TrainedPolicy, episodes: int, threads: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """What a policy can do, on all bodies of its families."""
    seen = {body.name for body in policy.bodies}
    relatives = _relatives(policy)
    results = []
    variants: tuple[Variant, ...] = ("v1", "v2")
    for variant in variants:
        for body in relatives:
            (result,) = evaluate(policy, body, variant=variant, episodes=episodes, threads=threads)
            say(f"{body.name} {variant}: {_cell(result, 'total_reward')}")
            results.append(_summary(result) | {"seen": body.name in seen})
    images = []
    for body in relatives:
        if body.name not in seen and mirror_of(body).body != body:
            (result,) = evaluate(MirroredPolicy(policy), body, episodes=episodes, threads=threads)
            say(f"{body.name} v1, mirrored: {_cell(result, 'total_reward')}")
            images.append(_summary(result))
    errors = {body.name: mirror_difference(policy, body) for body in relatives}
    facing = []
    for body in [body for body in relatives if body.name in seen and body.name.endswith("_full")]:
        for angle in ANGLES:
            (result,) = evaluate(
                policy,
                body,
                episodes=episodes,
                threads=threads,
                options={"yaw": math.radians(angle), "target": (FAR, 0.0)},
            )
            gained = FAR - result.mean("distance"), result.standard_error("distance")
            say(f"{body.name} from {angle}°: {gained[0]:.1f} m nearer")
            facing.append(
                {"body": body.name, "angle": angle, "metres": gained[0], "metres_se": gained[1]}
            )
    return {
        "episodes": episodes,
        "results": results,
        "mirror": images,
        "mirror_errors": {body: error for body, error in errors.items() if error is not None},
        "facing": facing,
    }


def mirror_difference(policy: TrainedPolicy, body: Morphology) -> float | None:
    """How far a policy is from acting on a body's mirror image as the image of what it does.

    The root mean square of the difference over that of the actions, in its own states; None for a
    policy of one body alone whose mirror image is another.
    """
    from sgrl.models.methods import get_method  # here, because it needs torch

    mirror = mirror_of(body)
    if get_method(policy.method).one_body and mirror.body != body:
        return None
    env = LocomotionVectorEnv((body,), 8, threads=1)
    observed, _ = env.reset(seed=3)
    states = []
    for _ in range(MIRROR_STEPS):
        states.append(observed)
        observed = env.step(policy.act(observed, body))[0]
    env.close()
    rows = np.concatenate(states)
    expected = mirror.actions(policy.act(rows, body))
    found = policy.act(mirrored(rows, mirror), mirror.body)
    return float(np.sqrt(np.square(found - expected).mean() / np.square(expected).mean()))


def _relatives(policy: TrainedPolicy) -> list[Morphology]:
    """What it was trained on, and for a policy of many bodies the rest of their families."""
    if len(policy.bodies) == 1:
        return list(policy.bodies)
    families = {body.family for body in policy.bodies}
    names = [entry.name for entry in TABLE if entry.family in families]
    return list({body.name: body for body in (*policy.bodies, *map(get_body, names))}.values())


def _summary(result: BodyResult) -> dict[str, Any]:
    row: dict[str, Any] = {"body": result.body, "variant": result.variant}
    for name in ("total_reward", "length", "speed", "gained", "targets"):
        row |= {name: result.mean(name), f"{name}_se": result.standard_error(name)}
    return row | {"lasted": result.lasted}


def _cell(result: BodyResult, name: str) -> str:
    return format_mean(result.mean(name), result.standard_error(name))
