"""Write the pages of the docs that are made from code and result files: `make pages`.

policies.md, the README's table and each card.md from the cards of policies, paper.md from the
folders in results/data, robustness.md from the file there, settings.md and cli.md from the
command line.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import docstring_parser
import tyro

from sgrl.algorithms.registry import ALGORITHMS
from sgrl.cli import COMMANDS, OWN_OPTIONS
from sgrl.experiments.paper import paper_return
from sgrl.morphology import MIRRORED, get_body
from sgrl.setting import setting_of, texts_of
from sgrl.training.card import (
    OVERVIEW,
    OVERVIEW_LEGEND,
    OVERVIEW_WORDS,
    format_card,
    how_known,
    number,
    overview,
    share,
    specialist_share,
    stage_table,
    weakness,
)
from sgrl.training.published import list_published
from sgrl.training.references import read_references
from sgrl.training.results import format_mean
from sgrl.training.run import SHIPPED
from sgrl.training.settings import TrainSettings
from sgrl.training.stages import commands_of, describe_commit, stages_of
from sgrl.training.train_options import TrainOptions

DOCS = Path(__file__).parent
DATA = DOCS / "results" / "data"
BEGIN = "<!-- What policies can do: made by `make pages`. -->"
END = "<!-- Until here. -->"
ROOT = DOCS.parent
POLICIES = """\
# Policies: what those that ship can do

Made by `make pages` from the cards of the policies, which `sgrl publish` measured; `sgrl policies`
prints the table, `sgrl policies NAME` a whole card, mirror images and start angles included.

"""
SPECIALISTS = """\

## The specialists

The specialist of a body is the best that any run of the project does on it: the mean return of 100
episodes of the deterministic policy, by the cards of teachers/ and of the policies that ship
(`python benchmarks/references.py`, which `make pages` runs).

| body | far targets (v1) | lasts | by | near targets (v2) | lasts | by |
| --- | ---: | ---: | --- | ---: | ---: | --- |
"""
PAPER = """\
# The paper's evaluations, on two cores

Made by `make pages` from the result folders in `docs/results/data`, at the budget `laptop`: SET and
its rivals by PPO, networks of preset `fast`, 18 minutes on one core for each training (15 on a
collection), two seeds, 100 episodes of the deterministic policy. So equal time, not equal steps.
Two trainings ran at once on a machine that did other things beside, so steps may vary by a tenth.
Paper: mean and standard error of its three seeds after millions of steps.
"""
ROBUSTNESS = """\
# Are the policies robust?

Made by `make pages` from `docs/results/data/robustness.json`, which `python
benchmarks/robustness.py` writes: each policy on the largest body of each family that it was trained
on, far targets, one [disturbance](../howto/disturb.md) at a time, from the same starts. A cell is
the mean return of the deterministic policy and the share of episodes that last all steps.
"""
SETTINGS = """\
# Settings of a training

Made by `make pages` from `TrainSettings`: the fields in Python, the keys of `settings.json` and,
with a dash for each underscore, the options of `sgrl train`. Those of the algorithm that learns are
in `config`. A flag that is on by default is turned off by `--no-…`.

"""
CLI = """\
# The command line

