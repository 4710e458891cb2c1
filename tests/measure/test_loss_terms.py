"""The terms of a loss, and their gradients at the parameters that they share."""

import pytest
import torch
from torch import nn

from bathyscope.measure.loss_form import loss_terms, term_edges


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 2), nn.Linear(2, 6)

    def forward(self, x):
        code = self.encoder(x)
        return self.decoder(code), code


def test_the_norms_are_those_of_each_term_alone():
    torch.manual_seed(0)
    model, x = Coder().double(), torch.randn(8, 6, dtype=torch.float64)

    def fit(output, x):
        return (output[0] - x).square().mean()

    def penalty(output, _):
        return 3 * output[1].square().sum()

    result = loss_terms(model, (x, x), loss=lambda o, t: fit(o, t) + penalty(o, t))
    shared = list(model.encoder.parameters())
    alone = [
        torch.cat([g.flatten() for g in torch.autograd.grad(term(model(x), x), shared)]).norm()
        for term in (fit, penalty)
    ]
    assert result.norms == pytest.approx([float(n) for n in alone])
    assert result.fits == (True, False)
    assert result.outweighs == pytest.approx(float(alone[1] / alone[0]))


def test_signs_and_scalars_are_kept():
    w = torch.ones(3, requires_grad=True)
    value = (w.sum() - 2 * w.square().sum()).reshape(())
    edges = term_edges(value)
    assert [factor for _, factor in edges] == [1.0, -1.0]


def test_a_loss_of_one_term_has_nothing_to_weigh():
    result = loss_terms(
        nn.Linear(3, 2), (torch.randn(4, 3), torch.randn(4, 2)), loss=nn.functional.mse_loss
    )
    assert result.number == 1
    assert result.outweighs is None
