"""Rows of different sizes share bins, and stay apart in them."""

import numpy as np
import pytest
import torch

from sgrl.models.attention import attention_weights, fill_bins, weighted_values
from sgrl.models.batch import layout_of
from sgrl.models.methods import make_critic
from sgrl.models.states import random_batch
from sgrl.morphology import COLLECTIONS, get_body, resolve_bodies

WALKER, HOPPER = get_body("3d_walker_7_full"), get_body("3d_hopper_3_shin")


@pytest.mark.parametrize("seed", range(5))
def test_no_two_limbs_share_a_slot(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 15, 100)
    size = int(counts.max())
    bins, offsets, used = fill_bins(counts, size)
    taken = np.zeros((used, size), int)
    for row, limbs in enumerate(counts):
        assert offsets[row] + limbs <= size
        taken[bins[row], offsets[row] : offsets[row] + limbs] += 1
    assert taken.max() == 1
    assert taken.any(axis=1).all()


def test_small_rows_share_bins():
    bins, offsets, used = fill_bins(np.array([3, 7, 4, 3, 3, 2]), 7)
    assert used == 4
    assert bins.tolist() == [1, 0, 1, 2, 2, 3]
    assert offsets.tolist() == [4, 0, 0, 0, 3, 0]


def draw(collection, seed):
    bodies = resolve_bodies((collection,))
    return layout_of(bodies, np.random.default_rng(seed).integers(0, len(bodies), 100))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("collection", COLLECTIONS)
def test_a_mix_leaves_few_gaps(collection, seed):
    layout = draw(collection, seed)
    slots = layout.packing.bins * layout.packing.size
    assert slots < 1.3 * layout.num_limbs
    if collection in ("3d_cwhh++", "3d_walker++"):
        assert slots < 1.15 * layout.num_limbs


@pytest.mark.parametrize(
    ("large", "small", "of_large", "size"), [(14, 9, 1, 18), (14, 9, 50, 14), (40, 21, 1, 42)]
)
def test_a_lopsided_mix_leaves_few_gaps(grow, large, small, of_large, size):
    """In bins of 14 most of these rows of 9 would lie alone, in bins of 40 those of 21."""
    rows = np.arange(100) >= of_large
    layout = layout_of((grow(large), grow(small)), np.random.default_rng(0).permutation(rows))
    packing = layout.packing
    assert packing.size == size
    assert packing.bins * packing.size < (1.02 if of_large == 1 else 1.25) * layout.num_limbs


@pytest.mark.parametrize("method", ["set", "set-g", "swat"])
def test_only_attention_sees_gaps(method):
    layout = draw("3d_hopper++", 0)
    assert layout.packing.bins * layout.packing.size > layout.num_limbs
    sizes = []
    critic = make_critic(method)
    for module in critic.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.LayerNorm):
            module.register_forward_hook(lambda module, inputs, _: sizes.append(len(inputs[0])))
    batch = random_batch(layout.bodies, dtype=torch.float32).select(layout.body_index.numpy())
    assert batch.layout is layout
    critic(batch, torch.zeros(layout.num_limbs, 3))
    # The map of relations runs over pairs of limbs.
    assert set(sizes) == {layout.num_limbs, layout.packing.bins}


def test_pack_and_back():
    packing = (layout := layout_of((WALKER, HOPPER), [1, 0, 1])).packing
    assert (packing.bins, packing.size) == (2, 7)
    x = torch.randn(layout.num_limbs, 2)
    packed = packing.pack(x)
    assert packed.shape == (2, 7, 2)
    assert torch.equal(packed[0], x[3:10])
    assert torch.equal(packed[1, :6], torch.cat((x[:3], x[10:])))
    assert torch.isfinite(packed).all()
    assert torch.equal(packing.unpack(packed), x)


def test_rows_of_one_size_are_bins_as_they_lie():
    packing = layout_of((WALKER,), [0, 0, 0]).packing
    x = torch.randn(21, 4)
    assert packing.pack(x).data_ptr() == x.data_ptr()
    assert packing.unpack(packing.pack(x)).data_ptr() == x.data_ptr()
    assert packing.mask is None


@pytest.mark.parametrize("rows", [[1, 0, 1], [1, 0, 1, 1], [0] + [1] * 9])
def test_limbs_attend_only_to_their_own_row(grow, rows):
    torch.manual_seed(0)
    layout = layout_of((WALKER, grow(4)), rows)
    packing = layout.packing
    qkv = torch.randn(layout.num_limbs, 3, 2, 2)
    q, k, v = qkv.unbind(1)
    alpha = attention_weights(q, k, None, packing)
    weights = packing.by_row(alpha)
    assert weights.shape == (len(rows), 2, 7, 7)
    torch.testing.assert_close(weights.sum(-1)[:, 0], layout.mask.float())
    values = weighted_values(alpha, v, packing)
    for row in range(len(rows)):
        limbs = layout.limb_row == row
        count = int(layout.counts[row])
        expected = torch.einsum("hij,jhd->ihd", weights[row, :, :count, :count], v[limbs])
        torch.testing.assert_close(values[limbs], expected)
        alone = layout_of((layout.bodies[layout.body_index[row]],), [0]).packing
        torch.testing.assert_close(
            attention_weights(q[limbs], k[limbs], None, alone)[0], weights[row, :, :count, :count]
        )
