"""Write the pages of the docs that are made from code and result files: `make pages`.

policies.md from the cards of the policies that ship, paper.md from the folders in results/data,
settings.md and cli.md from the command line.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docstring_parser
import tyro

from sgrl.algorithms.registry import ALGORITHMS
from sgrl.cli import COMMANDS, OWN_OPTIONS
from sgrl.experiments.paper import ZERO_SHOT
from sgrl.setting import setting_of, texts_of
from sgrl.training.published import list_published
from sgrl.training.results import format_mean
from sgrl.training.settings import TrainSettings
from sgrl.training.train_options import TrainOptions

DOCS = Path(__file__).parent
DATA = DOCS / "results" / "data"
POLICIES = """\
# Policies: what those that ship can do

Made by `make pages` from the cards of the policies, which `sgrl publish` measured. Returns of the
deterministic policy, mean and standard error of 100 episodes; `sgrl policies NAME` prints the whole
card. Mirror images of bodies count in the means and are not in the tables.

| policy | trained on | steps | core-hours | mean return, trained on | never seen |
| --- | --- | ---: | ---: | ---: | ---: |
"""
PAPER = """\
# The paper's evaluations, on two cores

Made by `make pages` from the result folders in `docs/results/data`, at the budget `laptop`: SET and
its rivals by PPO, networks of preset `fast`, 18 minutes on one core for each training (15 on a
collection), two seeds, 100 episodes of the deterministic policy. So equal time, not equal steps.
Two trainings ran at once on a machine that did other things beside, so steps may vary by a tenth.
Paper: mean and standard error of its three seeds after millions of steps.
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
    """What the policies that ship can do, from their cards."""
    cards = list_published()
    lines = [_overview(name, card) for name, card in cards.items()]
    for name, card in cards.items():
        lines += ["", f"## {name}", "", *_policy(name, card)]
    return POLICIES + "\n".join(lines) + "\n"


def _overview(name: str, card: dict[str, Any]) -> str:
    means = []
    for seen in (True, False):
        far = [row for row in card["results"] if (row["variant"], row["seen"]) == ("v1", seen)]
        mean = sum(row["total_reward"] for row in far) / max(1, len(far))
        means.append(f"{mean:,.0f}" if far else "")
    return (
        f"| [{name}](#{name}) | {len(card['bodies'])} bodies, {card['algorithm'].upper()} "
        f"`{card['preset']}` | {card['steps']:,} | {card['core_hours']:.1f} | {' | '.join(means)} |"
    )


def _policy(name: str, card: dict[str, Any]) -> Iterator[str]:
    notes = DATA / "notes" / f"{name}.md"
    if notes.exists():
        yield from notes.read_text(encoding="utf-8").splitlines()
        yield ""
    commits = ", ".join((commit or "not recorded")[:7] for commit in card["commits"])
    yield f"Trained by these commands (commits {commits}; settings have the names of that time):"
    yield from ("", "```text", *card["commands"], "```", "")
    yield "| body | trained on | far targets (v1) | length | near targets (v2) | reached | paper |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    by_key = {(row["body"], row["variant"]): row for row in card["results"]}
    for body in dict.fromkeys(row["body"] for row in card["results"]):
        if body.endswith("_mirrored"):
            continue
        far, near = by_key[body, "v1"], by_key[body, "v2"]
        paper = "" if far["seen"] else _zero_shot_of_paper(body)
        yield (
            f"| {body} | {'yes' if far['seen'] else 'no'} | "
            f"{format_mean(far['total_reward'], far['total_reward_se'])} | {far['length']:.0f} | "
            f"{format_mean(near['total_reward'], near['total_reward_se'])} | "
            f"{near['targets']:.1f} | {paper} |"
        )


def _zero_shot_of_paper(body: str) -> str:
    """The paper's return of SET on a held-out body after training on the rest of its family."""
    collection = f"{'_'.join(body.split('_')[:2])}++"
    number = ZERO_SHOT.get(("set", collection, body, ""))
    return "" if number is None else format_mean(*number)


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


PAGES = {
    "reference/settings.md": settings_page,
    "reference/cli.md": cli_page,
    "results/policies.md": policies_page,
    "results/paper.md": paper_page,
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
