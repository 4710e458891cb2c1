"""The numbers of a step beside slow and obvious ones."""

import numpy as np
import pytest
import torch
from torch import nn

from bathyscope.core import blocks_of
from bathyscope.recorder.groups import parameter_groups
from bathyscope.recorder.samples import COLUMNS, SampleObserver, TakenSamples

NETWORK = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def sample_of(x):
    """What is kept of one output."""
    blocks = blocks_of(NETWORK, torch.zeros(2, 4))
    observer = SampleObserver(blocks, conditioning=False)
    observer.on_output(blocks[0], x)
    return dict(zip(COLUMNS, observer.values[0], strict=True))


@pytest.mark.parametrize("offset", [0.0, 3.0, 1e3])
@pytest.mark.parametrize("shape", [(8, 5, 6, 7), (8, 6, 5), (8, 5), (40, 5)])
def test_a_sample_of_an_output(shape, offset):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator) + offset
    (x[:, 2] if len(shape) == 4 else x[..., 2]).fill_(0.25)
    result = sample_of(x)
    exact, few = x.double(), x[:16].double()
    assert result["mean"] == pytest.approx(exact.mean().item(), rel=1e-4, abs=1e-5)
    assert result["std"] == pytest.approx(exact.std(correction=0).item(), rel=1e-4)
    units = few.movedim(1, -1) if len(shape) == 4 else few
    constant = [len(units[..., i].unique()) == 1 for i in range(units.shape[-1])]
    assert result["dead"] == pytest.approx(np.mean(constant))
    flat = few.flatten(1)
    fraction = ((flat - flat.mean(0)) ** 2).sum() / (flat**2).sum()
    assert result["variety"] == pytest.approx(fraction.item(), rel=1e-3)


@pytest.mark.parametrize("fill", [0.0, float("nan"), 3e38])
def test_a_sample_of_zeros_or_of_values_beyond_all_numbers(fill):
    result = sample_of(torch.full((4, 3), fill) * torch.tensor([1.0, -1.0, 1.0]))
    assert result["std"] == 0 if fill == 0 else not np.isfinite(result["std"])
    assert np.isnan(result["variety"]) or fill == 3e38


def test_norms_of_groups_are_those_of_all_their_parameters():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 5000), nn.PReLU())
    model[1].bias.grad, model[2].bias.grad = torch.randn(6), torch.randn(5000)
    model[1].weight.grad = torch.full((6,), float("nan"))
    groups = parameter_groups(model, blocks_of(NETWORK, torch.zeros(2, 4))[:0])
    for norm, layer in zip(groups.weight_norms(), model, strict=True):
        squares = [(p.detach().double() ** 2).sum().item() for p in layer.parameters()]
        assert norm == pytest.approx(sum(squares) ** 0.5, rel=1e-6)
    none, lost, some, also_none = groups.gradient_norms()
    assert none == also_none == -1
    assert np.isnan(lost)
    assert some == pytest.approx(model[2].bias.grad.double().norm().item(), rel=1e-6)


def test_norms_of_groups_with_gradients_that_are_missing_sparse_or_of_another_dtype():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(6, 4, sparse=True), nn.Linear(4, 4), nn.Linear(4, 2).half())
    groups = parameter_groups(model, blocks_of(NETWORK, torch.zeros(2, 4))[:0])
    model[0](torch.tensor([1, 2])).sum().backward()
    model[2].weight.grad = torch.full((2, 4), 2.0, dtype=torch.half)
    assert groups.labels == ("0", "1", "2")
    assert groups.gradient_norms().tolist() == [-1.0, -1.0, pytest.approx(32**0.5, rel=1e-3)]
    for norm, layer in zip(groups.weight_norms(), model, strict=True):
        squares = [(p.detach().double() ** 2).sum().item() for p in layer.parameters()]
        assert norm == pytest.approx(sum(squares) ** 0.5, rel=1e-3)


def test_samples_drawn_by_an_event_do_not_push_out_the_rest_of_the_training():
    samples = TakenSamples(blocks_of(NETWORK, torch.zeros(2, 4)), most=12)
    steps = [*range(0, 150, 10), *range(150, 170), *range(170, 240, 10)]
    for step in steps:
        samples.append(step, np.zeros((1, 1)))
    assert samples.steps[0] == 0
    assert samples.steps[-6:] == steps[-6:]
    assert len(samples.steps) == len(samples.values) == 12
    gaps = np.diff(samples.steps)
    assert gaps.max() <= 2 * 240 / 6
