"""Methods from outside the package: imported, checked, and refused with a reason."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import sgrl
from sgrl import plugins
from sgrl.models.batch import LimbBatch
from sgrl.models.canonical import Canonicalized
from sgrl.models.certificate import certify, violations
from sgrl.models.methods import METHODS, Method, get_method, make_actor, make_critic
from sgrl.models.network import FLAT_FEATURES, Role
from sgrl.models.smp import SMPConfig
from sgrl.models.states import random_batch
from sgrl.morphology import Morphology, get_body, resolve_bodies

BODIES = resolve_bodies(("3d_hopper_3_shin", "3d_cheetah_14_full"))

MODULE = """
import torch
from torch import nn
from sgrl.models.methods import Method
from sgrl.models.network import FLAT_FEATURES

class Mine(nn.Module):
    def __init__(self, role):
        super().__init__()
        self.layer = nn.Linear(FLAT_FEATURES + role.action_inputs, role.outputs)

    def forward(self, batch, action=None):
        limbs = batch.flat
        return self.layer(limbs if action is None else torch.cat((limbs, action), dim=-1))

class WantsMore(Mine):
    def __init__(self, role, colour):
        super().__init__(role)

class ForgetsTheAction(Mine):
    def forward(self, batch, action=None):
        return self.layer(batch.flat)

class Flat(Mine):
    def forward(self, batch, action=None):
        return super().forward(batch, action)[:, 0]

class Pair(Mine):
    def forward(self, batch, action=None):
        return super().forward(batch, action), None

class Mixes(Mine):
    def forward(self, batch, action=None):
        said = super().forward(batch, action)
        return said + said.mean(dim=0)

class Explodes(Mine):
    def forward(self, batch, action=None):
        return super().forward(batch, action) / 0

class Frozen(nn.Module):
    def __init__(self, role):
        super().__init__()
        self.outputs = role.outputs

    def forward(self, batch, action=None):
        return batch.scalars[:, :self.outputs]

row = Method(Mine)
number = 3
"""


class Plain(nn.Module):
    """A layer for each limb, with or without a config and a body."""

    def __init__(self, role: Role) -> None:
        super().__init__()
        self.layer = nn.Linear(FLAT_FEATURES + role.action_inputs, role.outputs)

    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        limbs = batch.flat
        limbs = limbs if action is None else torch.cat((limbs, action), dim=-1)
        said: Tensor = self.layer(limbs)
        return said


@dataclass(frozen=True)
class Size:
    factor: float


class Sized(Plain):
    def __init__(self, config: Size, role: Role) -> None:
        super().__init__(role)
        self.factor = config.factor


class OneBody(Plain):
    def __init__(self, role: Role, body: Morphology) -> None:
        super().__init__(role)
        self.body = body


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module in the working folder, which is not on the path."""
    name = f"own_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.setattr(plugins.TRUST, "_modules", {})
    plugins.trust(name, "nowhere", "broken_one")
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[str, Method]:
    """The table, as it was before once the test is over."""
    before = dict(METHODS)
    monkeypatch.setattr("sgrl.models.methods.METHODS", before)
    return before


@pytest.mark.parametrize("what", ["Mine", "row"])
def test_a_module_s_class_is_a_method_like_ours(module: str, what: str) -> None:
    batch = random_batch(BODIES, 2, dtype=torch.float32)
    method = f"{module}:{what}"
    action = make_actor(method)(batch)
    assert action.shape == (batch.layout.num_limbs, 3)
    assert action.abs().max() < 1
    assert action[batch.layout.is_torso].abs().max() == 0
    assert make_critic(method)(batch, action).shape == (batch.layout.num_limbs,)


