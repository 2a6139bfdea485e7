"""The symmetry certificate of each method in a report, of fresh weights and of trained ones."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

import torch

from sgrl.markup import Html, html_table
from sgrl.models import certificate
from sgrl.models.certificate import CertificateRow
from sgrl.report.groups import Group
from sgrl.report.run_tables import note
from sgrl.report.runs import RunRecord
from sgrl.symmetry import SYMMETRIES
from sgrl.training.policy import load_policy

SAMPLES = 4
"""Elements of each group that are tried; a symmetry that is not there shows at the first."""


def certificate_table(groups: Sequence[Group]) -> Html:
    """A line for fresh weights of each method, and one for what its first run has learned."""
    rows: dict[tuple[str, ...], list[Html]] = {}
    problems = []
    for record in _one_of_each(groups):
        method, preset = record.settings.method, record.settings.preset
        body = min(record.settings.morphologies(), key=lambda one: one.num_limbs)
        fresh = (method, f"fresh, {preset}", body.name)
        try:
            if fresh not in rows:
                found = certificate.certify([method], [body], preset=preset, samples=SAMPLES)
                rows[fresh] = list(_cells(found))
            policy = load_policy(record.run.path)
            found = certificate.certify_actor(
                method, policy.to(torch.float64).actions, [body], samples=SAMPLES
            )
            learned = f"{record.name}, {policy.checkpoint:,} steps"
            rows[method, learned, body.name] = list(_cells(found))
        except (ValueError, OSError, RuntimeError) as error:
            what = f"what {record.name} has learned" if fresh in rows else f"the method {method}"
            problems.append(f"Not measured is {what}: {error}.")
    said = (
        "Relative change, in float64, of the action and, of fresh weights, of Q when the world is "
        "shifted, turned about the vertical, mirrored in a vertical plane, or tilted. "
        "✓: nothing but rounding."
    )
    lines = [(*key, *cells) for key, cells in rows.items()]
    made = html_table(("method", "weights", "body", *SYMMETRIES), lines, left=3) if lines else ""
    return Html(made + note(said) + "".join(map(note, problems)))


def _one_of_each(groups: Sequence[Group]) -> Iterator[RunRecord]:
    """The first run with each kind of network."""
    seen = set()
    for group in groups:
        settings = group.runs[0].settings
        sizes = settings.network or settings.preset_sizes()
        kind = (settings.method, settings.preset, repr(sizes))
        if kind not in seen:
            seen.add(kind)
            yield group.runs[0]


def _cells(rows: Sequence[CertificateRow]) -> Iterator[Html]:
    for symmetry in SYMMETRIES:
        own = [row for row in rows if row.symmetry == symmetry]
        kind = "kept" if all(row.holds for row in own) else "broken"
        yield Html(f'<span class="{kind}">{html.escape(certificate.format_cell(own))}</span>')
