"""Proofs: every method has the symmetry it claims, and none that it must not have."""

import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sgrl.cli import main
from sgrl.envs.single import LocomotionEnv
from sgrl.models.batch import LimbBatch
from sgrl.models.certificate import CertificateRow, certify, format_certificate, violations
from sgrl.models.methods import (
    METHODS,
    PRESETS,
    get_method,
    make_actor,
    make_critic,
    make_gaussian_policy,
    make_value,
    parameter_counts,
)
from sgrl.models.states import random_batch, rollout_batch
from sgrl.morphology import Morphology, body_names, get_body
from sgrl.symmetry import SYMMETRIES, assert_equivariant, measure, relative_error, shift_state

BODIES = tuple(get_body(name) for name in body_names())
HOPPER = get_body("3d_hopper_5_full")
BROKEN = 1e-2
"""A symmetry that is not there must be missed by more than this."""


@cache
def rollouts(*bodies: Morphology, rows: int = 1) -> LimbBatch:
    """States far into episodes, 150 random steps apart; simulated once."""
    return rollout_batch(bodies, rows, steps=150)


def convert(batch: LimbBatch, dtype: torch.dtype) -> LimbBatch:
    parts = ("vectors", "scalars", "gravity", "target")
    return batch.replace(**{part: getattr(batch, part).to(dtype) for part in parts})


def batch_for(method: str, states: str, dtype: torch.dtype) -> LimbBatch:
    bodies = (HOPPER,) if method.startswith("monolithic") else BODIES
    rows = 8 if len(bodies) == 1 else 1
    if states == "random":
        return random_batch(bodies, rows, dtype=dtype)
    return convert(rollouts(*bodies, rows=rows), dtype)


ROLES = {"actor": make_actor, "policy": make_gaussian_policy, "value": make_value, "q": make_critic}


def networks(
    method: str, batch: LimbBatch, roles: Sequence[str] = tuple(ROLES), preset: str = "fast"
) -> dict[str, Callable[[LimbBatch], tuple[Tensor, ...] | Tensor]]:
    """Everything a method offers, as functions of the batch alone."""
    torch.manual_seed(0)
    dtype, bodies = batch.vectors.dtype, batch.layout.bodies
    made = {role: ROLES[role](method, preset, bodies=bodies).to(dtype) for role in roles}
    if "q" in made:
        critic, action = made["q"], torch.rand(batch.layout.num_limbs, 3, dtype=dtype) * 2 - 1
        made["q"] = lambda changed: critic(changed, action)
    return made


def check(method: str, batch: LimbBatch, samples: int, **how: Any) -> None:
    """Every network keeps what the method claims, and misses the rest by a wide margin."""
    with torch.no_grad():
        for name, network in networks(method, batch, **how).items():
            for change in ("rotation", "reflection", "tilt"):
                if change in get_method(method).symmetries:
                    assert_equivariant(network, batch, group=change, samples=samples)
                else:
                    error = measure(network, batch, group=change, samples=samples).error
                    assert error > BROKEN, f"{name} is blind to {change}: {error}"


def test_every_method_is_known_to_have_some_symmetry_or_none() -> None:
    group = {"rotation", "reflection"}
    framed = {name for name in METHODS if name.endswith(("+hn", "+tn"))}
    assert len(METHODS) == 18
    assert {m for m in METHODS if METHODS[m].symmetries >= group} == {
        "set",
        "set-g",
        "set-z",
        "set-out_invar",
    }
    assert {m for m in METHODS if METHODS[m].symmetries & group == {"rotation"}} == framed
    assert {m for m in METHODS if "tilt" in METHODS[m].symmetries} == {"set-g"}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("states", ["random", "rollout"])
@pytest.mark.parametrize("method", METHODS)
def test_keeps_what_it_claims_and_nothing_more(
    method: str, states: str, dtype: torch.dtype
) -> None:
    check(method, batch_for(method, states, dtype), samples=2)


