"""A watch in one process of a group: of shards it stops, and then leaves the training alone."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from tests.two_processes import results


def first_process_watches(rank, folder):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(3)))
    for block in model:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())

    def train():
        for number in range(3):
            x = torch.randn(4, 6, generator=torch.Generator().manual_seed(number))
            optimizer.zero_grad()
            F.mse_loss(model(x), x).backward()
            optimizer.step()

    if rank == 1:
        train()
        return None
    with warnings.catch_warnings(record=True) as said, bs.watch(model, every=1) as seen:
        warnings.simplefilter("always")
        during = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
        train()
    return hooks, during, [str(w.message) for w in said], len(seen.rows)


@pytest.mark.slow  # it waits 20 seconds for the other process
def test_a_watch_of_shards_in_one_process_stops_and_sets_no_hooks(tmp_path):
    (hooks, during, said, rows), _ = results(tmp_path, first_process_watches)
    assert during == hooks
    assert rows == 0
    assert any("stopped" in text and "in shards" in text for text in said)
