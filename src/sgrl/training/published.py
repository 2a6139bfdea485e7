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

from sgrl.envs.variant import MAX_EPISODE_STEPS, Variant
from sgrl.markup import markdown_cell, one_line
from sgrl.morphology import Morphology, get_body, mirror_of
from sgrl.morphology.digest import physics
from sgrl.morphology.mirror import alike
from sgrl.morphology.table import TABLE
from sgrl.plugins import TRUST
from sgrl.training.acting import MirroredPolicy
from sgrl.training.checkpoint import WEIGHTS, read_metadata
from sgrl.training.evaluate import evaluate
from sgrl.training.place import describe_place, split_place
from sgrl.training.references import reference_return
from sgrl.training.results import BodyResult, format_mean
from sgrl.training.run import SHIPPED, Run, find_run
from sgrl.training.settings import TrainSettings, plain

if TYPE_CHECKING:
    from sgrl.training.policy import TrainedPolicy

FAR = 10_000.0
"""Metres to the target of the start angles' table; progress is what is missing in the end."""
ANGLES = (0, 90, 180, 270)
"""Degrees between the heading and the target at the start."""
LICENCE = "MIT"


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
    say: Callable[[str], None] = print,
) -> Path:
    """Write the best weights of a run, or the newest, and their card to a new folder.

    `trust` names modules that may be imported for a method `module:Class`.
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
        made = _made(found, out.name) | {"weights_sha256": read_metadata(kept)["sha256"][WEIGHTS]}
        made |= history_of(found, kept)
        measured = _measured(load_policy(draft.path), episodes, threads, say)
        card = made | {"physics": physics()} | measured
        (draft.path / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        (draft.path / "card.md").write_text(format_card(card), encoding="utf-8")
        draft.path.rename(out)
    return out


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
        "licence": LICENCE,
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
            say(f"{body.name} v1 in the mirror: {_cell(result, 'total_reward')}")
            images.append(_summary(result))
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
        "facing": facing,
    }


def _relatives(policy: TrainedPolicy) -> list[Morphology]:
    """What it was trained on, and for a policy of many bodies the rest of their families."""
    if len(policy.bodies) == 1:
        return list(policy.bodies)
    families = {body.family for body in policy.bodies}
    names = [entry.name for entry in TABLE if entry.family in families]
    return list({body.name: body for body in (*policy.bodies, *map(get_body, names))}.values())


def _summary(result: BodyResult) -> dict[str, Any]:
    row: dict[str, Any] = {"body": result.body, "variant": result.variant}
    for name in ("total_reward", "length", "speed", "targets"):
        row |= {name: result.mean(name), f"{name}_se": result.standard_error(name)}
    lasted = [episode.length >= MAX_EPISODE_STEPS for episode in result.episodes]
    best = reference_return("specialist", (result.body,), result.variant)
    return row | {"lasted": sum(lasted) / len(lasted), "specialist": best}


def _cell(result: BodyResult, name: str) -> str:
    return format_mean(result.mean(name), result.standard_error(name))


def _number(row: dict[str, Any], name: str) -> str:
    return format_mean(row[name], row[f"{name}_se"])


def _share(value: float | None, whole: float | None) -> str:
    """Per cent; nothing where cards of earlier versions have no number."""
    return "" if value is None or not whole else f"{100 * value / whole:.0f}%"


def format_card(card: dict[str, Any]) -> str:
    """A card to read."""
    lines = [
        f"# {markdown_cell(card['name'])}",
        "",
        f"{markdown_cell(card['method'])} (`{card['preset']}`), trained by "
        f"{card['algorithm'].upper()} on "
        f"{len(card['bodies'])} {'body' if len(card['bodies']) == 1 else 'bodies'} "
        f"({card['variant']}) for {card['steps']:,} steps, {card['hours']:.1f} hours "
        f"({card['core_hours']:.1f} core-hours). Licence: {card['licence']}.",
        "",
        *(f"    {one_line(command)}" for command in card["commands"]),
        "",
        f"Commit {', '.join(commit or 'not recorded' for commit in card['commits'])}, "
        f"seed {card['seed']}, Python {card['versions']['python']}, "
        f"torch {card['versions']['torch']}, mujoco {card['versions']['mujoco']}"
        # Cards of earlier versions do not say.
        + (f" (physics {card['physics']['digest']})." if card.get("physics") else "."),
        "",
        f"Returns of the deterministic policy, mean and standard error of {card['episodes']} "
        "episodes; how much that is of what the best run on the body alone has, and the share of "
        "episodes that last to their end:",
        "",
        "| body | in training | v1: return | of its specialist's | length | lasts | v2: return "
        "| targets reached |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    by_key = {(row["body"], row["variant"]): row for row in card["results"]}
    for body in dict.fromkeys(row["body"] for row in card["results"]):
        far, near = by_key[body, "v1"], by_key[body, "v2"]
        cells = [
            _number(far, "total_reward"),
            _share(far["total_reward"], far.get("specialist")),
            _number(far, "length"),
            _share(far.get("lasted"), 1.0),
            _number(near, "total_reward"),
            _number(near, "targets"),
        ]
        lines.append(f"| {body} | {'yes' if far['seen'] else 'no'} | {' | '.join(cells)} |")
    if card.get("mirror"):  # cards of earlier versions have none
        lines += [
            "",
            "The same in the mirror, as the policy would act on the body's mirror image, for "
            "bodies that it was not trained on:",
            "",
            "| body | v1: return | length |",
            "| --- | ---: | ---: |",
        ]
        for row in card["mirror"]:
            cells = [format_mean(row[n], row[f"{n}_se"]) for n in ("total_reward", "length")]
            lines.append(f"| {row['body']} | {' | '.join(cells)} |")
    if known := card.get("known_by_mirror"):
        lines += ["", f"Trained on mirror images of: {', '.join(known)}."]
    if card["facing"]:
        lines += [
            "",
            "Metres nearer to a far target after an episode of up to 1,000 steps, by the angle "
            "between the heading and the target at its start:",
            "",
            f"| body | {' | '.join(f'{angle}°' for angle in ANGLES)} |",
            "| --- |" + " ---: |" * len(ANGLES),
        ]
        for body in dict.fromkeys(row["body"] for row in card["facing"]):
            own = [row for row in card["facing"] if row["body"] == body]
            cells = [format_mean(row["metres"], row["metres_se"]) for row in own]
            lines.append(f"| {body} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