@pytest.mark.parametrize("states", ["random", "rollout"])
def test_set_without_gravity_has_all_of_o3(states: str) -> None:
    batch = batch_for("set-g", states, torch.float64)
    with torch.no_grad():
        for network in networks("set-g", batch).values():
            assert_equivariant(network, batch, group="O(3)", samples=4)
        set_itself = networks("set", batch)
        for name in ("actor", "q"):
            assert measure(set_itself[name], batch, group="O(3)", samples=4).error > BROKEN


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_the_torque_of_set_turns_with_the_world(dtype: torch.dtype) -> None:
    """T is what gives the actions (before tanh) on three independent hinge axes."""
    torch.manual_seed(0)
    batch = convert(rollouts(*BODIES), dtype)
    network = make_actor("set").to(dtype).network
    moving = ~batch.layout.is_torso

    def torque(changed: LimbBatch) -> Tensor:
        return torch.linalg.solve(changed.vectors[moving, 3:], network(changed)[moving])

    with torch.no_grad():
        assert_equivariant(torque, batch, output="equivariant")
        assert measure(torque, batch, output="equivariant", group="tilt").error > BROKEN
        assert measure(torque, batch, output="invariant").error > BROKEN


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("body", BODIES, ids=body_names())
def test_monolithic_on_every_body(body: Morphology, dtype: torch.dtype) -> None:
    batch = convert(rollouts(body, rows=2), dtype)
    for method in ("monolithic", "monolithic+hn", "monolithic+tn"):
        check(method, batch, samples=2)


@pytest.mark.parametrize("states", ["random", "rollout"])
def test_set_without_gravity_and_target_has_o3_on_the_vectors_alone(states: str) -> None:
    """`set-gd` reads g and d as plain numbers: O(3) acts on the body's vectors, d held still.

    So a turned body with its target left behind acts the same, which is wrong for the task,
    and a turned world is a new world to it, which is the symmetry it has lost.
    """
    batch = batch_for("set-gd", states, torch.float64)
    for name, network in networks("set-gd", batch).items():

        def held(changed: LimbBatch, network=network):
            return network(changed.replace(target=batch.target))

        assert_equivariant(held, batch, group="O(3)", samples=4)
        if name in ("actor", "q"):
            for group in ("rotation", "reflection", "O(3)"):
                assert measure(network, batch, group=group, samples=2).error > BROKEN
    actor = networks("set", batch)["actor"]
    error = measure(lambda b: actor(b.replace(target=batch.target)), batch, group="rotation").error
    assert error > BROKEN, "set itself does see a target that was left behind"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize(
    "method", [*(m for m in METHODS if m.startswith("set")), "swat+hn", "smp+tn"]
)
def test_the_preset_of_the_paper_is_as_symmetric(method: str, dtype: torch.dtype) -> None:
    batch = convert(rollouts(*BODIES), dtype)
    check(method, batch, samples=1, roles=("actor", "q"), preset="paper")


def test_translation_is_of_the_body_with_its_target() -> None:
    """What the certificate's translation leaves alone is not left alone without the target."""
    torch.manual_seed(0)
    actor = make_actor("set").double()
    env = LocomotionEnv(HOPPER, variant="v2")
    env.reset(seed=0)
    qpos, target = env.data.qpos.copy(), env.target
    shift = np.array([30.0, -20.0])

    def act(body_shift: np.ndarray, target_shift: np.ndarray) -> Tensor:
        options = {"qpos": shift_state(qpos, body_shift), "target": target + target_shift}
        obs, _ = env.reset(options=options)
        with torch.no_grad():
            return actor(LimbBatch.from_flat(torch.from_numpy(obs).double()[None], HOPPER))

    here = act(np.zeros(2), np.zeros(2))
    assert relative_error(here, act(shift, shift)) < 1e-5
    assert relative_error(here, act(shift, np.zeros(2))) > BROKEN


@pytest.fixture(scope="module")
def rows() -> list[CertificateRow]:
    return certify(["set", "swat", "smp+tn", "monolithic+hn"], BODIES[::5], samples=3)


def test_the_certificate_agrees_with_the_claims(rows: list[CertificateRow]) -> None:
    assert {row.method for row in rows} == {"set", "swat", "smp+tn", "monolithic+hn"}
    assert {(row.symmetry, row.states) for row in rows} == {
        ("translation", "rollout"),
        *((change, states) for change in SYMMETRIES[1:-1] for states in ("random", "rollout")),
        ("mirror", "rollout"),
    }
    for row in rows:
        assert row.holds == (row.symmetry in get_method(row.method).symmetries), row
        if not row.holds:
            assert max(row.errors) > BROKEN


def test_mirror_holds_on_real_states_of_all_bodies() -> None:
    """On asymmetric bodies too."""
    rows = certify(["set+mirror"], samples=1)
    (row,) = (row for row in rows if row.symmetry == "mirror")
    assert row.declared
    assert row.holds


