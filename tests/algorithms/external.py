from dataclasses import dataclass

import numpy as np
import torch

from sgrl.algorithms.config import AlgorithmConfig
from sgrl.algorithms.learner import Learner
from sgrl.algorithms.optimizer import load_optimizer_state, make_optimizer, optimizer_state
from sgrl.algorithms.weights import load_portable, load_weights, weights_of
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import make_actor
from sgrl.setting import setting


@dataclass(frozen=True)
class REINFORCEConfig(AlgorithmConfig):
    std: float = setting(0.3, key="std", above=0.0, most=10.0)
    """Standard deviation of the noise on actions."""


class REINFORCE(Learner):
    name, Config, metrics = "reinforce", REINFORCEConfig, ("loss",)

    def __init__(self, config, setup):
        self.config, self.bodies, self.layout = config, setup.bodies, setup.layout
        actor = make_actor(setup.method, setup.preset, bodies=setup.bodies, config=setup.network)
        self.parts, self.optimizer = {"actor": actor}, make_optimizer(actor, 1e-3)
        self.noise = np.random.default_rng(setup.seed)
        self.stored, self.updates = [], 0

    def describe(self):
        return "an update every 32 steps"

    def means(self, obs):  # of all environments, one step after the other
        body_index = np.tile(self.layout.body_index, len(obs) // self.layout.num_envs)
        batch = LimbBatch.from_padded(torch.from_numpy(obs), self.bodies, body_index)
        return batch.layout.actions_to_rows(self.parts["actor"](batch))

    @torch.no_grad()
    def act(self, obs):
        noise = self.noise.standard_normal(self.layout.action_mask.shape, np.float32)
        return (self.means(obs).numpy() + self.config.std * noise) * self.layout.action_mask, {}

    def store(self, step):
        self.stored.append([step.obs, step.actions, step.rewards, step.done])

    def update(self, report, clock, should_stop):
        if len(self.stored) < 32:
            return
        obs, actions, rewards, done = map(np.stack, zip(*self.stored, strict=True))
        for t in reversed(range(len(rewards) - 1)):
            rewards[t] += 0.99 * rewards[t + 1] * ~done[t]  # returns from here on
        weights = torch.from_numpy(rewards - rewards.mean(0)).float().ravel()
        away = torch.from_numpy(actions.reshape(len(weights), -1)) - self.means(np.concatenate(obs))
        loss = (0.5 * (away / self.config.std).square().sum(1) * weights).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.stored, self.updates = [], self.updates + 1
        report({"loss": loss.item()})
        clock.lap("update")

    def weights(self):  # the policy's begin with actor., std. and normalizer.
        return weights_of(self.parts)

    def load_weights(self, weights):  # of another run, perhaps of another algorithm
        return ", ".join(load_portable(self.parts, weights))

    def state_dict(self):  # all else: nested dicts and lists of tensors, arrays, numbers, texts
        optimizer, noise = optimizer_state(self.optimizer), self.noise.bit_generator.state
        counts = {"stored": list(self.stored), "updates": self.updates}
        return {"optimizer": optimizer, "noise": noise} | counts

    def load_state_dict(self, weights, state):
        load_weights(self.parts, weights)
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.noise.bit_generator.state = state["noise"]
        self.stored, self.updates = list(state["stored"]), state["updates"]
