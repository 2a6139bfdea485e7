"""Traversals, levels and relations of trees that can be worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from sgrl.morphology import body_names, get_body
from sgrl.morphology.graph import canonical_graph_of, graph_of


def test_structure_of_the_walker():
    """Torso 0 with two legs, 1-2-3 and 4-5-6."""
    graph = graph_of(get_body("3d_walker_7_full"))
    assert graph.parents.tolist() == [-1, 0, 1, 2, 0, 4, 5]
    assert graph.children == ((1, 4), (2,), (3,), (), (5,), (6,), ())
    assert graph.depths.tolist() == [0, 1, 2, 3, 1, 2, 3]
    assert [level.tolist() for level in graph.levels] == [[0], [1, 4], [2, 5], [3, 6]]


def test_traversals_of_the_walker():
    """As a binary tree: 0 has left child 1; 1 has left child 2 and right child 4.

    Pre-order visits 0 1 2 3 4 5 6, in-order 3 2 1 6 5 4 0, post-order 3 2 6 5 4 1 0; the
    numbers below are the places of limbs 0 to 6 in those orders.
    """
    graph = graph_of(get_body("3d_walker_7_full"))
    assert graph.traversals.T.tolist() == [
        [0, 1, 2, 3, 4, 5, 6],
        [6, 2, 1, 0, 5, 4, 3],
        [6, 5, 1, 0, 4, 3, 2],
    ]


def test_relations_of_a_chain_of_three():
    """The short hopper: torso - thigh - foot, worked out by hand."""
    relations = graph_of(get_body("3d_hopper_3_shin")).relations
    # Self-loops make the walk stay: from an end 1/2, 1/2, from the middle 1/3 each. From the
    # torso, with x = (x0, x1, x2) and x = 0.1 (1, 0, 0) + 0.9 x W:
    #   x0 = 0.1 + 0.45 x0 + 0.3 x1,  x1 = 0.45 x0 + 0.3 x1 + 0.45 x2,  x2 = 0.3 x1 + 0.45 x2
    # so x2 = 6/11 x1, x0 = (2 + 6 x1)/11, and x1 = 9/23, x0 = 100/253, x2 = 54/253.
    np.testing.assert_allclose(relations[0, :, 0], [100 / 253, 9 / 23, 54 / 253])
    half = 1 / np.sqrt(2)
    np.testing.assert_allclose(
        relations[..., 1], [[1, -half, 0], [-half, 1, -half], [0, -half, 1]], atol=1e-12
    )
    np.testing.assert_allclose(relations[..., 2], np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]]) / 3)


@pytest.mark.parametrize("name", body_names())
def test_every_body(name):
    body = get_body(name)
    graph = graph_of(body)
    everyone = list(range(body.num_limbs))
    assert [sorted(order) for order in graph.traversals.T.tolist()] == [everyone] * 3
    assert sorted(np.concatenate(graph.levels).tolist()) == everyone
    pagerank, laplacian, distance = np.moveaxis(graph.relations, -1, 0)
    np.testing.assert_allclose(pagerank.sum(axis=1), 1.0)
    assert (pagerank > 0).all()
    # The Laplacian's null vector is the square root of the degrees.
    degree = [len(below) for below in graph.children] + (graph.parents >= 0)
    np.testing.assert_allclose(laplacian @ np.sqrt(degree), 0.0, atol=1e-12)
    np.testing.assert_allclose(distance[0] * body.num_limbs, graph.depths)
    np.testing.assert_array_equal(distance, distance.T)


def test_worked_out_once_and_read_only():
    graph = graph_of(get_body("3d_walker_7_full"))
    assert graph_of(get_body("3d_walker_7_full")) is graph
    for found in (graph, canonical_graph_of(get_body("3d_walker_6_right_foot"))):
        for array in (found.relations, found.traversals):
            with pytest.raises(ValueError, match="read-only"):
                array[0, 0] = 1


def test_limbs_keep_their_places_in_the_whole_body():
    """Without the right foot, the walker's limb 3, its own places and distances change."""
    full, cut = (get_body(name) for name in ("3d_walker_7_full", "3d_walker_6_right_foot"))
    kept = [full.limb_names.index(name) for name in cut.limb_names]
    assert kept == [0, 1, 2, 4, 5, 6]
    whole, own, found = graph_of(full), graph_of(cut), canonical_graph_of(cut)
    np.testing.assert_array_equal(found.traversals, whole.traversals[kept])
    np.testing.assert_array_equal(found.relations, whole.relations[kept][:, kept])
    assert (found.traversals != own.traversals).any(axis=0).all()
    assert not np.allclose(found.relations, own.relations)
    assert found.parents.tolist() == own.parents.tolist()  # who hangs on whom is its own affair


def test_a_full_body_and_a_strange_one_have_their_own_places():
    full = get_body("3d_walker_7_full")
    np.testing.assert_array_equal(canonical_graph_of(full).traversals, graph_of(full).traversals)
    limbs = tuple(
        replace(limb, name="fin") if limb.name == "left_foot" else limb for limb in full.limbs
    )
    strange = replace(full, name="strange", limbs=limbs).cut("right_foot")
    assert canonical_graph_of(strange) is graph_of(strange)
    # The same names in another tree: the left shin hangs on the torso.
    limbs = tuple(
        replace(limb, parent="torso") if limb.name == "left_shin" else limb for limb in full.limbs
    )
    hung = replace(full, name="hung", limbs=limbs).cut("right_foot")
    assert canonical_graph_of(hung) is graph_of(hung)


def test_a_hopper_without_a_link_has_the_places_of_what_is_left():
    found = canonical_graph_of(get_body("3d_hopper_3_shin"))
    assert found.traversals[:, 0].tolist() == [0, 1, 4]
    # Torso, thigh and foot: in the whole body the foot hangs three links below the thigh.
    np.testing.assert_allclose(found.relations[1, 2, 2], 3 / 5)
