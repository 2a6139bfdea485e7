"""A digest tells physics that differs from physics whose last bits differ."""

import copy

import mujoco
import numpy as np
import pytest

from sgrl.morphology import body_names, compile_model, digest, get_body

HERE = {"mujoco": mujoco.__version__, "digest": "0123456789abcdef"}


def test_physics_here_is_what_is_known_of_this_version():
    assert digest.physics() == {
        "mujoco": mujoco.__version__,
        "digest": digest.KNOWN[mujoco.__version__],
    }
    assert digest.physics_warning(None, "it") is None


def test_last_bits_do_not_count():
    """A start that is off by more than processors differ has the same digest."""
    positions = [digest.position_after(get_body(name), 1e-13) for name in body_names()]
    assert digest.digest_of(positions) == digest.physics()["digest"]


@pytest.mark.parametrize("field", ["viscosity", "timestep", "gravity"])
def test_other_physics_has_another_digest(field, monkeypatch):
    body = get_body("3d_walker_7_full")
    usual = digest.digest_of([digest.position_after(body)])

    def changed(body):
        model = copy.copy(compile_model(body))
        value = getattr(model.opt, field)
        setattr(model.opt, field, 0.01 if field == "viscosity" else np.multiply(value, 1.01))
        return model

    monkeypatch.setattr(digest, "compile_model", changed)
    assert digest.digest_of([digest.position_after(body)]) != usual


def test_a_warning_says_what_was_measured_with_what(monkeypatch):
    monkeypatch.setattr(digest, "physics", lambda: HERE)
    monkeypatch.setattr(digest, "KNOWN", {"4.0.0": "aaaa", "9.9.9": "0123456789abcdef"})
    line = digest.physics_warning({"mujoco": "4.0.0", "digest": "bbbb"}, "the policy set-walker")
    assert line == (
        "physics differs: the policy set-walker was measured with MuJoCo 4.0.0 (digest bbbb), here "
        f"is {mujoco.__version__} (0123456789abcdef); returns may differ, too"
    )
    assert "(digest aaaa)" in digest.physics_warning({"mujoco": "4.0.0"}, "it")
    for same in (HERE, {"mujoco": "9.9.9"}, {"mujoco": "1.2.3"}, {"digest": HERE["digest"]}):
        assert digest.physics_warning(same, "it") is None
    monkeypatch.setattr(digest, "KNOWN", {mujoco.__version__: "cccc"})
    assert "cccc" in digest.physics_warning(None, "it")
