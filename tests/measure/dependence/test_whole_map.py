"""One backward pass is enough for a causal model whose samples are apart, and for no other."""

import pytest
import torch
from torch import nn

from bathyscope.measure.dependence.dependence import dependence
from bathyscope.measure.dependence.eval_pass import EvalPass
from tests.measure.dependence.architectures import LENGTH, WIDTH, Attention

SMALL = 1e-5
"""Too small to be seen in the outputs: only a gradient shows it."""


class Mixing(Attention):
    """Causal attention of which a sample also reads, a little, the one before or behind it."""

    shift = 0

    def forward(self, x):
        beside = x.roll(self.shift, 0) if self.shift else torch.zeros_like(x)
        return super().forward(x + SMALL * beside)


@pytest.fixture
def passes(monkeypatch):
    """The backward passes that are run."""
    counted = []
    original = EvalPass.gradients
    monkeypatch.setattr(
        EvalPass, "gradients", lambda ran, seed: counted.append(ran) or original(ran, seed)
    )
    return counted


def measured(model):
    torch.manual_seed(0)
    return dependence(model, (torch.randn(8, LENGTH, WIDTH), None))


def test_a_causal_map_to_the_end_shows_all(passes):
    result = measured(Mixing(causal=True))
    assert len(passes) == 1
    assert result.positions.pattern == "causal"
    assert result.positions.rows == (LENGTH // 3, LENGTH - 1, 2 * LENGTH // 3)
    assert result.samples.gradient == 0
    assert not result.samples.mixes
    assert [one.fraction for one in result.unread] == [0.0]


@pytest.mark.parametrize("shift", [1, -1])
def test_samples_that_read_a_neighbor_a_little_are_not_taken_for_apart(shift):
    model = Mixing(causal=True)
    model.shift = shift
    result = measured(model)
    assert result.samples.company < result.samples.tolerance
    assert 0 < result.samples.gradient < 1e-3
    assert result.samples.mixes


@pytest.mark.parametrize("reads", [{"causal": True, "window": 2}, {"causal": False}])
def test_other_maps_take_a_second_pass(reads, passes):
    result = measured(Mixing(**reads))
    assert len(passes) == 2
    assert result.positions.pattern == ("causal" if reads["causal"] else "bidirectional")
    assert not result.samples.mixes


def test_positions_that_are_never_read_take_a_second_pass(passes):
    class Blind(Mixing):
        def forward(self, x):
            return super().forward(torch.cat([torch.zeros_like(x[:, :2]), x[:, 2:]], 1))

    result = measured(Blind(causal=True))
    assert len(passes) == 2
    assert [one.unread for one in result.unread] == [(0, 1)]


def test_a_model_that_fails_alone_is_measured_beside_others():
    class Squeezed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(WIDTH, 3)

        def forward(self, x):
            return self.layer(x).squeeze(0)

    result = measured(Squeezed())
    assert result.samples.company is not None
    assert not result.samples.mixes
