"""Speed of every method: acting, and forward and backward passes of its networks.

    python benchmarks/model_speed.py
    python benchmarks/model_speed.py --methods set swat --presets fast --rounds 30

Prints the tables of docs/results/speed.md. Beside milliseconds stand "matmul GFLOP": the time
multiplied by the rate of a large float32 matrix product measured just before and after, which
says how much arithmetic the machine could have done meanwhile and is much the same on a fast
machine, a slow one and a busy one. All cases take turns and medians are reported. Where other
processes take the machine for longer than a case lasts, `--cpu-time` counts only what this one
used.

Acting is for 64 copies of a body, from flat observations to flat actions. The pass is for
100 rows of a critic, from flat observations to gradients. `mix` are the 23 training bodies
of 3d_cwhh++, drawn anew for each pass, so that the cost of laying them out is in it. The
last column compares cost per real limb: the mix, against as many limbs of one body of its
mean size.

The second table is the same comparison for other mixes, in the preset `fast`: the collection that
leaves most gaps in attention, and two with one large body among 99 small ones.

With `--compiled` it prints another table instead: an actor of each method at 256 rows, plain and
under `torch.compile`, for one body and for equal rows of all 23.

The third is what an on-policy learner does: a pass of policy and value together for 1,024
rows, in the preset `fast`, a quarter as often.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np
import torch

from sgrl.envs.observation import FEATURES, GRAVITY, GRAVITY_DIRECTION, TARGET
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import (
    METHODS,
    get_method,
    make_actor,
    make_critic,
    make_gaussian_policy,
    make_value,
)
from sgrl.morphology import Morphology, get_body, resolve_bodies

COPIES = 64
BATCH = 100
LARGE_BATCH = 1024
HOPPER, CHEETAH, HUMANOID = resolve_bodies(
    ("3d_hopper_5_full", "3d_cheetah_14_full", "3d_humanoid_9_full")
)
MIX = resolve_bodies(("3d_cwhh++",))


def chain(limbs: int) -> Morphology:
    """A torso with limbs like the walker's shin in a row."""
    walker = get_body("3d_walker_7_full")
    shin, names = walker.limb("right_shin"), ["torso", *(f"shin_{i}" for i in range(1, limbs))]
    shins = [replace(shin, name=n, parent=above) for above, n in itertools.pairwise(names)]
    return replace(walker, name=f"chain_{limbs}", limbs=(walker.limbs[0], *shins))


@dataclass(frozen=True)
class Mix:
    """Rows of several bodies, and the one that its limbs are compared with."""

    bodies: tuple[Morphology, ...]
    like: Morphology
    weights: tuple[float, ...] | None = None
    """The share of each body in the rows; drawn anew, evenly, if None."""


MIXES = {
    "mix": Mix(MIX, HUMANOID),
    "hopper++": Mix(resolve_bodies(("3d_hopper++",)), get_body("3d_hopper_4_lower_shin")),
    "1 of 14 limbs, 99 of 9": Mix((CHEETAH, HUMANOID), HUMANOID, (0.01, 0.99)),
    "1 of 40 limbs, 99 of 21": Mix((chain(40), chain(21)), chain(21), (0.01, 0.99)),
}


@dataclass
class Case:
    """One thing to time."""

    run: Callable[[], object]
    seconds: list[float] = field(default_factory=list)
    gflop: list[float] = field(default_factory=list)

    def measure(self, clock: Callable[[], float]) -> None:
        before = matmul_rate(clock)
        start = clock()
        self.run()
        elapsed = clock() - start
        self.seconds.append(elapsed)
        self.gflop.append(elapsed * (before + matmul_rate(clock)) / 2 / 1e9)

    def __str__(self) -> str:
        return f"{1e3 * median(self.seconds):.1f} ms, {median(self.gflop):.2f}"


def matmul_rate(clock: Callable[[], float], size: int = 768) -> float:
    """Floating-point operations per second in a product of large float32 matrices."""
    matrix = torch.ones(size, size)
    start = clock()
    matrix @ matrix
    return 2.0 * size**3 / (clock() - start)


def observations(rng: np.random.Generator, rows: int, limbs: int) -> torch.Tensor:
    """Random flat observations (rows, limbs * 41)."""
    flat = rng.standard_normal((rows, limbs, FEATURES), np.float32)
    flat[..., GRAVITY], flat[..., TARGET] = GRAVITY_DIRECTION, (1.0, 0.0, 0.0)
    return torch.from_numpy(flat.reshape(rows, -1))