def test_the_certificate_is_reproducible_and_leaves_the_random_state_alone() -> None:
    torch.manual_seed(5)
    before = torch.rand(3)
    torch.manual_seed(5)
    first = certify(["smp"], [HOPPER], samples=2)
    assert torch.equal(torch.rand(3), before)
    assert first == certify(["smp"], [HOPPER.name], samples=2)


def test_the_table_has_a_line_per_method(rows: list[CertificateRow]) -> None:
    lines = format_certificate(rows).splitlines()
    assert lines[0].replace("|", " ").split() == ["method", *SYMMETRIES]
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "set",
        "swat",
        "smp+tn",
        "monolithic+hn",
    ]
    marks = [[cell.strip()[0] for cell in line.split("|")[2:-1]] for line in lines[2:]]
    assert marks == [list("✓✓✓✗✗"), list("✓✗✗✗✗"), list("✓✓✗✗✗"), list("✓✓✗✗✗")]


def table_in_docs(page: str, header: str) -> dict[str, list[str]]:
    """First column to the others, of the table of a page that starts so."""
    docs = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    lines = docs[docs.index(header) :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {method: rest for method, *rest in cells}


def test_the_tables_in_the_docs_are_current() -> None:
    certificate = table_in_docs("results/certificate.md", "| method | translation |")
    assert list(certificate) == list(METHODS)
    for method, cells in certificate.items():
        assert [cell[0] == "✓" for cell in cells] == [
            c in get_method(method).symmetries for c in SYMMETRIES
        ]
        assert not any("!" in cell for cell in cells)

    sizes = table_in_docs("reference/methods.md", "| setting | set: fast |")
    configs = [METHODS[name].config(preset) for name in ("set", "swat") for preset in PRESETS]
    assert sizes
    for setting, cells in sizes.items():
        assert cells == [str(getattr(config, setting, "-")) for config in configs], setting

    counted = table_in_docs("reference/methods.md", "| method | fast: actor |")
    assert list(counted) == [name for name in METHODS if "+" not in name]
    cheetah = [get_body("3d_cheetah_14_full")]
    for method, cells in counted.items():
        presets = (parameter_counts(method, preset, bodies=cheetah) for preset in PRESETS)
        numbers = [count for counts in presets for count in counts.values()]
        assert cells == [f"{number:,}" for number in numbers], method


def test_the_numbers_in_the_docs_are_measured() -> None:
    certificate = table_in_docs("results/certificate.md", "| method | translation |")
    methods = ("set", "swat+tn")
    rows = certify(methods)
    for method, change in itertools.product(methods, SYMMETRIES):
        cell = certificate[method][SYMMETRIES.index(change)]
        found = [row.errors for row in rows if (row.method, row.symmetry) == (method, change)]
        for said, *errors in zip(cell[1:].split(","), *found, strict=True):
            worst, digit = max(errors), float(f"1e{said.partition('e')[2] or 0}")
            # One digit is printed. Rounding may differ from machine to machine.
            assert abs(worst - float(said)) < 0.6 * digit or max(worst, float(said)) < 1e-12


def test_a_claim_that_does_not_hold_is_told_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    swat = replace(METHODS["swat"], symmetries=METHODS["set"].symmetries)
    monkeypatch.setitem(METHODS, "set", swat)
    command = "sgrl certify --methods set swat --bodies 3d_hopper_3_shin --samples 1"
    monkeypatch.setattr(sys, "argv", command.split())
    with pytest.raises(SystemExit, match=r"sgrl: set declares rotation, .* by .e[+-]0") as caught:
        main()
    # What is a text to `SystemExit` is printed, and the exit code is 1.
    assert isinstance(caught.value.code, str)
    assert "swat" not in caught.value.code
    *_, ours, theirs = capsys.readouterr().out.splitlines()
    marks = [[cell.split()[0] for cell in line.split("|")[2:-1]] for line in (ours, theirs)]
    assert marks == [["✓", "✗!", "✗!", "✗", "✗"], ["✓", "✗", "✗", "✗", "✗"]]


def test_a_nan_is_never_kept() -> None:
    row = CertificateRow("set", "rotation", True, "random", float("nan"), 0.0)
    assert not row.holds
    good = CertificateRow("set", "rotation", True, "rollout", 0.0, 0.0)
    assert "✗! nan" in format_certificate([good, row])
    assert len(violations([good, row])) == 1