Made by `make pages` from the commands; `sgrl COMMAND --help` says the same. What a failure looks
like: [exit codes](run_folder.md#exit-codes). `python -m sgrl` is the same command. With the line
`eval "$(sgrl completion bash)"` in its start-up file, or `zsh` for `bash`, a shell completes
commands and options.

| command | what it does |
| --- | --- |
"""
OWN = """\
`--help` shows the options that most need, `--help all` all of them and `--help` with the name of an
algorithm its own. They are the [settings](settings.md) of a training, and:"""


def policies_page() -> str:
    """What the policies that ship can do, from their cards, and what there is to compare with."""
    cards = list_published()
    lines = [*overview_lines(cards), "", "| policy | trained on | stages | steps | core-hours |"]
    lines.append("| --- | --- | ---: | ---: | ---: |")
    for name, card in cards.items():
        trained = f"{len(card['bodies'])} bodies, {card['algorithm'].upper()} `{card['preset']}`"
        took = f"{len(stages_of(card))} | {card['steps']:,} | {card['core_hours']:.1f}"
        lines.append(f"| [{name}](#{name}) | {trained} | {took} |")
    for name, card in cards.items():
        lines += ["", f"## {name}", "", *_policy(name, card)]
    rows = read_references()["specialist"]
    bodies = sorted({*rows["v1"], *rows["v2"]})
    specialists = [
        f"| {body} | {_specialist(rows['v1'].get(body))} | {_specialist(rows['v2'].get(body))} |"
        for body in bodies
    ]
    return POLICIES + "\n".join(lines) + "\n" + SPECIALISTS + "\n".join(specialists) + "\n"


def overview_lines(cards: Mapping[str, dict[str, Any]]) -> list[str]:
    """The table of all policies, and what its columns mean."""
    rows = overview(cards)
    right = len(OVERVIEW) - OVERVIEW_WORDS
    lines = [f"| {' | '.join(OVERVIEW)} |", "|" + " --- |" * OVERVIEW_WORDS + " ---: |" * right]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return [*lines, "", *textwrap.wrap(OVERVIEW_LEGEND, 100)]


def _specialist(row: dict[str, Any] | None) -> str:
    if row is None:
        return " | | "
    lasts = f"{row['lasted']:.0%}" if "lasted" in row else ""
    return f"{format_mean(row['return'], row['se'])} | {lasts} | {row['source']}"


def _policy(name: str, card: dict[str, Any]) -> Iterator[str]:
    # Notes are of one training: those of the policy before are left out.
    notes = DATA / "notes" / f"{name}-{card['steps']}.md"
    if notes.exists():
        yield from notes.read_text(encoding="utf-8").splitlines()
        yield ""
    stages = stages_of(card)
    yield from stage_table(stages)
    yield from ("", "The commands; settings have the names of their commits:", "", "```text")
    yield from commands_of(stages)
    yield from ("```", "")
    yield (
        "| body | trained on | far targets (v1) | of the best | stays up (s) | lasts "
        "| near targets (v2) | lasts | reached | paper | weak |"
    )
    yield "| --- | --- |" + " ---: |" * 8 + " --- |"
    by_key = {(row["body"], row["variant"]): row for row in card["results"]}
    for body in dict.fromkeys(row["body"] for row in card["results"]):
        if body.endswith(MIRRORED):
            continue
        far, near = by_key[body, "v1"], by_key[body, "v2"]
        paper = paper_return(card["method"], card["bodies"], body)
        cells = (
            how_known(card, far),
            number(far, "total_reward"),
            share(specialist_share(far)),
            f"{far['length'] * get_body(body).dt:.1f}",
            share(far.get("lasted")),
            number(near, "total_reward"),
            share(near.get("lasted")),
            f"{near['targets']:.1f}",
            "" if paper is None else format_mean(*paper),
            weakness(far),
        )
        yield f"| {body} | {' | '.join(cells)} |"


def readme_page() -> str:
    """The README with the table of policies as their cards have it."""
    before, rest = (ROOT / "README.md").read_text(encoding="utf-8").split(BEGIN, 1)
    _, after = rest.split(END, 1)
    table = "\n".join(overview_lines(list_published()))
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def card_page(file: Path) -> str:
    """A card to read, with the specialists' returns as they are known today."""
    return format_card(json.loads(file.read_text(encoding="utf-8")))


def paper_page() -> str:
    """The paper's evaluations as they were run here, from the result folders in results/data."""
    lines = []
    for about in sorted(DATA.glob("*/about.json")):
        lines += ["", *_experiment(about.parent)]
    return PAPER + "\n".join(lines) + "\n"


def _experiment(folder: Path) -> Iterator[str]:
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    yield f"## {about['title']} ({about['paper']})"
    yield from ("", "```sh")
    yield f"{about['command']}      # commit {about['commit']}; {about['cost']}"
    yield from ("```", "")
    yield from (folder / "table.md").read_text(encoding="utf-8").splitlines()
    yield ""
    if "figure" in about:
        yield f"![{about['figure_shows']}](../images/{about['figure']})"
        yield ""
    yield from (folder / "notes.md").read_text(encoding="utf-8").splitlines()


def robustness_page() -> str:
    """Shipped policies under disturbances; those that were measured as they ship."""
    found = json.loads((DATA / "robustness.json").read_text(encoding="utf-8"))
    cards = list_published()
    shown = [name for name in cards if found["steps"].get(name) == cards[name]["steps"]]
    table: dict[tuple[str, str], dict[str, str]] = {}
    for row in found["rows"]:
        if row["policy"] in shown:
            cells = table.setdefault((row["policy"], row["body"]), {})
            cells[row["condition"]] = f"{row['total_reward']:,.0f}, {row['lasted']:.0%}"
    conditions = dict.fromkeys(row["condition"] for row in found["rows"])
    about = f"{found['episodes']} episodes a cell, commit {describe_commit(found['commit'])}"
    lines = ["", f"{about}, MuJoCo {found['physics']['mujoco']}."]
    if missing := [name for name in cards if name not in shown]:
        lines += ["", f"Not measured yet: {', '.join(missing)}."]
    if table:
        names = [f"{policy}, {body.removeprefix('3d_')}" for policy, body in table]
        lines += ["", f"| | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names)]
        for condition in conditions:
            cells = [column.get(condition, "") for column in table.values()]
            lines.append(f"| {condition} | {' | '.join(cells)} |")
    return ROBUSTNESS + "\n".join(lines) + "\n"


def settings_page() -> str:
    """Every setting of a training, from the fields of `TrainSettings`."""
    lines = [*_fields(TrainSettings, "--")]
    for name, row in ALGORITHMS.items():
        lines += ["", f"## `--{name}.…`", ""]
        lines += _fields(row.config_class(), f"--{name}.")
    return SETTINGS + "\n".join(lines) + "\n"


def _fields(config: Any, prefix: str) -> Iterator[str]:
    """A table of the settings of a dataclass."""
    yield "| option | default | bounds | meaning |"
    yield "| --- | --- | --- | --- |"
    texts = texts_of(config)
    for field in dataclasses.fields(config):
        if field.name in ("config", "network"):
            continue
        default = "" if field.default in (None, ()) else f"`{_shown(field.default)}`"
        option = prefix + field.name.replace("_", "-")
        bounds = setting_of(field).bounds()
        yield f"| `{option}` | {default} | {bounds} | {texts[field.name]} |"


def _shown(value: Any) -> str:
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def cli_page() -> str:
    """Every command and its options, from the functions behind them."""
    lines = []
    for name, command in COMMANDS.items():
        lines.append(f"| [`sgrl {name}`](#sgrl-{name}) | {_parsed(command).short_description} |")
    for name, command in COMMANDS.items():
        lines += ["", f"## sgrl {name}", "", *_command(name, command)]
    return CLI + "\n".join(lines) + "\n"


def _parsed(command: Callable[..., object]) -> docstring_parser.Docstring:
    return docstring_parser.parse(inspect.cleandoc(command.__doc__ or ""))


def _command(name: str, command: Callable[..., object]) -> Iterator[str]:
    parsed = _parsed(command)
    yield str(parsed.short_description)
    if parsed.long_description:
        yield from ("", parsed.long_description)
    if name in OWN_OPTIONS:
        yield from ("", OWN)
        yield from ("", "| option | meaning |", "| --- | --- |")
        for option, text in texts_of(TrainOptions).items():
            if name == "train" or option != "recipe":
                yield f"| `--{option}` | {text} |"
        return
    texts = {one.arg_name: " ".join((one.description or "").split()) for one in parsed.params}
    parameters = inspect.signature(command).parameters
    if not parameters:
        return
    yield from ("", "| option | default | meaning |", "| --- | --- | --- |")
    hints = typing.get_type_hints(command, include_extras=True)
    for one in parameters.values():
        notes = getattr(hints[one.name], "__metadata__", ())
        positional = tyro.conf.Positional[str].__metadata__[0] in notes
        for note in notes:
            texts[one.name] = getattr(note, "help", None) or texts.get(one.name, "")
        option = one.name.upper() if positional else f"--{one.name.replace('_', '-')}"
        left_out = one.default in (None, (), inspect.Parameter.empty)
        default = "" if left_out else f"`{_shown(one.default)}`"
        yield f"| `{option}` | {default} | {texts[one.name]} |"


PAGES: dict[str, Callable[[], str]] = {
    "reference/settings.md": settings_page,
    "reference/cli.md": cli_page,
    "results/policies.md": policies_page,
    "results/paper.md": paper_page,
    "results/robustness.md": robustness_page,
    "../README.md": readme_page,
} | {
    f"../{file.with_suffix('.md').relative_to(ROOT).as_posix()}": partial(card_page, file)
    for folder in (SHIPPED, ROOT / "teachers")
    for file in sorted(folder.glob("*/card.json"))
}


def main() -> None:
    """Write every page that differs from the file."""
    for name, make in PAGES.items():
        page = DOCS / name
        text = make()
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
            print(f"wrote {page}")


if __name__ == "__main__":
    main()