def batches(
    bodies: tuple[Morphology, ...], rows: int, weights: tuple[float, ...] | None = None
) -> Callable[[], LimbBatch]:
    """Makes the batch that a learner would: one body's, or rows drawn from several."""
    rng = np.random.default_rng(0)
    limbs = max(body.num_limbs for body in bodies)
    flat = observations(rng, rows, limbs)
    if len(bodies) == 1:
        return lambda: LimbBatch.from_flat(flat, bodies[0])
    if weights is None:
        return lambda: LimbBatch.from_padded(flat, bodies, rng.integers(0, len(bodies), rows))
    drawn = np.repeat(np.arange(len(bodies)), np.round(np.multiply(weights, rows)).astype(int))
    return lambda: LimbBatch.from_padded(flat, bodies, rng.permutation(drawn))


def acting(method: str, preset: str, bodies: tuple[Morphology, ...]) -> Case:
    actor, batch = make_actor(method, preset, bodies=bodies), batches(bodies, COPIES)

    def run() -> object:
        with torch.no_grad():
            now = batch()
            return now.layout.actions_to_rows(actor(now))

    return Case(run)


def learning(
    method: str,
    preset: str,
    bodies: tuple[Morphology, ...],
    rows: int = BATCH,
    weights: tuple[float, ...] | None = None,
) -> Case:
    critic, batch = make_critic(method, preset, bodies=bodies), batches(bodies, rows, weights)

    def run() -> None:
        now = batch()
        action = torch.zeros(now.layout.num_limbs, 3)
        critic.zero_grad()
        now.layout.row_mean(critic(now, action)).square().mean().backward()

    return Case(run)


def on_policy_learning(method: str, bodies: tuple[Morphology, ...]) -> Case:
    policy, value = make_gaussian_policy(method, bodies=bodies), make_value(method, bodies=bodies)
    batch = batches(bodies, LARGE_BATCH)

    def run() -> None:
        now = batch()
        policy.zero_grad()
        value.zero_grad()
        mean, log_std = policy(now)
        worth = now.layout.row_mean(value(now))
        (mean.square().mean() + log_std.mean() + worth.square().mean()).backward()

    return Case(run)


def groups_of(method: str) -> dict[str, tuple[Morphology, ...]]:
    groups = {"hopper_5": (HOPPER,), "cheetah_14": (CHEETAH,), "mix": MIX}
    if method.startswith("monolithic"):
        del groups["mix"]
    return groups


def cases_of(method: str, preset: str) -> dict[str, Case]:
    cases = {}
    groups = groups_of(method)
    for name, bodies in groups.items():
        cases[f"act {name}"] = acting(method, preset, bodies)
        cases[f"pass {name}"] = learning(method, preset, bodies)
    if "mix" in groups:
        cases["like mix"] = alike(method, preset, MIXES["mix"])
    return cases


def other_mixes(method: str) -> dict[str, Case]:
    cases = {}
    if "mix" in groups_of(method):
        for name, mix in list(MIXES.items())[1:]:
            cases[f"pass {name}"] = learning(method, "fast", mix.bodies, BATCH, mix.weights)
            cases[f"like {name}"] = alike(method, "fast", mix)
    return cases


def alike(method: str, preset: str, mix: Mix) -> Case:
    """As many limbs as the mix has, of one body."""
    limbs = BATCH * np.average([body.num_limbs for body in mix.bodies], weights=mix.weights)
    return learning(method, preset, (mix.like,), round(limbs / mix.like.num_limbs))


def ratio(cases: dict[str, Case], name: str) -> str:
    """What a limb costs in a mix over what it costs in a batch of one body."""
    if f"like {name}" not in cases:
        return "n/a"
    mixed, one_body = (median(cases[f"{what} {name}"].gflop) for what in ("pass", "like"))
    return f"{mixed / one_body:.2f}"


