"""A trained policy, read back from the folder of its run."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from sgrl.algorithms.weights import current_names, is_gaussian, load_portable
from sgrl.envs.observation import FEATURES, split
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import get_method, make_actor, make_gaussian_actor
from sgrl.models.network import Actor, GaussianActor, MeanActor
from sgrl.models.normalizer import Normalizer
from sgrl.morphology import Morphology, get_body
from sgrl.plugins import TRUST
from sgrl.training.acting import Array, Policy
from sgrl.training.checkpoint import (
    CorruptCheckpointError,
    list_checkpoints,
    read_weights,
)
from sgrl.training.place import BEST, split_place
from sgrl.training.run import Run, find_run
from sgrl.training.settings import TrainSettings, check_device
from sgrl.training.weights_file import SUFFIX, checkpoint_of, read_weights_file

PORTABLE = ("actor.", "std.", "normalizer.")
"""How the names of weights begin from which any algorithm can start."""


def usable_weights(
    weights: Mapping[str, Tensor], recorded: TrainSettings, settings: TrainSettings
) -> dict[str, Tensor]:
    """Those of a recorded run's weights that a training with other settings can start from.

    A network that is made for one body takes the actor of a body that has all of its limbs.
    """
    method = get_method(settings.method)
    bodies, sources = settings.morphologies(), recorded.morphologies()
    other_body = method.one_body and bodies != sources
    if other_body or recorded.algorithm != settings.algorithm:
        # Critics of another algorithm or of another body know nothing here; a policy is a policy.
        weights = {n: value for n, value in weights.items() if n.startswith(PORTABLE)}
    if other_body:
        return method.actor_of_cut_body(weights, settings.network, sources[0], bodies[0])
    return dict(weights)


class TrainedPolicy(Policy):
    """What a run has learned: from observations of any body to actions, nothing random."""

    def __init__(
        self,
        actor: Actor | MeanActor,
        normalizer: Normalizer,
        settings: TrainSettings,
        run: Path,
        checkpoint: int,
    ) -> None:
        self.settings = settings
        self.method = settings.method
        self.bodies = settings.morphologies()
        """Those it was trained on; it acts on others too, unless it is monolithic."""
        self.run = run
        self.checkpoint = checkpoint
        """Steps that it was trained for."""
        self.is_best = False
        """Whether it is the best that evaluations found while it was trained."""
        self.actor = actor.eval().requires_grad_(False)
        self.normalizer = normalizer.eval()
        weight = next(actor.parameters())
        self._device, self._dtype = weight.device, weight.dtype

    def __repr__(self) -> str:
        return f"<{self.method} after {self.checkpoint:,} steps of {self.run}>"

    def act(self, obs: ArrayLike, body: str | Morphology) -> Array:
        """Actions (action_dim,) for a flat observation (limbs * 41,), or rows of them for rows.

        `body` is a name that `get_body` knows or any body's value.
        """
        if isinstance(body, str):
            body = get_body(body)
        observed = np.asarray(obs)
        self._check(observed, body)
        rows = observed.reshape(-1, observed.shape[-1])
        if not len(rows):
            return np.zeros((0, body.action_dim), np.float32)
        tensor = torch.tensor(rows, dtype=self._dtype, device=self._device)
        actions = self._rows(LimbBatch.from_flat(tensor, body))
        return actions.reshape(*observed.shape[:-1], body.action_dim)

    def act_many(self, obs: Sequence[Array], bodies: Sequence[Morphology]) -> list[Array]:
        """Actions (action_dim,) for a flat observation (limbs * 41,) of each of some bodies, in one
        batch."""
        rows = self._rows(self.batch_of(obs, bodies))
        return [row[: body.action_dim] for row, body in zip(rows, bodies, strict=True)]

    def batch_of(self, obs: Sequence[Array], bodies: Sequence[Morphology]) -> LimbBatch:
        """Observations of some bodies as one batch, as observed."""
        # By identity: a body is a deep value, and to hash it at every step takes time.
        known = {id(body): body for body in bodies}
        index = {key: number for number, key in enumerate(known)}
        widest = max(body.num_limbs for body in known.values()) * FEATURES
        rows = np.zeros((len(bodies), widest), np.float32)
        for row, observed in zip(rows, obs, strict=True):
            row[: len(observed)] = observed
        tensor = torch.tensor(rows, dtype=self._dtype, device=self._device)
        body_index = np.array([index[id(body)] for body in bodies])
        return LimbBatch.from_padded(tensor, tuple(known.values()), body_index)

    def normalized(self, batch: LimbBatch) -> LimbBatch:
        """What the actor reads of a batch as observed."""
        normalizer = self.normalizer
        scale = split(normalizer.scale.to(batch.scalars), 1)
        shift = split(normalizer.shift.to(batch.scalars), 1)
        return batch.replace(
            vectors=batch.vectors * scale.vectors,
            scalars=torch.addcmul(shift.scalars, batch.scalars, scale.scalars),
        )

    def actions(self, batch: LimbBatch) -> Tensor:
        """Actions (limbs, 3) in [-1, 1] for a batch as observed."""
        result: Tensor = self.actor(self.normalized(batch))
        return result

    def _rows(self, batch: LimbBatch) -> Array:
        """Actions (rows, action_dim), padded where rows are of different bodies."""
        # Not inference_mode: what layouts compute is kept, and a training in this process may
        # need it later for its gradients.
        with torch.no_grad():
            rows = batch.layout.actions_to_rows(self.actions(batch))
        return rows.cpu().numpy().astype(np.float32, copy=False)

    def to(self, dtype: torch.dtype) -> TrainedPolicy:
        """A copy of it that computes in another precision."""
        actor, normalizer = copy.deepcopy(self.actor).to(dtype), copy.deepcopy(self.normalizer)
        return self.with_actor(actor, normalizer)

    def with_actor(
        self, actor: Actor | MeanActor, normalizer: Normalizer | None = None
    ) -> TrainedPolicy:
        """The same with another actor, and the same statistics if no others are given."""
        other = TrainedPolicy(
            actor, normalizer or self.normalizer, self.settings, self.run, self.checkpoint
        )
        other.is_best = self.is_best
        return other

    @staticmethod
    def _check(observed: NDArray[np.generic], body: Morphology) -> None:
        numbers = body.num_limbs * FEATURES
        if observed.ndim not in (1, 2) or observed.shape[-1] != numbers:
            limbs, rest = divmod(observed.shape[-1] if observed.ndim else 0, FEATURES)
            as_limbs = f", which would be {limbs} limbs" if limbs and not rest else ""
            raise ValueError(
                f"{body.name} has {body.num_limbs} limbs and observes ({numbers},) or "
                f"(rows, {numbers}); got {observed.shape}{as_limbs}"
            )
        if observed.dtype.kind not in "fiu" or not np.isfinite(observed).all():
            raise ValueError(f"an observation of {body.name} is of finite numbers, not NaN")


def load_policy(
    run: str | Path,
    checkpoint: int | None = None,
    device: str = "cpu",
    *,
    trust: Sequence[str] = (),
) -> TrainedPolicy:
    """The policy of a run, given by its folder, its name in `runs`, or a name that ships; or that
    of a file of weights, `.safetensors`, in a checkpoint or with its `card.json` beside it.

    A run's best checkpoint, as evaluations on the way found, or else the newest that is whole;
    `RUN@best` and `RUN@STEPS` name one, and so do the steps `checkpoint`. A run of a method from
    outside the package (`module:Class`) needs that module, whose code then runs: `trust` names the
    modules for which that is all right.
    """
    TRUST.add(trust)
    check_device(device)
    if (file := Path(run)).suffix != SUFFIX:
        place, which = split_place(run)
    elif (of_run := checkpoint_of(file)) is not None:
        place, which = of_run
    else:
        return _policy_of_file(file, device)
    if which is not None and checkpoint is not None:
        raise ValueError(f"{run} names a checkpoint already, and another one is asked for")
    found = find_run(place)
    settings = replace(found.settings(), device=device)
    folder, weights = read_policy_weights(found, which if checkpoint is None else checkpoint)
    try:
        policy = policy_of(settings, weights, found.path, int(folder.name))
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None
    policy.is_best = folder.parent.name == BEST
    return policy


def _policy_of_file(file: Path, device: str) -> TrainedPolicy:
    settings, steps, weights = read_weights_file(file)
    try:
        return policy_of(replace(settings, device=device), current_names(weights), file, steps)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def policy_of(
    settings: TrainSettings, weights: Mapping[str, Tensor], run: Path, checkpoint: int
) -> TrainedPolicy:
    """The policy with these weights, by names of today, of a run at so many steps.

    It has copies of them, on the settings' device. ValueError if they are of another method.
    """
    # A Gaussian actor lets motors that move nothing rest, as it did in training.
    make = make_gaussian_actor if is_gaussian(weights) else make_actor
    actor = make(
        settings.method,
        settings.preset,
        bodies=settings.morphologies(),
        config=settings.network,
    )
    normalizer = Normalizer()
    parts: dict[str, nn.Module] = {"actor": actor, "normalizer": normalizer}
    load_portable(parts, weights, optional=("normalizer",))
    device = settings.device
    acts = MeanActor(actor) if isinstance(actor, GaussianActor) else actor
    return TrainedPolicy(acts.to(device), normalizer.to(device), settings, run, checkpoint)


def act_on_one_thread() -> None:
    """Let PyTorch have one thread: batches of an evaluation or a few robots are too small to share.

    Threads of PyTorch wait for each other after every operation. On two cores, beside one or two
    busy processes, an evaluation took 2.6 times as long with two of them as with one; on a quiet
    machine the same. With one, results do not depend on how many cores there are.
    """
    torch.set_num_threads(1)


def read_policy_weights(run: Run, which: str | int | None = None) -> tuple[Path, dict[str, Tensor]]:
    """A checkpoint's folder and its weights by the names of today.

    `which` is its steps, or "best"; by default it is the best, or if there is none the newest that
    is whole.
    """
    best = list_checkpoints(run.path / BEST)
    folders = list_checkpoints(run.checkpoints)
    if which == BEST and not best:
        raise FileNotFoundError(
            f"{run.path} has no best checkpoint: it was trained without --eval-every"
        )
    if not folders and not best:
        raise FileNotFoundError(f"{run.path} has no checkpoint yet")
    if isinstance(which, int):
        chosen = [path for path in (*best, *folders) if int(path.name) == which]
        if not chosen:
            known = ", ".join(str(int(path.name)) for path in folders)
            raise FileNotFoundError(f"{run.path} has no checkpoint {which}; there are {known}")
        return chosen[-1], current_names(read_weights(chosen[-1]))
    for folder in reversed(best if which == BEST else [*folders, *best]):
        try:
            return folder, current_names(read_weights(folder))
        except CorruptCheckpointError as error:
            warnings.warn(f"{error}; trying the checkpoint before", stacklevel=3)
    raise CorruptCheckpointError(f"no checkpoint of {run.path} can be read")
