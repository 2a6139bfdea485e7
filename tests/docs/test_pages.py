"""Every page of the docs is short, its links lead somewhere, its code runs, its commands parse."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

from sgrl.cli import COMMANDS
from sgrl.training.command import parse_settings
from tests.docs.pages import DOCS, NAMES, PAGES, ROOT, anchors, blocks, commands, prose

IMPORTS_ONLY = {"howto/cluster.md", "howto/reproduce.md", "tutorials/own_network.md"}
"""Their code trains on many processes, or is run by a test of its own."""
TINY = {"minutes=10": "minutes=0.02, threads=1", "episodes=20": "episodes=2"}
"""What is made smaller before code is run."""
OF_THEIR_TIME = {f"results/{name}.md" for name in ("history", "curves", "speed", "policies")}
"""Pages whose commands have the options of the commit that ran them."""


@pytest.fixture(autouse=True)
def anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_at_most_200_lines(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    # A list of all commands is as long as it is.
    assert "Made by `make pages`" in text or len(text.splitlines()) <= 200


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    for link in links:
        if "://" in link or link.startswith("mailto:"):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_can_be_reached_from_the_first() -> None:
    reached, new = set(), {DOCS / "index.md"}
    while new:
        reached |= new
        links = {(page.parent / link).resolve() for page in new for link in targets(page)}
        new = {page for page in links if page.suffix == ".md" and DOCS in page.parents} - reached
    assert {page.relative_to(DOCS).as_posix() for page in reached} == set(NAMES)


def targets(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)#\s:]+\.md)", prose(page))


def test_every_picture_is_shown_somewhere() -> None:
    # Notes of a policy are shown until another takes its place.
    pages = [*PAGES, ROOT / "README.md", *(DOCS / "results" / "data" / "notes").glob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    for picture in (DOCS / "images").iterdir():
        assert f"images/{picture.name})" in text, picture.name


@pytest.mark.parametrize("name", [name for name in NAMES if blocks(DOCS / name, "python")])
def test_the_code_of_a_page_runs(name: str, tmp_path: Path) -> None:
    code = "\n".join(blocks(DOCS / name, "python"))
    if name in IMPORTS_ONLY:
        tree = ast.parse(code)
        tree.body = [one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
        code = "\n".join(line for line in ast.unparse(tree).splitlines() if " mine " not in line)
    for large, tiny in TINY.items():
        code = code.replace(large, tiny)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


CASES = [(name, words) for name in NAMES for words in commands(DOCS / name)]
CASES = [case for case in CASES if case[0] not in OF_THEIR_TIME]


@pytest.mark.parametrize(("name", "words"), CASES, ids=[" ".join(case[1]) for case in CASES])
def test_a_command_of_a_page_parses(name: str, words: list[str]) -> None:
    command, *arguments = words
    if command == "train":
        if name != "howto/own_algorithm.md":  # whose module is not at hand
            parse_settings(arguments)
        return
    function = COMMANDS[command]

    @functools.wraps(function)
    def parse_only(*args: object, **kwargs: object) -> None:
        return None

    tyro.cli(parse_only, args=arguments)


def test_generated_pages_are_current() -> None:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for name, make in generate.PAGES.items():
        text = (DOCS / name).read_text(encoding="utf-8")
        assert text == make(), f"{name}: run `make pages`"
