"""Cards of policies to read: one of them in full, and what all of them can do in a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from sgrl.envs.variant import MAX_EPISODE_STEPS, Variant
from sgrl.markup import markdown_cell, one_line
from sgrl.morphology import MIRRORED, get_body
from sgrl.training.references import reference_return
from sgrl.training.results import LASTING, find_weakness, format_mean
from sgrl.training.stages import Stage, commands_of, describe_commit, stages_of

Card = dict[str, Any]
Row = dict[str, Any]
"""What a card says of a body and a variant. Those of before 0.2 have less: cells stay empty."""

OVERVIEW = (
    "policy",
    "family",
    "stays up (s)",
    "lasts",
    "lasts near",
    "bodies",
    "that last",
    "targets",
    "return",
    "of the best",
    "never seen",
)
"""Titles of `overview`; the first `OVERVIEW_WORDS` are of words."""
OVERVIEW_WORDS = 2
OVERVIEW_LEGEND = (
    "Means over the bodies of a family that the policy was trained on, mirror images left out, "
    "with far targets: how long it stays up of the time that an episode has, what share of the "
    "episodes lasts, also with near ones, how many bodies there are and on how many at least "
    f"{LASTING:.0%} of the episodes last; how many near targets it reaches in an episode; the "
    "return, how much that is of the best return of any run of the project on each body, and the "
    "return on bodies of which neither they nor their mirror images were trained on."
)


def overview(cards: Mapping[str, Card]) -> list[tuple[str, ...]]:
    """What policies can do, a row for each family of each: cells under `OVERVIEW`."""
    rows = []
    for name, card in cards.items():
        known = [row for row in card["results"] if not row["body"].endswith(MIRRORED)]
        families = dict.fromkeys(get_body(row["body"]).family for row in known if row["seen"])
        by_mirror = card.get("known_by_mirror", ())
        for family in families:
            own = [
                row
                for row in known
                if get_body(row["body"]).family == family and row["body"] not in by_mirror
            ]
            rows.append((name, family, *_family_cells(own)))
    return rows


def _family_cells(rows: list[Row]) -> Iterator[str]:
    far, near, unseen = (
        [row for row in rows if (row["variant"], row["seen"]) == key]
        for key in (("v1", True), ("v2", True), ("v1", False))
    )
    seconds = [row["length"] * get_body(row["body"]).dt for row in far]
    whole = MAX_EPISODE_STEPS * fmean(get_body(row["body"]).dt for row in far)
    lasted, lasted_near = (
        [row["lasted"] for row in some if "lasted" in row] for some in (far, near)
    )
    shares = [part for row in far if (part := specialist_share(row)) is not None]
    yield f"{fmean(seconds):.1f}/{whole:.0f}"
    yield f"{fmean(lasted):.0%}" if lasted else ""
    yield f"{fmean(lasted_near):.0%}" if lasted_near else ""
    yield str(len(far))
    yield f"{sum(part >= LASTING for part in lasted)}" if lasted else ""
    yield f"{fmean(row['targets'] for row in near):.1f}"
    yield f"{fmean(row['total_reward'] for row in far):,.0f}"
    yield f"{fmean(shares):.0%}" if len(shares) == len(far) else ""
    yield f"{fmean(row['total_reward'] for row in unseen):,.0f}" if unseen else ""


def specialist_share(row: Row) -> float | None:
    """A return as part of the body's specialist's, as far as that is known today."""
    best = _specialist(row)
    return row["total_reward"] / best if best else None


def weakness(row: Row) -> str:
    """Why the policy does badly on a body, in a word (see `results.find_weakness`)."""
    if "lasted" not in row:
        return ""
    return find_weakness(row["lasted"], row["total_reward"], _specialist(row))


def _specialist(row: Row) -> float | None:
    variant: Variant = row["variant"]
    return reference_return("specialist", (row["body"],), variant)


def number(row: Row, name: str) -> str:
    """A statistic with its standard error; nothing where a card does not have it."""
    return format_mean(row[name], row[f"{name}_se"]) if row.get(name) is not None else ""


def share(value: float | None) -> str:
    """Per cent; nothing for None."""
    return "" if value is None else f"{value:.0%}"


def how_known(card: Card, row: Row) -> str:
    """Whether a body was trained on, or its mirror image alone."""
    if row["seen"]:
        return "yes"
    return "mirror image" if row["body"] in card.get("known_by_mirror", ()) else "no"


def format_card(card: Card) -> str:
    """A card to read."""
    stages, versions = stages_of(card), card["versions"]
    made = f"Seed {card['seed']}, Python {versions['python']}, torch {versions['torch']}, mujoco "
    made += versions["mujoco"]
    # Cards of earlier versions do not say.
    if card.get("physics"):
        made += f" (physics {card['physics']['digest']})"
    if "measured_at" in card:
        made += f"; measured at commit {describe_commit(card['measured_at'])}"
    lines = [
        f"# {markdown_cell(card['name'])}",
        "",
        f"{markdown_cell(card['method'])} (`{card['preset']}`), trained by "
        f"{card['algorithm'].upper()} on "
        f"{len(card['bodies'])} {'body' if len(card['bodies']) == 1 else 'bodies'} "
        f"({card['variant']}). All that went into it: {card['steps']:,} steps, "
        f"{card['core_hours']:.1f} core-hours. License: {card.get('license', 'MIT')}.",
        "",
        *stage_table(stages),
        "",
        *(f"    {one_line(command)}" for command in commands_of(stages)),
        "",
        f"{made}.",
        "",
        f"The deterministic policy, mean and standard error of {card['episodes']} episodes: "
        "returns with far (v1) and near targets (v2), how much that is of the best of any run of "
        "the project on the body, the share of episodes that last all steps, metres nearer to the "
        "target, near targets reached, and how far it is from acting on the body's mirror image "
        "as the image of what it does.",
        "",
        "| body | in training | v1: return | of specialist's | length | lasts | gained (m) "
        "| v2: return | of specialist's | lasts | reached | mirror error | weak |",
        "| --- | --- |" + " ---: |" * 10 + " --- |",
    ]
    by_key = {(row["body"], row["variant"]): row for row in card["results"]}
    errors = card.get("mirror_errors", {})
    for body in dict.fromkeys(row["body"] for row in card["results"]):
        far, near = by_key[body, "v1"], by_key[body, "v2"]
        cells = [
            number(far, "total_reward"),
            share(specialist_share(far)),
            number(far, "length"),
            share(far.get("lasted")),
            number(far, "gained"),
            number(near, "total_reward"),
            share(specialist_share(near)),
            share(near.get("lasted")),
            number(near, "targets"),
            share(errors.get(body)),
            weakness(far),
        ]
        lines.append(f"| {body} | {how_known(card, far)} | {' | '.join(cells)} |")
    if card.get("mirror"):  # cards of earlier versions have none
        lines += [
            "",
            "The same mirrored, as the policy would act on the body's mirror image, for "
            "bodies that it was not trained on:",
            "",
            "| body | v1: return | length | lasts |",
            "| --- | ---: | ---: | ---: |",
        ]
        for row in card["mirror"]:
            cells = [number(row, "total_reward"), number(row, "length"), share(row.get("lasted"))]
            lines.append(f"| {row['body']} | {' | '.join(cells)} |")
    if card["facing"]:
        angles = list(dict.fromkeys(row["angle"] for row in card["facing"]))
        lines += [
            "",
            "Metres nearer to a far target after an episode of up to 1,000 steps, by the angle "
            "between the heading and the target at its start:",
            "",
            f"| body | {' | '.join(f'{angle}°' for angle in angles)} |",
            "| --- |" + " ---: |" * len(angles),
        ]
        for body in dict.fromkeys(row["body"] for row in card["facing"]):
            own = [row for row in card["facing"] if row["body"] == body]
            lines.append(f"| {body} | {' | '.join(number(row, 'metres') for row in own)} |")
    return "\n".join(lines) + "\n"


def stage_table(stages: list[Stage]) -> list[str]:
    """What each stage took: lines of Markdown."""
    lines = [
        "| stage | steps | hours | cores | core-hours | commit |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for stage in stages:
        hours, core_hours = stage["hours"], stage["core_hours"]
        cores = f"{core_hours / hours:.2g}" if hours else ""
        commits = ", ".join(map(describe_commit, stage["commits"]))
        took = f"{stage['steps']:,} | {hours:.2f} | {cores} | {core_hours:.2f}"
        lines.append(f"| {markdown_cell(stage['name'])} | {took} | {commits} |")
    return lines
