"""The pages of the docs, and what is in them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"), key=str)
PAGES = [page for page in PAGES if not {"data", "_build", "api"} & set(page.parts)]
"""All but what `make docs` writes."""
NAMES = [page.relative_to(DOCS).as_posix() for page in PAGES]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page that are written in this language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    """A page without its fenced blocks and code spans."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", lambda match: match[0] if "](" in match[0] else "x", text)


def anchors(page: Path) -> set[str]:
    """What a link to a heading of the page may end with, as GitHub and MyST make it."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands(page: Path) -> list[list[str]]:
    """The words of each `sgrl …` line in the shell blocks of a page, with variables left in."""
    found = []
    for block in blocks(page, "sh") + blocks(page, "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "sgrl":
                found.append(words[1:])
    return found