def test_a_frame_turns_what_it_sees(module: str) -> None:
    assert isinstance(make_actor(f"{module}:Mine+hn").network, Canonicalized)
    rows = certify([f"{module}:Mine", f"{module}:Mine+tn"], BODIES[:1], samples=2)
    kept = {(row.method.partition("+")[2], row.symmetry) for row in rows if row.holds}
    assert kept == {("", "translation"), ("tn", "translation"), ("tn", "rotation")}


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("Min", r"has no 'Min'; did you mean own_\w+:Mine\?"),
        ("number", "neither a torch.nn.Module class nor a sgrl.models.methods.Method, but 3"),
        ("WantsMore", "as actor: TypeError: .* missing 1 required positional argument: 'colour'"),
        ("ForgetsTheAction", r"as critic: RuntimeError: .*own_\w+\.py:22"),
        ("Flat", r"as actor: it gives \(20,\), not \(limbs, role.outputs\), which is \(20, 3\)"),
        ("Pair", "it gives a tuple, not a tensor"),
        ("Mixes", "depends on the other rows of the batch"),
        ("Explodes", "not finite"),
        ("Frozen", "no parameters to learn"),
    ],
)
def test_what_can_not_be_a_method_says_why(module: str, what: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get_method(f"{module}:{what}")


def test_a_module_that_is_not_there_or_broken(tmp_path: Path, module: str) -> None:
    with pytest.raises(ValueError, match="needs the module nowhere, which can't be found from"):
        get_method("nowhere:Mine")
    with pytest.raises(ValueError, match=f"needs the module {module}.inner"):
        get_method(f"{module}.inner:Mine")
    (tmp_path / "broken_one.py").write_text("import a_missing_package\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a_missing_package.*broken_one\.py:1"):
        get_method("broken_one:Mine")


def test_a_trial_leaves_the_random_state_alone(module: str) -> None:
    torch.manual_seed(3)
    before = torch.rand(2)
    torch.manual_seed(3)
    get_method(f"{module}:Mine")
    assert torch.equal(torch.rand(2), before)


def test_registering_puts_it_into_the_table(table: dict[str, Method]) -> None:
    sgrl.register_method("plain", Plain)
    assert list(table)[-3:] == ["plain", "plain+hn", "plain+tn"]
    assert isinstance(make_actor("plain").network, Plain)
    sgrl.register_method("plain", Method(Sized, fast=Size(1.0), paper=Size(2.0)))
    assert make_actor("plain", "paper").network.factor == 2.0
    assert make_actor("plain", config=Size(3.0)).network.factor == 3.0
    with pytest.raises(ValueError, match="Sized takes a Size, not a SMPConfig"):
        make_actor("plain", config=SMPConfig())


def test_a_method_for_one_body(table: dict[str, Method]) -> None:
    sgrl.register_method("single", Method(OneBody, one_body=True))
    body = get_body("3d_hopper_5_full")
    assert make_actor("single", bodies=[body]).network.body is body
    with pytest.raises(ValueError, match="OneBody is made for exactly one body"):
        make_actor("single", bodies=BODIES)


@pytest.mark.parametrize("name", ["set", "swat+hn", "a:b", "mine+hn", "up/down", ""])
def test_names_that_can_not_be_registered(name: str) -> None:
    before = set(METHODS)
    with pytest.raises(ValueError, match="can't be registered"):
        sgrl.register_method(name, Plain)
    assert set(METHODS) == before


def test_what_is_not_there_says_how_it_would_be() -> None:
    with pytest.raises(ValueError, match="named module:Class, or registered"):
        get_method("my_old_idea")


def test_a_method_of_ones_own_is_held_to_what_it_declares() -> None:
    declared = frozenset({"translation", "rotation"})
    for name, framed in (("honest", True), ("boaster", False)):
        method = Method(Plain, symmetries=declared, frame="target" if framed else None)
        sgrl.register_method(name, method)
        try:
            rows = certify([name], [BODIES[0]], samples=1)
        finally:
            for other in (name, f"{name}+hn", f"{name}+tn"):
                METHODS.pop(other)
        assert bool(violations(rows)) == (not framed)
