"""The field's words, in code, comments and pages: none of those that only this project used."""

from __future__ import annotations

import re

from tests.style.allowed import Counts, beyond, collect
from tests.style.source import FILES, ROOT

WORDS = {
    # British spelling
    r"[cC]olour": "color",
    r"[nN]ormalis|[oO]ptimis|[iI]nitialis|[mM]inimis|[mM]aximis|[oO]rganis|[rR]andomis": "-ize",
    r"[bB]ehaviour|[nN]eighbour|[cC]entre\b|[mM]odell|[lL]icence\b": "behavior, neighbor, center",
    # words of the first versions
    r"\bat_first\b|\bObserved\b": "the plain layer",
    r"\bheard\b|\blistens\b": "attention output, value, message",
    r"\brenew|\brectify\b": "add_norm, linear_relu",
    r"\btamed?\b|\bshorten": "squash, rms_norm",
    r"\blived\b": "collected transitions",
    r"\bMirroring\b|\bInMirror\b|\bin the mirror\b": "mirrored samples, MirroredPolicy",
    r"unlikeness|lopsided": "mirror loss, symmetry error",
    r"\bto_units\b|\bReturnScale\b": "ReturnNormalizer",
    r"standing up first|worth more": "survival bonus",
    r"\brestraint\b": "action_penalty_coef",
    r"\bkeep_places\b|\bkeeps? their places\b": "canonical_positions",
    r"\w*Copies\b|--copies\b|[\w.]\.copies\b|\bcopies\b ?[:=]": "envs_per_body, Collector",
    r"\brow_body\b": "body_index",
    r"\bgradient_clip\b|\bpolyak\b|\bwarm_up\b|\bupdates_per_step\b": "SB3's names",
    r"\bcritic_grad\b|\bactor_grad\b": "critic_grad_norm, actor_grad_norm",
    r"\btraining_state\b|\bget_state\b|\bset_state\b": "state_dict, load_state_dict",
    r"\bdescend\b|\bdensities\b|\bdivergences\b": "optimizer step, log_prob, kl",
    r"\bDriver\b|\bDriven\b|\bas_function\b": "Policy, RandomPolicy, Policy.act",
    r"\btry_out\b|\bTrial\b|\btried_out\b": "check, evaluation",
    r"\bwhereabouts\b|\bStepped\b|\bOutcome\b": "target info, StepResult",
    r"\bturn_onto_x\b|\bFramed\b": "rotate, canonicalized",
    r"\bTd3\w*\b|\bPpo\w*\b|\bSac[A-Z]\w*\b": "TD3, PPO, SAC",
}
"""What is not said any more, and what is said instead."""
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
OF_THEIR_TIME = ("CHANGELOG.md", "docs/results/", "docs/_build/", "docs/reference/api/")
"""Pages that tell of what was, and what is made from the code."""
LET_THROUGH = re.compile(r'^ +"[\w.]+": "[\w.]+",$|\bgenerator\.[gs]et_state\b', re.MULTILINE)
"""Rows of tables of old names, which are data, and PyTorch's name for the state of a generator."""


def find() -> Counts:
    pairs = []
    for file in [*FILES, *PAGES]:
        name = file.relative_to(ROOT).as_posix()
        if name.startswith(OF_THEIR_TIME):
            continue
        text = LET_THROUGH.sub("", file.read_text(encoding="utf-8"))
        for pattern in WORDS:
            pairs += [(name, match[0]) for match in re.finditer(pattern, text)]
    return collect(pairs)


def test_no_private_words() -> None:
    found = beyond("words")
    assert not found, (
        "\n".join(found) + "\nWords and what is said instead: tests/style/test_words.py"
    )
