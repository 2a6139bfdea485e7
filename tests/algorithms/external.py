from dataclasses import dataclass

import numpy as np
import torch

from sgrl.algorithms.config import AlgorithmConfig
from sgrl.algorithms.learner import Learner
from sgrl.algorithms.optimizer import load_optimizer_state, make_optimizer, optimizer_state
from sgrl.algorithms.weights import load_portable, load_weights, weights_of
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import make_policy
from sgrl.setting import setting


@dataclass(frozen=True)
class REINFORCEConfig(AlgorithmConfig):
    gamma: float = setting(0.99, key="gamma", least=0.0, most=1.0)
    """Discount."""
    n_steps: int = setting(32, key="n_steps", least=1, most=100_000)
    """Steps of every environment between two updates."""


class REINFORCE(Learner):
    name, Config, metrics = "reinforce", REINFORCEConfig, ("loss",)

    def __init__(self, config, setup):
        self.config, self.bodies, self.layout = config, setup.bodies, setup.layout
        how = {"bodies": setup.bodies, "config": setup.network}
        self.policy = make_policy(setup.method, setup.preset, **how)  # or your own network
        std = torch.nn.ParameterDict({"log_std": self.policy.log_std})
        self.parts = {"actor": self.policy.actor, "std": std}  # what weights() names
        self.optimizer = make_optimizer(self.policy, 1e-3)
        self.noise = torch.Generator().manual_seed(setup.seed)
        self.stored, self.updates = [], 0

    def describe(self):
        return f"an update every {self.config.n_steps} steps"

    def distribution(self, obs):  # rows of padded observations, one step after the other
        body_index = np.tile(self.layout.body_index, len(obs) // self.layout.num_envs)
        batch = LimbBatch.from_padded(torch.from_numpy(obs), self.bodies, body_index)
        mean, log_std = map(batch.layout.actions_to_rows, self.policy(batch))
        return torch.distributions.Normal(mean, log_std.exp())

    @torch.no_grad()
    def act(self, obs):
        normal = self.distribution(obs)
        actions = normal.mean + normal.stddev * torch.randn(normal.mean.shape, generator=self.noise)
        return actions.numpy() * self.layout.action_mask, {}

    def store(self, step):
        names = ("obs", "actions", "rewards", "done")
        self.stored.append({name: getattr(step, name) for name in names})

    def update(self, report, clock, should_stop):
        if len(self.stored) < self.config.n_steps:
            return
        returns, ahead = [], 0.0
        for step in reversed(self.stored):
            ahead = step["rewards"] + self.config.gamma * ahead * ~step["done"]
            returns.insert(0, ahead)
        obs, actions = (np.concatenate([s[n] for s in self.stored]) for n in ("obs", "actions"))
        advantages = torch.from_numpy((np.stack(returns) - np.mean(returns, 0)).ravel()).float()
        log_prob = self.distribution(obs).log_prob(torch.from_numpy(actions))
        motors = torch.from_numpy(np.tile(self.layout.action_mask, (len(self.stored), 1)))
        loss = -((log_prob * motors).sum(1) * advantages).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.stored, self.updates = [], self.updates + 1
        report({"loss": loss.item()})
        clock.lap("update")

    def weights(self):
        return weights_of(self.parts)

    def load_weights(self, weights):  # of another run, perhaps of another algorithm
        return ", ".join(load_portable(self.parts, weights, optional=["std"]))

    def state_dict(self):
        optimizer, noise = optimizer_state(self.optimizer), self.noise.get_state()
        mine = {"stored": list(self.stored), "updates": self.updates}
        return {"optimizer": optimizer, "noise": noise, **mine}

    def load_state_dict(self, weights, state):
        load_weights(self.parts, weights)
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.noise.set_state(state["noise"])
        self.stored, self.updates = list(state["stored"]), state["updates"]
