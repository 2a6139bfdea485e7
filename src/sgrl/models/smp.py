"""SMP (Huang et al. 2020): limbs that send messages along the body tree.

One set of small modules is shared by all limbs of all bodies. Messages of 32 numbers first
go up the tree, from the feet to the torso, then down again; then each limb decides from
its own message and from its parent's. A level of the tree is one batch over all rows,
whatever their bodies, so a pass takes as many steps as the deepest body has levels.

The published module gives each child a slot of its own: a limb reads its children's
messages side by side and sends each another message, up to a fixed number of children.
Here the slots share their weights, so that a limb may have any number of children: it
reads the *sum* of their (squashed) messages, and all its children get the same. What sets
siblings apart is what they observe.

Symmetry: none. Vectors are read as plain numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from sgrl.models.batch import BatchLayout, LimbBatch
from sgrl.models.network import FLAT_FEATURES, LimbNetwork, Role, linear, mlp, std_layer


@dataclass(frozen=True)
class SMPConfig:
    """Sizes of SMP; the defaults are the published ones."""

    message: int = 32
    """Numbers in a message."""
    up: int = 64
    """Units in the two layers of the module that sends messages up."""
    down: tuple[int, int] = (400, 300)
    """Units in the two layers of the modules that send messages down, and that decide."""
    bottom_up: bool = True
    """Whether messages go up; without, a limb decides from what it observes itself."""
    top_down: bool = True
    """Whether messages go down; without, a limb knows nothing of its parents."""


class SMP(LimbNetwork):
    """One pass up and down the tree, then a decision of each limb."""

    def __init__(self, config: SMPConfig, role: Role) -> None:
        super().__init__(role)
        self.config = config
        own = FLAT_FEATURES + role.action_inputs
        # A message has length 1, so its numbers are small; what reads it makes up for that.
        size = 1.0 / math.sqrt(config.message) if config.bottom_up else 1.0
        if config.bottom_up:
            self.up = _Up(own, config)
            own = config.message
        if config.top_down:
            own += config.message
            self.down = mlp(own, config.down, config.message, size)
        self.decide = mlp(own, config.down, role.means, size)
        self.read_std = std_layer(config.down[-1]) if role.gives_std else None

    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """(limbs, role.outputs)."""
        self.check_action(action)
        limbs = batch.flat
        if action is not None:
            limbs = torch.cat((limbs, action), dim=-1)
        return self.pass_messages(limbs, batch.layout)

    def pass_messages(self, limbs: Tensor, layout: BatchLayout) -> Tensor:
        """What limbs observe, (limbs, inputs), to what they decide, (limbs, role.outputs)."""
        tree = _tree(layout)
        own = limbs.index_select(0, tree.order)
        if self.config.bottom_up:
            own = self.up(own, tree)
        if self.config.top_down:
            own = self._top_down(own, tree)
        hidden = self.decide[:-1](own.tanh())
        result: Tensor = self.decide[-1](hidden)
        if self.read_std is not None:
            result = torch.cat((result, self.read_std(hidden)), dim=-1)
        return result.index_select(0, tree.ranks)

    def _top_down(self, own: Tensor, tree: _Tree) -> Tensor:
        """What each limb has, and its parent's message: (limbs, own + message)."""
        levels = torch.split(own, tree.sizes)
        # A torso has no parent.
        messages = own.new_zeros(tree.sizes[0], self.config.message)
        known = [torch.cat((levels[0], messages), dim=-1)]
        for level, below in zip(levels[1:], tree.links, strict=True):
            senders = known[-1].index_select(0, below.senders)
            message = normalize(self.down(senders.tanh()), dim=-1)
            messages = message.index_select(0, below.sender_of)
            known.append(torch.cat((level, messages), dim=-1))
        return torch.cat(known)


class _Up(nn.Module):
    """The module that sends messages up: observation and children's messages to one message."""

    def __init__(self, inputs: int, config: SMPConfig) -> None:
        super().__init__()
        self.observe = linear(inputs, config.up, 1.0)
        # Together one layer on (own, children's messages); apart, the first runs for all
        # limbs at once. Both read numbers of length 1.
        self.mix_own = linear(config.up, config.up, math.sqrt(config.up / 2))
        self.mix_children = linear(
            config.message, config.up, math.sqrt(config.message / 2), bias=False
        )
        self.speak = linear(config.up, config.message, 1.0)

    def forward(self, limbs: Tensor, tree: _Tree) -> Tensor:
        """(limbs, inputs), level after level, to messages (limbs, message) of length 1."""
        own = self.mix_own(normalize(self.observe(limbs), dim=-1).tanh())
        levels = torch.split(own, tree.sizes)
        message = normalize(self.speak(levels[-1].tanh()), dim=-1)
        messages = [message]
        for level, below in zip(reversed(levels[:-1]), reversed(tree.links), strict=True):
            children = message.new_zeros(len(level), message.shape[1])
            children = children.index_add(0, below.parents, message.tanh())
            message = normalize(self.speak((level + self.mix_children(children)).tanh()), dim=-1)
            messages.append(message)
        return torch.cat(messages[::-1])


@dataclass(frozen=True, eq=False)
class _Link:
    """How the limbs of a level hang on the level above."""

    parents: Tensor
    """(limbs of the level,): the index of each limb's parent in the level above."""
    senders: Tensor
    """Indices in the level above of the limbs that have children."""
    sender_of: Tensor
    """(limbs of the level,): which of the senders is the parent."""


@dataclass(frozen=True, eq=False)
class _Tree:
    """The limbs of a batch sorted by depth, the torsos first."""

    order: Tensor
    """(limbs,): which limb comes where."""
    ranks: Tensor
    """(limbs,): the index of each limb in that order; undoes `order`."""
    sizes: list[int]
    """Limbs in each level."""
    links: list[_Link]
    """How each level but the first hangs on the one above."""


_trees: WeakKeyDictionary[BatchLayout, _Tree] = WeakKeyDictionary()


def _tree(layout: BatchLayout) -> _Tree:
    if layout not in _trees:
        _trees[layout] = _make_tree(layout)
    return _trees[layout]


def _make_tree(layout: BatchLayout) -> _Tree:
    order = torch.cat(layout.levels)
    ranks = order.argsort()
    sizes = [len(level) for level in layout.levels]
    links = []
    above = 0
    for size, level in zip(sizes, layout.levels[1:], strict=False):
        parents = ranks[layout.parents[level]] - above
        senders, sender_of = torch.unique(parents, return_inverse=True)
        links.append(_Link(parents, senders, sender_of))
        above += size
    return _Tree(order, ranks, sizes, links)
