"""The command line: `sgrl --help` lists the commands. One file a command, or a few of a kind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence

import sgrl
from sgrl.cli.certify import certify_command
from sgrl.cli.completion import completion_command
from sgrl.cli.distil import distil
from sgrl.cli.envs import envs_command
from sgrl.cli.eval import eval_command
from sgrl.cli.policies import policies_command
from sgrl.cli.publish import publish_command
from sgrl.cli.report import report_command
from sgrl.cli.reproduce import reproduce_command
from sgrl.cli.train import train
from sgrl.command_line import read_options
from sgrl.demo import demo
from sgrl.experiments.specialists import specialists_command
from sgrl.markup import error_lines
from sgrl.nearest import did_you_mean
from sgrl.viewer.commands import replay_command, video_command, view_command

COMMANDS: dict[str, Callable[..., object]] = {
    "envs": envs_command,
    "certify": certify_command,
    "train": train,
    "specialists": specialists_command,
    "distil": distil,
    "eval": eval_command,
    "policies": policies_command,
    "publish": publish_command,
    "reproduce": reproduce_command,
    "report": report_command,
    "view": view_command,
    "replay": replay_command,
    "video": video_command,
    "demo": demo,
    "completion": completion_command,
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
        hint = did_you_mean(name, COMMANDS)
        print(f"sgrl: unknown command {name!r}; {hint} (sgrl --help)", file=sys.stderr)
        raise SystemExit(2)
    try:
        if name in OWN_OPTIONS:
            OWN_OPTIONS[name](arguments)
        else:
            read_options(COMMANDS[name], f"sgrl {name}", arguments)
    except BrokenPipeError:
        # Who reads the output has seen enough; what is left of it must not fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + signal.SIGPIPE) from None
    except (ValueError, OSError, RuntimeError) as error:
        # What the user can mend: one line that says how, not a traceback.
        raise SystemExit(f"sgrl: {error_lines(error)}") from None
    except KeyboardInterrupt as stop:
        # What a shell reports of a process that a signal ended.
        raise SystemExit(128 + getattr(stop, "number", signal.SIGINT)) from None
