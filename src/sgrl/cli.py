"""The command line: `sgrl envs | certify | demo`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from sgrl.morphology import FULL_BODIES, TABLE, compile_model, get_body


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
    for column in ("limbs", "hinges", "moving motors", "mass (kg)"):
        table.add_column(column, justify="right")
    table.add_column("collection", no_wrap=True)
    table.add_column("split", no_wrap=True)
    for entry in TABLE:
        body = get_body(entry.name)
        moving = sum(hinge.gear != 0 for limb in body.limbs for hinge in limb.hinges)
        table.add_row(
            entry.name,
            str(body.num_limbs),
            str(body.num_actions),
            str(moving),
            f"{compile_model(body).body_mass.sum():.1f}",
            f"3d_{entry.family}++",
            entry.split.replace("_", "-"),
        )
    # Wide enough for every name even where the output is not a terminal.
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def certify_methods(
    methods: tuple[str, ...] = (),
    bodies: tuple[str, ...] = (),
    preset: str = "fast",
    samples: int = 8,
    seed: int = 0,
) -> None:
    """Print the symmetry certificate of methods: what each keeps, measured in float64.

    In each cell the relative error of the action and of Q when the world is shifted, turned about
    the vertical, mirrored in a vertical plane, or tilted.

    Args:
        methods: Methods such as set or swat+hn; all if none is given.
        bodies: Bodies or collections; all 29 if none is given.
        preset: Size of the networks, fast or paper.
        samples: Elements of each group that are tried; the worst counts.
        seed: For weights, states and group elements.
    """
    from sgrl.models.certificate import certify, format_table
    from sgrl.models.methods import METHODS

    chosen = methods or tuple(METHODS)
    print(format_table(certify(chosen, bodies, preset=preset, samples=samples, seed=seed)))


def demo(out: Path = Path("demo"), seconds: float = 6.0) -> None:
    """List the bodies, write a picture of all of them and a video of four moving at random.

    Args:
        out: Folder for the picture and the video.
        seconds: Length of the video.
    """
    from sgrl.viewer.gallery import write_gallery
    from sgrl.viewer.video import random_policy, rollout_frames, write_video

    if not 0 < seconds < math.inf:
        raise ValueError(f"--seconds must be a positive number, not {seconds}")
    envs()
    picture, video = out / "bodies.png", out / "random.mp4"
    print("\ndrawing all bodies ...")
    write_gallery(picture)
    print("recording the four full bodies under random actions ...")
    names = [body.name for body in FULL_BODIES.values()]
    write_video(video, rollout_frames(names, random_policy(), seconds=seconds))
    print(f"\nSee {picture} and {video}.")
    print(
        "Next: python -c \"import gymnasium, sgrl; gymnasium.make('sgrl/3d_cheetah_14_full-v1')\""
    )


COMMANDS: dict[str, Callable[..., None]] = {
    "envs": envs,
    "certify": certify_methods,
    "demo": demo,
}


def main() -> None:
    """Entry point of the `sgrl` command."""
    try:
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="sgrl", description="Subequivariant graph reinforcement learning in 3D."
        )
    except (ValueError, OSError, RuntimeError) as error:
        # What the user can mend: one line that says how, not a traceback.
        raise SystemExit(f"sgrl: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
