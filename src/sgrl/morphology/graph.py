"""The body as a graph: who hangs on whom, in which order, and how near limbs are.

Everything here depends on the body alone and is worked out once per body. NumPy only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sgrl.morphology.body import Morphology
from sgrl.morphology.families import family_of

DAMPING = 0.9
"""Personalised PageRank follows an edge this often and else jumps back to its start."""
NUM_TRAVERSALS = 3
NUM_RELATIONS = 3


@dataclass(frozen=True, eq=False)
class Graph:
    """Structure of one body; limbs are numbered in the order of the body tree."""

    parents: NDArray[np.int64]
    """(limbs,), -1 for the torso."""
    children: tuple[tuple[int, ...], ...]
    """The limbs' own, in order."""
    depths: NDArray[np.int64]
    """(limbs,): edges between a limb and the torso."""
    levels: tuple[NDArray[np.int64], ...]
    """Limbs of equal depth, the torso first."""
    traversals: NDArray[np.int64]
    """(limbs, 3): a limb's rank in the tree's pre-order, and in the in-order and
    post-order of its left-child right-sibling binary tree."""
    relations: NDArray[np.float64]
    """(limbs, limbs, 3), from row to column: personalized PageRank over the graph with
    self-loops, symmetric normalized Laplacian, shortest path / number of limbs."""


@lru_cache(maxsize=1024)
def graph_of(body: Morphology) -> Graph:
    """The graph of a body, the same object for equal bodies."""
    parents = np.array(body.parents, np.int64)
    children = tuple(
        tuple(np.flatnonzero(parents == limb).tolist()) for limb in range(body.num_limbs)
    )
    depths = np.zeros(body.num_limbs, np.int64)
    for limb, those in enumerate(children):
        depths[list(those)] = depths[limb] + 1
    levels = tuple(np.flatnonzero(depths == depth) for depth in range(depths.max() + 1))
    graph = Graph(
        parents,
        children,
        depths,
        levels,
        _traversals(children),
        _relations(parents),
    )
    for array in (parents, depths, *levels, graph.traversals, graph.relations):
        array.flags.writeable = False
    return graph


@lru_cache(maxsize=1024)
def canonical_graph_of(body: Morphology) -> Graph:
    """The graph of a body with the ranks and relations of its limbs in its family's full body.

    Where limbs are missing, those after them move up in a body's own traversals, and the same
    limb has other ranks in another body. Here ranks and relations are those of the full body,
    also where a hopper lacks a link and what is left has moved together. A body that is not what
    is left of the full one keeps its own.
    """
    graph, family = graph_of(body), family_of(body)
    if family is None or not _is_part(body, family.body):
        return graph
    full = family.body
    limbs = [full.limb_names.index(name) for name in body.limb_names]
    full_graph = graph_of(full)
    traversals = full_graph.traversals[limbs]
    relations = full_graph.relations[np.ix_(limbs, limbs)]
    for array in (traversals, relations):
        array.flags.writeable = False
    return replace(graph, traversals=traversals, relations=relations)


def _is_part(body: Morphology, full: Morphology) -> bool:
    """Whether each limb hangs on the nearest one that is left of those it hangs on in `full`."""
    above = {limb.name: limb.parent for limb in full.limbs}
    for limb in body.limbs:
        if limb.name not in above:
            return False
        parent = above[limb.name]
        while parent is not None and parent not in body.limb_names:
            parent = above[parent]
        if parent != limb.parent:
            return False
    return True


def _traversals(children: tuple[tuple[int, ...], ...]) -> NDArray[np.int64]:
    first_child = {limb: those[0] for limb, those in enumerate(children) if those}
    next_sibling = {limb: after for those in children for limb, after in pairwise(those)}
    pre: list[int] = []
    middle: list[int] = []
    post: list[int] = []
    # An explicit stack: a body may be a chain longer than Python likes to recurse. A limb
    # is met three times: before its left branch, after it, and after its right branch.
    stack: list[tuple[int, int]] = [(0, 0)]
    while stack:
        limb, stage = stack.pop()
        if stage < 2:
            (pre, middle)[stage].append(limb)
            stack.append((limb, stage + 1))
            branch = (first_child, next_sibling)[stage].get(limb)
            if branch is not None:
                stack.append((branch, 0))
        else:
            post.append(limb)
    return np.stack([np.argsort(order) for order in (pre, middle, post)], axis=1)


def _relations(parents: NDArray[np.int64]) -> NDArray[np.float64]:
    limbs = len(parents)
    eye = np.eye(limbs)
    adjacency = np.zeros((limbs, limbs))
    adjacency[np.arange(1, limbs), parents[1:]] = 1.0
    adjacency += adjacency.T

    walk = adjacency + eye
    walk /= walk.sum(axis=1, keepdims=True)
    pagerank = (1 - DAMPING) * np.linalg.inv(eye - DAMPING * walk)

    degree = adjacency.sum(axis=1)
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros(limbs), where=degree > 0)
    laplacian = np.diag((degree > 0).astype(float)) - scale[:, None] * adjacency * scale

    distance = np.where(eye > 0, 0.0, np.where(adjacency > 0, 1.0, np.inf))
    for via in range(limbs):
        distance = np.minimum(distance, distance[:, via, None] + distance[via])
    return np.stack((pagerank, laplacian, distance / limbs), axis=-1)
