"""What the paper calls things, and the numbers in its tables: mean and standard error of
three seeds. Its other results stand in figures only."""

from __future__ import annotations

from collections.abc import Sequence

from sgrl.morphology import COLLECTIONS, MIRRORED

Number = tuple[float, float]
"""Mean and standard error."""
Key = tuple[str, str, str, str]
"""Method, what it was trained on, body it was tried on, condition."""

HUMANOID = "3d_humanoid_9_full"
CHEETAH = "3d_cheetah_14_full"
ANGLES = ("0°", "90°", "180°", "270°", "random")
HALF_WAY = " at 500k"
"""Added to the condition of what was tried half way through the training."""

_WALKERS = ("3d_walker_3_left_knee_right_knee", "3d_walker_6_right_foot")
_HUMANOIDS = ("3d_humanoid_7_left_leg", "3d_humanoid_8_right_knee")
_CHEETAHS = ("3d_cheetah_11_leftbkneen_rightffoot", "3d_cheetah_12_tail_leftffoot")
_IN_DOMAIN = (
    *(("3d_walker++", body) for body in _WALKERS),
    *(("3d_humanoid++", body) for body in _HUMANOIDS),
    *(("3d_cheetah++", body) for body in _CHEETAHS),
)
_CROSS_DOMAIN = tuple(("3d_cwhh++", body) for body in (*_WALKERS, *_HUMANOIDS, *_CHEETAHS))


def _zero_shot() -> dict[Key, Number]:
    in_domain = {
        "set": (
            *((276.2, 17.4), (431.3, 146.2), (244.8, 7.9)),
            *((299.6, 23.7), (4643.9, 292.6), (916.0, 39.7)),
        ),
        "swat": (
            *((207.0, 52.7), (358.0, 58.9), (170.3, 51.7)),
            *((141.4, 22.1), (1785.3, 999.3), (744.1, 317.1)),
        ),
        "smp": (
            *((56.8, 15.1), (143.4, 50.7), (190.9, 16.2)),
            *((185.4, 9.2), (2.0, 2.9), (29.8, 10.7)),
        ),
    }
    cross_domain = {
        "set": (
            *((206.8, 37.4), (243.7, 32.3), (161.9, 3.4)),
            *((180.0, 6.5), (1078.1, 722.8), (3038.3, 2803.3)),
        ),
        "swat": (
            *((17.9, 13.7), (114.9, 40.3), (152.0, 6.8)),
            *((156.6, 1.7), (4.3, 1.6), (349.7, 304.3)),
        ),
        "smp": (
            *((18.0, 22.9), (103.9, 1.8), (124.2, 15.7)),
            *((129.3, 0.1), (6.2, 0.5), (6.6, 1.2)),
        ),
        # Of tab:hn-zero-shot.
        "swat+hn": (
            *((26.3, 72.4), (156.8, 11.1), (130.2, 2.1)),
            *((152.9, 36.8), (786.5, 779.3), (2517.3, 2113.9)),
        ),
    }
    numbers: dict[Key, Number] = {}
    for tried, methods in ((_IN_DOMAIN, in_domain), (_CROSS_DOMAIN, cross_domain)):
        for method, row in methods.items():
            for (collection, body), number in zip(tried, row, strict=True):
                numbers[method, collection, body, ""] = number
    return numbers


def _orientation() -> dict[Key, Number]:
    half = {
        "swat": ((1886.1, 148.9), (1005.5, 615.3), (120.5, 178.5), (791.0, 493.4), (1232.3, 72.9)),
        "set": (
            (1587.4, 411.3),
            (1695.6, 278.4),
            (1659.9, 110.2),
            (1388.3, 173.8),
            (1465.2, 161.0),
        ),
    }
    full = {
        "swat": ((2592.6, 155.6), (1340.2, 668.0), (-5.6, 8.5), (1193.5, 345.2), (1178.6, 674.9)),
        "set": ((4622.0, 292.8), (4799.5, 172.9), (4756.3, 103.4), (4899.8, 139.7), (4902.8, 62.9)),
    }
    return {
        (method, CHEETAH, CHEETAH, angle + when): number
        for when, rows in ((HALF_WAY, half), ("", full))
        for method, row in rows.items()
        for angle, number in zip(ANGLES, row, strict=True)
    }


def _bias() -> dict[Key, Number]:
    rows = {
        ("monolithic+hn", HUMANOID): ((13142.2, 2840.2), (57.8, 12.0)),
        ("monolithic+hn", CHEETAH): ((11357.4, 1933.0), (-3.2, 0.7)),
        ("swat+hn", HUMANOID): ((8517.7, 1796.4), (92.3, 17.8)),
        ("swat+hn", CHEETAH): ((15924.9, 543.1), (-1.2, 0.4)),
        ("set", HUMANOID): ((9931.9, 632.0), (10106.4, 2023.4)),
        ("set", CHEETAH): ((14987.9, 710.7), (14957.9, 758.0)),
    }
    return {
        (method, body, body, bias): number
        for (method, body), row in rows.items()
        for bias, number in zip(("0°", "180°"), row, strict=True)
    }


ZERO_SHOT = _zero_shot()
"""tab:zero-shot and, for SWAT+HN, tab:hn-zero-shot."""
ORIENTATION = _orientation()
"""tab:fixinitd: training at 0°, tried from these angles."""
BIAS = _bias()
"""tab:bias: the angle is added to the heading when tried."""
SINGLE_TASK = {
    (method, task, body, ""): number
    for (method, task, body, bias), number in BIAS.items()
    if bias == "0°"
}
"""Without a bias these are single-task results; the paper has no others in numbers."""


def paper_return(method: str, trained_on: Sequence[str], body: str) -> Number | None:
    """The paper's return of a method on a body with far targets after training on these bodies.

    Their mirror images, which the paper does not have, make no difference.
    """
    names = {name.removesuffix(MIRRORED) for name in trained_on}
    tasks = [name for name, collection in COLLECTIONS.items() if set(collection.train) == names]
    if len(names) == 1:
        tasks += names
    known = ZERO_SHOT | SINGLE_TASK
    return known.get((method, tasks[0], body, "")) if tasks else None
