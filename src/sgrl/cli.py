"""The command line: `sgrl --help` lists the commands."""

from __future__ import annotations

import difflib
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

import sgrl
from sgrl.command_line import BodiesOption, read_options
from sgrl.demo import demo
from sgrl.experiments.command import reproduce_command
from sgrl.experiments.specialists import specialists_command
from sgrl.models.plugins import TRUST, TrustOption
from sgrl.morphology import TABLE, compile_model, get_body
from sgrl.report.report_command import report_command
from sgrl.training.evaluate import eval_command
from sgrl.viewer.commands import replay_command, video_command, view_command


def envs(gallery: Path | None = None) -> None:
    """List the 29 bodies, or draw them all in one picture.

    Args:
        gallery: Write a PNG of all bodies with their names here.
    """
    if gallery is not None:
        from sgrl.viewer.gallery import write_gallery

        write_gallery(gallery)
        print(f"wrote {gallery}")
        return
    table = Table(title="Bodies: gymnasium.make('sgrl/<body>-v1'), or -v2 for near targets")
    table.add_column("body", no_wrap=True)
    for column in ("limbs", "hinges", "actuated motors", "mass (kg)"):
        table.add_column(column, justify="right")
    table.add_column("collection", no_wrap=True)
    table.add_column("split", no_wrap=True)
    for entry in TABLE:
        body = get_body(entry.name)
        table.add_row(
            entry.name,
            str(body.num_limbs),
            str(body.action_dim),
            str(body.actuated.sum()),
            f"{compile_model(body).body_mass.sum():.1f}",
            f"3d_{entry.family}++",
            entry.split.replace("_", "-"),
        )
    # Wide enough for every name even where the output is not a terminal.
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def certify(
    methods: tuple[str, ...] = (),
    bodies: BodiesOption = (),
    preset: str = "fast",
    samples: int = 8,
    seed: int = 0,
    trust: TrustOption = (),
) -> None:
    """Print the symmetry certificate of methods: what each keeps, measured in float64.

    In each cell the relative error of the action and of Q when the world is shifted, turned about
    the vertical, mirrored in a vertical plane, or tilted. What a method claims and does not keep is
    marked ✗!, and the command fails.

    Args:
        methods: Methods such as set or swat+hn, or your own as module:Class; all if none is given.
        bodies: Bodies or collections, with _mirrored after the name their mirror images; all 29 if
            none is given.
        preset: Size of the networks: fast, many or paper.
        samples: Elements of each group that are tried; the worst counts.
        seed: For weights, states and group elements.
    """
    from sgrl.models import certificate

    TRUST.add(trust)
    TRUST.add_named(methods)
    rows = certificate.certify(methods, bodies, preset=preset, samples=samples, seed=seed)
    print(certificate.format_table(rows), flush=True)
    if violated := certificate.violations(rows):
        raise RuntimeError("; ".join(violated))


def policies(name: Annotated[str | None, tyro.conf.Positional] = None) -> None:
    """List the policies that come with the package, or print the card of one.

    Args:
        name: Policy to tell about; all, a line each, if none is given.
    """
    from sgrl.training.published import format_card, list_published

    cards = list_published()
    if name is not None:
        if name not in cards:
            known = ", ".join(cards) or "none"
            raise ValueError(f"there is no policy {name!r} in the package; there are {known}")
        print(format_card(cards[name]))
        return
    if not cards:
        print("no policy comes with this package; train one, or see sgrl publish")
        return
    table = Table(title="Policies: sgrl.load_policy('<name>'), sgrl view <name>")
    for column in ("policy", "method", "algorithm"):
        table.add_column(column, no_wrap=True)
    for column in ("bodies", "steps", "mean return v1: seen", "unseen"):
        table.add_column(column, justify="right")
    for title, card in cards.items():
        means = []
        for seen in (True, False):
            far = [row for row in card["results"] if (row["variant"], row["seen"]) == ("v1", seen)]
            mean = sum(row["total_reward"] for row in far) / max(1, len(far))
            means.append(f"{mean:,.0f}" if far else "")
        about = (title, card["method"], card["algorithm"], str(len(card["bodies"])))
        table.add_row(*about, f"{card['steps']:,}", *means)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def publish(
    run: Annotated[Path, tyro.conf.Positional],
    *,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    episodes: int = 100,
    threads: int = 0,
    trust: TrustOption = (),
) -> None:
    """Make a run's policy fit to be passed on: its weights, without the rest, and a card.

    The card has the commands, commits, steps and time, and the returns on what it was trained on,
    for several bodies on all of their families, far and near targets, and by start angle.

    Args:
        run: Folder of the run, or its name in runs.
        out: New folder; its name is the policy's.
        episodes: Episodes of each body that the card reports on.
        threads: Threads of the physics; 0 for all cores.
    """
    from sgrl.training import published
    from sgrl.training.policy import act_on_one_thread

    act_on_one_thread()
    published.publish(run, out, episodes=episodes, threads=threads, trust=trust)
    print(f"wrote {out}; see {out / 'card.md'}")


def train(arguments: Sequence[str]) -> None:
    """Train a policy on one body or many; stop it when you like and go on with --resume."""
    from sgrl.training.command import parse_settings, train_command

    train_command(parse_settings(arguments, train.__doc__))


def distil(arguments: Sequence[str]) -> None:
    """Make one policy of many: a student learns what runs and policies would do.

    First the runs or shipped policies to learn from, then options as `sgrl train` has them.
    """
    from sgrl.training.command import train_command
    from sgrl.training.distil_command import parse_distillation

    train_command(parse_distillation(arguments, distil.__doc__))


COMMANDS: dict[str, Callable[..., object]] = {
    "envs": envs,
    "certify": certify,
    "train": train,
    "specialists": specialists_command,
    "distil": distil,
    "eval": eval_command,
    "policies": policies,
    "publish": publish,
    "reproduce": reproduce_command,
    "report": report_command,
    "view": view_command,
    "replay": replay_command,
    "video": video_command,
    "demo": demo,
}


OWN_OPTIONS: dict[str, Callable[[Sequence[str]], None]] = {"train": train, "distil": distil}
"""Commands whose options depend on what is learned, or how."""


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [
        f"  {name:{width}}  {(command.__doc__ or '').splitlines()[0]}"
        for name, command in COMMANDS.items()
    ]
    return "\n".join(
        [
            "usage: sgrl COMMAND [--help] ...",
            "",
            "Subequivariant graph reinforcement learning in 3D.",
            "",
            *lines,
        ]
    )


def main() -> None:
    """Entry point of the `sgrl` command."""
    if len(sys.argv) < 2:
        print(_help(), file=sys.stderr)
        raise SystemExit(2)
    name, *arguments = sys.argv[1:]
    if name in ("-h", "--help"):
        print(_help())
        return
    if name == "--version":
        print(f"sgrl {sgrl.__version__}")
        return
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}"
        print(f"sgrl: unknown command {name!r}; {hint} (sgrl --help)", file=sys.stderr)
        raise SystemExit(2)
    try:
        if name in OWN_OPTIONS:
            OWN_OPTIONS[name](arguments)
        else:
            read_options(COMMANDS[name], f"sgrl {name}", arguments)
    except (ValueError, OSError, RuntimeError) as error:
        # What the user can mend: one line that says how, not a traceback.
        raise SystemExit(f"sgrl: {error}") from None
    except KeyboardInterrupt as stop:
        # What a shell reports of a process that a signal ended.
        raise SystemExit(128 + getattr(stop, "number", signal.SIGINT)) from None


if __name__ == "__main__":
    main()
