"""SWAT and Amorpheus: what they know of the body's structure."""

import pytest
import torch

from sgrl.models.batch import layout_of
from sgrl.models.network import ACTOR, CRITIC
from sgrl.models.set import SET, SETConfig
from sgrl.models.states import random_batch
from sgrl.models.swat import MAX_RANKS, PRESETS, SWAT, RelationBias, SWATConfig, TraversalEmbedding
from sgrl.morphology import get_body
from sgrl.morphology.graph import graph_of

WALKER = get_body("3d_walker_7_full")
HOPPER = get_body("3d_hopper_3_shin")


def test_traversal_embedding_is_three_embeddings_side_by_side():
    """Limb 4 of the walker, the left thigh, is at places 4, 5 and 4 (see test_graph)."""
    embedding = TraversalEmbedding(7)
    left_thigh = embedding(layout_of((WALKER, HOPPER), [1, 0]))[3 + 4]
    table = embedding.table
    expected = torch.cat((table[4, :3], table[5, 3:5], table[4, 5:]))
    assert torch.equal(left_thigh, expected)
    alone = embedding(layout_of((HOPPER, WALKER), [1, 1]))
    assert alone.shape == (14, 7)
    assert torch.equal(alone[[4, 11]], expected.expand(2, -1))


def test_ranks_beyond_the_table_share_the_last(grow):
    chain = grow(MAX_RANKS + 3, "chain")
    found = TraversalEmbedding(6)(layout_of((chain,), [0, 0]))
    assert torch.equal(found[-1, :2], found[MAX_RANKS - 1, :2])
    assert not torch.equal(found[-1, :2], found[MAX_RANKS - 2, :2])


def test_relation_bias_is_a_linear_map_of_the_relations():
    bias = RelationBias(2).double()
    with torch.no_grad():
        bias.map.weight[:] = torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, -1.0]])
    # The walker fills a bin, the hoppers share the other.
    found = bias(layout_of((WALKER, HOPPER), [1, 0, 1]))
    assert found.shape == (2, 2, 7, 7)
    for body, part in ((WALKER, slice(0, 7)), (HOPPER, slice(0, 3)), (HOPPER, slice(3, 6))):
        bin_ = int(body is HOPPER)
        pagerank, laplacian, distance = torch.tensor(graph_of(body).relations).unbind(-1)
        torch.testing.assert_close(found[bin_, 0, part, part], pagerank)
        torch.testing.assert_close(found[bin_, 1, part, part], 2 * laplacian - distance)
    alone = bias(layout_of((WALKER, HOPPER), [1, 1, 1]))
    torch.testing.assert_close(alone, found[1:, :, :3, :3])


def test_ranks_and_relations_in_the_full_body():
    """The walker without its right foot, limb 3: its left leg is still limbs 4 to 6."""
    cut, kept = get_body("3d_walker_6_right_foot"), [0, 1, 2, 4, 5, 6]
    full, alone, mixed = layout_of((WALKER,), [0]), layout_of((cut,), [0]), (HOPPER, cut)
    embedding = TraversalEmbedding(6, canonical_positions=True)
    expected = embedding(full)[kept]
    assert torch.equal(embedding(alone), expected)
    assert torch.equal(embedding(layout_of(mixed, [0, 1]))[3:], expected)
    own = TraversalEmbedding(6)
    own.load_state_dict(embedding.state_dict())
    assert not torch.equal(own(alone), expected)
    bias = RelationBias(2, canonical_positions=True)
    expected = bias(full)[..., kept, :][..., kept]
    torch.testing.assert_close(bias(alone), expected)
    own = RelationBias(2)
    own.load_state_dict(bias.state_dict())
    assert not torch.allclose(own(alone), expected)


@pytest.mark.parametrize(("network", "config"), [(SWAT, SWATConfig), (SET, SETConfig)])
def test_a_network_that_counts_in_the_full_body(network, config):
    """It is the same on the full body, and another on one that lacks a limb."""
    for body, same in ((WALKER, True), (get_body("3d_walker_6_right_foot"), False)):
        batch, outputs = random_batch((body,), 3), []
        for canonical in (False, True):
            torch.manual_seed(0)
            outputs.append(network(config(canonical_positions=canonical), ACTOR).double()(batch))
        assert torch.equal(*outputs) == same


@pytest.mark.parametrize("structure", [True, False], ids=["swat", "amorpheus"])
def test_only_swat_knows_the_tree(grow, structure):
    """The same observations on a chain and on a star."""
    torch.manual_seed(0)
    network = SWAT(SWATConfig(structure=structure), ACTOR).double()
    chain = random_batch((grow(5, "chain"),), 3)
    star = chain.replace(layout=layout_of((grow(5, "star"),), [0] * 3))
    difference = (network(chain) - network(star)).abs().max()
    assert difference > 1e-3 if structure else difference == 0


def test_decoder_sees_the_raw_input():
    """With all else in the network silenced, a limb's own input still moves its output."""
    torch.manual_seed(0)
    network = SWAT(SWATConfig(), CRITIC)
    with torch.no_grad():
        network.decoder.weight[:, : network.config.embedding] = 0.0
    batch = random_batch((WALKER,), dtype=torch.float32)
    action = torch.rand(7, 3, requires_grad=True)
    network(batch, action)[3].backward()
    assert action.grad[3].abs().min() > 0
    assert action.grad[[0, 1, 2, 4, 5, 6]].abs().max() == 0


def test_flat_is_all_that_a_limb_observes():
    batch = random_batch((WALKER, HOPPER), dtype=torch.float32)
    features = batch.flat
    assert features.shape == (10, 41)
    assert torch.equal(features[:, :18], batch.squashed.flatten(1))
    assert torch.equal(features[8, 18:24], torch.cat((batch.gravity[1], batch.target[1])))
    assert torch.equal(features[:, 24:], batch.scalars)


def test_paper_preset_has_the_sizes_of_set():
    assert PRESETS["paper"] == SWATConfig(layers=3, heads=2, embedding=128, hidden=256)
    with pytest.raises(ValueError, match="evenly"):
        SWATConfig(embedding=31)


def test_roles_check_the_action():
    batch = random_batch((WALKER,), dtype=torch.float32)
    with pytest.raises(ValueError, match="takes no action"):
        SWAT(SWATConfig(), ACTOR)(batch, torch.zeros(7, 3))
    with pytest.raises(ValueError, match="needs the action"):
        SWAT(SWATConfig(), CRITIC)(batch)
