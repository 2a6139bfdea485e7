"""Rows of different sizes share bins, and stay apart in them."""

import numpy as np
import pytest
import torch

from sgrl.models.attention import attend, attention_weights
from sgrl.models.batch import layout_of
from sgrl.models.packing import fill_bins
from sgrl.morphology import get_body, resolve_bodies

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


def test_the_usual_mix_leaves_few_gaps():
    bodies = resolve_bodies(("3d_cwhh++",))
    layout = layout_of(bodies, np.random.default_rng(0).integers(0, len(bodies), 100))
    slots = layout.packing.bins * layout.packing.size
    assert slots < 1.1 * layout.num_limbs < 0.7 * layout.num_rows * layout.max_limbs


def test_pack_and_back():
    packing = (layout := layout_of((WALKER, HOPPER), [1, 0, 1])).packing
    assert (packing.bins, packing.size) == (2, 7)
    x = torch.randn(layout.num_limbs, 2, dtype=torch.float64, requires_grad=True)
    packed = packing.pack(x)
    assert torch.equal(packed[:7], x[3:10])
    assert torch.equal(packed[7:13], torch.cat((x[:3], x[10:])))
    assert torch.isfinite(packed).all()
    assert torch.equal(packing.unpack(packed), x)
    assert torch.autograd.gradcheck(lambda x: packing.unpack(packing.pack(x) ** 2), x)


def test_rows_of_one_size_are_bins_as_they_lie():
    packing = layout_of((WALKER,), [0, 0, 0]).packing
    x = torch.randn(21, 4)
    assert packing.pack(x) is x
    assert packing.unpack(x) is x
    assert packing.mask is None


def test_limbs_hear_only_their_own_row():
    torch.manual_seed(0)
    layout = layout_of((WALKER, HOPPER), [1, 0, 1])
    packing = layout.packing
    qkv = torch.randn(layout.num_limbs, 12)

    def by_head(qkv):
        return qkv.view(-1, 6, 2).transpose(0, 1).contiguous()

    packed = by_head(packing.pack(qkv))
    weights = attention_weights(packing, packed)
    assert weights.shape == (3, 2, 7, 7)
    torch.testing.assert_close(weights.sum(-1)[:, 0], layout.mask.float())
    heard = packing.unpack(attend(packing, packed)[0].transpose(0, 1))
    for row in range(3):
        limbs = layout.limb_row == row
        count = int(layout.counts[row])
        values = qkv[limbs, 8:].unflatten(1, (2, 2))
        expected = torch.einsum("hqk,khd->qhd", weights[row, :, :count, :count], values)
        torch.testing.assert_close(heard[limbs], expected)
        alone = layout_of((layout.bodies[layout.row_body[row]],), [0]).packing
        torch.testing.assert_close(
            attention_weights(alone, by_head(qkv[limbs]))[0], weights[row, :, :count, :count]
        )
