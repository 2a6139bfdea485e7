"""`sgrl certify`: the symmetry of methods, measured."""

from __future__ import annotations

from sgrl.command_line import BodiesOption
from sgrl.plugins import TRUST, TrustOption


def certify_command(
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
    print(certificate.format_certificate(rows), flush=True)
    if violated := certificate.violations(rows):
        raise RuntimeError("; ".join(violated))
