"""What a step of several ranks is said to do otherwise than one with all their samples, without processes."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core.nested import tensors_in
from bathyscope.diagnosis.twin_ranks import twin_of_ranks


def ranks(model, sizes, *, seed=0):
    """The mean of the gradients of ranks, the first one's batch, and what the others hand over."""
    torch.manual_seed(seed)
    batches = [(torch.randn(n, 6), torch.randint(3, (n,))) for n in sizes]
    gradients = []
    for x, y in batches:
        one = copy.deepcopy(model)
        F.cross_entropy(one(x), y).backward()
        gradients.append({name: p.grad for name, p in one.named_parameters()})
    mean = {name: sum(g[name] for g in gradients) / len(gradients) for name in gradients[0]}
    weights = {name: p.detach() for name, p in model.named_parameters()}
    others = [{"weights": weights, "batch": list(tensors_in(batch))} for batch in batches[1:]]
    return batches[0], mean, others


def compared(layer, sizes=(16, 16)):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 12), layer, nn.Linear(12, 3))
    batch, mean, others = ranks(model, sizes)
    return twin_of_ranks(model, batch, F.cross_entropy, mean, others)


def test_ranks_that_average_do_as_one():
    result = compared(nn.Tanh(), (16, 16, 16))
    assert result.is_same
    assert not result.notes


@pytest.mark.parametrize(
    ("layer", "sizes", "said"),
    [
        (nn.BatchNorm1d(12), (16, 16), "statistics of each rank's own samples"),
        (nn.Dropout(0.5), (16, 16), "draws random numbers"),
        (nn.AlphaDropout(0.5), (16, 16), "draws random numbers"),
        (nn.Tanh(), (16, 24), "unlike sizes (16, 24)"),
    ],
)
def test_what_healthy_ranks_do_otherwise_is_said(layer, sizes, said):
    result = compared(layer, sizes)
    assert not result.is_same
    assert len(result.notes) == 1
    assert said in result.notes[0]