def print_compiled(methods: list[str], rounds: int, clock: Callable[[], float]) -> None:
    """Forward and backward passes, and forward passes alone, of an actor, plain and compiled."""
    cases: dict[tuple[str, str, str], Case] = {}
    for method, (name, bodies) in itertools.product(
        methods, {"humanoid_9": (HUMANOID,), "mix": MIX}.items()
    ):
        if get_method(method).one_body and len(bodies) > 1:
            continue
        actor = make_actor(method, bodies=bodies)
        flat = observations(np.random.default_rng(0), 256, max(b.num_limbs for b in bodies))
        rows = np.repeat(np.arange(len(bodies)), 256 // len(bodies))
        batch = LimbBatch.from_padded(flat[: len(rows)], bodies, rows)
        actor(batch)  # index tensors are worked out when first asked for
        for way, network in (
            ("plain", actor),
            ("compiled", torch.compile(actor, fullgraph=True, dynamic=False)),
        ):
            cases[f"{method}, {name}", way, "forward and backward"] = Case(both(network, batch))
            cases[f"{method}, {name}", way, "forward"] = Case(forward(network, batch))
    for case in cases.values():
        case.run()
    for _, case in itertools.product(range(rounds), cases.values()):
        case.measure(clock)
    print("| actor, 256 rows | forward and backward | compiled | forward | compiled |")
    print("| --- |" + " --- |" * 4)
    for name in dict.fromkeys(key[0] for key in cases):
        ways = itertools.product(("forward and backward", "forward"), ("plain", "compiled"))
        print(f"| {name} |", " | ".join(str(cases[name, way, what]) for what, way in ways), "|")


def both(network: Callable[..., torch.Tensor], batch: LimbBatch) -> Callable[[], object]:
    return lambda: network(batch).square().mean().backward()


def forward(network: Callable[..., torch.Tensor], batch: LimbBatch) -> Callable[[], object]:
    def run() -> object:
        with torch.no_grad():
            return network(batch)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), help="names; all if none")
    parser.add_argument("--presets", nargs="+", default=["fast", "paper"])
    parser.add_argument("--rounds", type=int, default=20, help="measurements of each case")
    parser.add_argument("--threads", type=int, default=1, help="threads that torch may use")
    parser.add_argument("--cpu-time", action="store_true", help="count CPU time; one thread only")
    parser.add_argument("--compiled", action="store_true", help="compare with torch.compile")
    args = parser.parse_args()
    clock = time.process_time if args.cpu_time else time.perf_counter
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.compiled:
        print_compiled(args.methods, args.rounds, clock)
        return

    table = {}
    for method in args.methods:
        entry = get_method(method)
        one_size = entry.config("paper") == entry.fast
        for preset in ["fast"] if one_size else args.presets:
            name = method if one_size else f"{method} `{preset}`"
            table[name] = cases_of(method, preset)
    large = {
        method: {
            name: on_policy_learning(method, bodies) for name, bodies in groups_of(method).items()
        }
        for method in args.methods
    }
    others = {method: other_mixes(method) for method in args.methods}
    for cases in (*table.values(), *others.values(), *large.values()):
        for case in cases.values():
            case.run()
    for turn in range(args.rounds):
        seldom = large.values() if turn % 4 == 0 else ()
        for cases in (*table.values(), *others.values(), *seldom):
            for case in cases.values():
                case.measure(clock)

    columns = [
        f"{what} {name}" for what in ("act", "pass") for name in ("hopper_5", "cheetah_14", "mix")
    ]
    print(f"Time and matmul GFLOP, {args.threads} thread(s), median of {args.rounds}; acting for")
    print(f"{COPIES} copies, forward and backward pass of a critic at batch {BATCH}.\n")
    print("| method |", " | ".join(columns), "| per limb, mix / one body |")
    print("| --- |" + " --- |" * (len(columns) + 1))
    for name, cases in table.items():
        cells = [str(cases.get(column, "n/a")) for column in columns]
        print(f"| {name} |", " | ".join(cells), f"| {ratio(cases, 'mix')} |")

    print("\nCost of a limb over that in a batch of one body, preset `fast`.\n")
    names = list(MIXES)[1:]
    print("| method |", " | ".join(names), "|\n| --- |" + " --- |" * len(names))
    for method, cases in others.items():
        if cases:
            print(f"| {method} |", " | ".join(ratio(cases, name) for name in names), "|")

    print(f"\nForward and backward pass of policy and value, {LARGE_BATCH} rows, preset `fast`.\n")
    print("| method | hopper_5 | cheetah_14 | mix |\n| --- | --- | --- | --- |")
    for method, cases in large.items():
        cells = [str(cases.get(name, "n/a")) for name in ("hopper_5", "cheetah_14", "mix")]
        print(f"| {method} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
