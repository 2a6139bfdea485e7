"""What breaks a rule of the house today. The lists only shrink: `make allowed` after tidying up."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

FILE = Path(__file__).with_name("allowed.json")

Counts = dict[str, dict[str, int]]
"""How often each thing is found, by file or, for names, by kind."""


def allowed(rule: str) -> Counts:
    """What is let through of this rule."""
    counts: Counts = json.loads(FILE.read_text(encoding="utf-8")).get(rule, {})
    return counts


def found(rule: str) -> Counts:
    """What breaks the rule now."""
    from tests.style import test_docstrings, test_names, test_words

    finders = {
        "docstrings": test_docstrings.find,
        "words": test_words.find,
        "names": test_names.find,
    }
    return finders[rule]()


def beyond(rule: str) -> list[str]:
    """What breaks the rule and is not let through, a line each."""
    known = allowed(rule)
    return [
        f"{where}: {what} ({count} times, {known.get(where, {}).get(what, 0)} let through)"
        for where, counts in found(rule).items()
        for what, count in counts.items()
        if count > known.get(where, {}).get(what, 0)
    ]


def outdated(rule: str) -> list[str]:
    """What is let through and no longer there, a line each."""
    now = found(rule)
    return [
        f"{where}: {what}"
        for where, counts in allowed(rule).items()
        for what, count in counts.items()
        if count > now.get(where, {}).get(what, 0)
    ]


def collect(pairs: list[tuple[str, str]]) -> Counts:
    """Pairs of where and what, counted."""
    counts: Counts = {}
    for (where, what), count in sorted(Counter(pairs).items()):
        counts.setdefault(where, {})[what] = count
    return counts


def main() -> None:
    """Take from the lists what is no longer there; add nothing."""
    rules: dict[str, Counts] = {}
    for rule, known in json.loads(FILE.read_text(encoding="utf-8")).items():
        now = found(rule)
        rules[rule] = {}
        for where, counts in known.items():
            left = {what: min(n, now.get(where, {}).get(what, 0)) for what, n in counts.items()}
            if left := {what: n for what, n in left.items() if n}:
                rules[rule][where] = left
    FILE.write_text(json.dumps(rules, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
