"""Running statistics of columns: the same as of all rows at once."""

import torch

from sgrl.models.normalizer import CLIP, ColumnStatistics, update_statistics


def test_counted_in_parts_they_are_those_of_all_rows() -> None:
    torch.manual_seed(0)
    rows = torch.randn(500, 4) * torch.tensor([1.0, 10.0, 0.1, 3.0]) + torch.arange(4.0)
    statistics = ColumnStatistics(4)
    for part in rows.split((200, 250, 50)):
        statistics.update(part)
    torch.testing.assert_close(statistics.mean, rows.mean(0), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(statistics.variance, rows.var(0, correction=0), rtol=1e-3, atol=1e-5)
    normalized = statistics(rows)
    assert normalized.abs().max() <= CLIP
    torch.testing.assert_close(normalized.mean(0), torch.zeros(4), atol=2e-2, rtol=0)


def test_they_are_updated_by_a_forward_pass_where_asked_for_and_nowhere_else() -> None:
    model = torch.nn.Sequential(ColumnStatistics(3), torch.nn.Linear(3, 1))
    rows = torch.randn(20, 3) + 5
    model(rows)
    assert model[0].mean.abs().max() == 0
    update_statistics(model, lambda: model(rows))
    torch.testing.assert_close(model[0].mean, rows.mean(0), atol=1e-3, rtol=1e-3)
    before = model[0].mean.clone()
    model(rows + 1)
    assert torch.equal(model[0].mean, before)
