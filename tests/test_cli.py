"""The `sgrl` command, as a user runs it: in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import get_type_hints

import pytest
from PIL import Image

from sgrl.cli import COMMANDS, OWN_OPTIONS
from sgrl.morphology import TABLE
from sgrl.training.settings import TrainSettings
from sgrl.viewer.gallery import CAPTION, COLUMNS, TILE

ROOT = Path(__file__).parent.parent


def sgrl(
    *arguments: str | Path, cwd: Path, package: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command, from an unpacked `package` if one is given."""
    path = {} if package is None else {"PYTHONPATH": str(package)}
    return subprocess.run(
        [sys.executable, "-m", "sgrl.cli", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **path},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )


def rows(table: str) -> dict[str, list[str]]:
    """Cells of each body's line, by name."""
    lines = [[cell.strip() for cell in line.strip("│").split("│")] for line in table.splitlines()]
    return {cells[0]: cells[1:] for cells in lines if cells[0].startswith("3d_")}


def assert_one_line_error(
    done: subprocess.CompletedProcess[str], code: int, *words: str | Path
) -> None:
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("sgrl: ")
    for word in words:
        assert str(word) in done.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((), ("envs", "certify", "train", "eval", "demo")),
        (("envs",), ("--gallery",)),
        (("certify",), ("--methods", "--bodies", "--preset")),
        (("train",), ("--method", "--bodies", "--steps", "--resume", "--help all")),
        (("train", "--help", "td3"), ("--td3.gamma",)),
        (("eval",), ("--bodies", "--episodes", "--variant")),
        (("demo",), ("--out", "--seconds", "--minutes", "--body")),
    ],
)
def test_help(tmp_path: Path, command: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = sgrl(*command, *([] if "--help" in command else ["--help"]), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "usage: sgrl" in done.stdout
    for word in words:
        assert word in done.stdout


def test_envs_lists_the_bodies(tmp_path: Path) -> None:
    done = sgrl("envs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "…" not in done.stdout
    assert "..." not in done.stdout
    table = rows(done.stdout)
    assert list(table) == [entry.name for entry in TABLE]
    assert len(table) == 29
    # Limbs, hinges, moving motors, mass, collection, split.
    assert table["3d_hopper_3_shin"] == ["3", "6", "6", "13.0", "3d_hopper++", "train"]
    assert table["3d_walker_6_right_foot"] == ["6", "15", "10", "30.4", "3d_walker++", "zero-shot"]
    assert table["3d_humanoid_9_full"] == ["9", "24", "14", "42.1", "3d_humanoid++", "train"]
    assert table["3d_cheetah_14_full"] == ["14", "39", "26", "59.4", "3d_cheetah++", "train"]
    assert sum(cells[-1] == "zero-shot" for cells in table.values()) == 6
    assert not list(tmp_path.iterdir()), "a list writes no file"


def test_envs_gallery(tmp_path: Path) -> None:
    done = sgrl("envs", "--gallery", "new/out.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "new/out.png" in done.stdout
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out.png"]
    with Image.open(tmp_path / "new" / "out.png") as image:
        assert image.size == (COLUMNS * TILE, 5 * (TILE + CAPTION))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package as a wheel holds it, unpacked."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("sgrl-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "package")
    return tmp_path / "package"


def test_demo_from_the_wheel(tmp_path: Path, package: Path) -> None:
    short = ("--seconds", "0.2", "--minutes", "0.02", "--body", "3d_hopper_3_shin")
    done = sgrl("demo", "--out", "out", *short, cwd=tmp_path, package=package)
    assert done.returncode == 0, done.stderr
    for row in ("before: random actions", "after", "set-hopper, which ships"):
        assert re.search(rf"\| {row} +\| +-?[\d.,]+ ± [\d.]+ \| +\d+ of \d+ \|", done.stdout)
    written = sorted((tmp_path / "out").iterdir())
    names = ["before_and_after.mp4", "curve.png", "families.mp4", "run"]
    assert [path.name for path in written] == names
    for path in written:
        assert path.is_dir() or path.stat().st_size > 5_000
        assert str(path.relative_to(tmp_path)) in done.stdout
    assert done.stdout.index("families.mp4") < done.stdout.index("learns on 3d_hopper_3_shin")


def test_a_gallery_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = sgrl("envs", "--gallery", "folder", cwd=tmp_path)
    assert_one_line_error(done, 1, "folder is a folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert not list((tmp_path / "folder").iterdir())


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    done = sgrl("demo", "--out", "taken", "--minutes", "0.01", cwd=tmp_path)
    assert_one_line_error(done, 1, "taken")


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_video_of_no_length_is_refused(tmp_path: Path, seconds: str) -> None:
    done = sgrl("demo", "--out", "out", "--seconds", seconds, cwd=tmp_path)
    assert_one_line_error(done, 1, "seconds")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments", [(), ("unknown",), ("envs", "--unknown"), ("demo", "--seconds", "long")]
)
def test_wrong_arguments_are_explained(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = sgrl(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "sgrl" in done.stderr
    assert "--help" in done.stderr
    assert not list(tmp_path.iterdir())


def test_certify_prints_what_is_kept(tmp_path: Path) -> None:
    chosen = ("--methods", "set", "swat", "swat+tn", "--bodies", "3d_hopper++", "--samples", "2")
    done = sgrl("certify", *chosen, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for line in done.stdout.splitlines()
    ]
    assert lines[0] == ["method", "translation", "rotation", "reflection", "tilt", "mirror"]
    kept = {cells[0]: [cell[0] for cell in cells[1:]] for cells in lines[2:]}
    assert kept == {
        "set": ["✓", "✓", "✓", "✗", "✗"],
        "swat": ["✓", "✗", "✗", "✗", "✗"],
        "swat+tn": ["✓", "✓", "✗", "✗", "✗"],
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--methods", "sett"), ("unknown method 'sett'", "did you mean set")),
        (("--bodies", "3d_hoper++"), ("3d_hoper++", "did you mean 3d_hopper++")),
        (("--preset", "huge"), ("unknown preset 'huge'", "fast, many, paper")),
        (("--methods", "set", "--samples", "0"), ("samples must be 1 or more",)),
    ],
)
def test_certify_says_what_is_wrong(
    tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_one_line_error(sgrl("certify", *arguments, cwd=tmp_path), 1, *words)


def test_train_and_eval(tmp_path: Path) -> None:
    settings = ("--algorithm", "td3", "--steps", "60", "--td3.learning-starts", "40")
    few = ("--envs-per-body", "2", "--threads", "1")
    done = sgrl(
        "train", "--bodies", "3d_walker_2_right_leg_left_knee", *settings, *few, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "metrics.csv").exists()
    chosen = ("--bodies", "3d_hopper_3_shin", "--episodes", "3", "--threads", "1")
    done = sgrl("eval", run, *chosen, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3d_hopper_3_shin" in done.stdout
    assert list(run.glob("evaluations/*/episodes.csv"))


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("trian",), 2, ("unknown command 'trian'", "did you mean train")),
        (("train", "--bodies", "3d_hoper++"), 1, ("did you mean 3d_hopper++",)),
        (("train",), 1, ("name the bodies to train on",)),
        (("train", "3d_hopper++"), 1, ("sgrl train --bodies 3d_hopper++",)),
        (("eval", "runs/none"), 1, ("runs/none",)),
    ],
)
def test_commands_that_can_not_run_say_why(
    tmp_path: Path, command: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    assert_one_line_error(sgrl(*command, cwd=tmp_path), code, *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("--help",),
        ("envs",),
        ("policies",),
        ("eval", "--help"),
        ("view", "--help"),
        ("train", "--help"),
        ("train", "--help", "all"),
        ("distil", "--help"),
        ("completion", "bash"),
    ],
)
def test_a_command_that_computes_nothing_starts_without_what_is_slow_to_import(
    arguments: tuple[str, ...],
) -> None:
    """Torch takes seconds."""
    script = f"""
import sys
from sgrl.cli import main
sys.argv = ["sgrl", *{arguments}]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
slow = {{"torch", "matplotlib", "PIL", "imageio", "viser", "ray", "pandas", "scipy", "tensorboard"}}
assert not slow & set(sys.modules), slow & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_bodies_are_asked_for_alike_and_no_flag_is_negative(name: str) -> None:
    options = TrainSettings if name in OWN_OPTIONS else COMMANDS[name]
    hints = get_type_hints(options, include_extras=True)
    for option, hint in hints.items():
        assert not option.startswith("no_"), "it would be turned off by --no-no-…"
        if option in ("body", "bodies"):
            aliases = {alias for one in hint.__metadata__ for alias in one.aliases or ()}
            assert {f"--{option}", *aliases} == {"--body", "--bodies"}


def test_a_shell_completes_commands_and_options(tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(sgrl("completion", "bash", cwd=tmp_path).stdout, encoding="utf-8")
    asked = """
source "$1"
complete_word() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tyro_sgrl; echo "${COMPREPLY[@]}"; }
complete_word sgrl ev
complete_word sgrl train --ste
"""
    command = ["bash", "-c", asked, "bash", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    first, second = done.stdout.splitlines()
    assert first == "eval"
    assert second.startswith("--steps")
