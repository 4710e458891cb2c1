"""Losses that are given probabilities for logits, or something else for log-probabilities."""

import pytest
import torch
import torch.nn.functional as F

from bathyscope.recorder.ledger import Ledger
from bathyscope.recorder.loop_findings import loop_findings
from tests.loops.tasks import mlp

CLASSES = torch.randint(3, (16,), generator=torch.Generator(device="cpu").manual_seed(0))
FRACTIONS = F.one_hot(CLASSES, 3).float()


@pytest.mark.parametrize(
    ("loss", "code"),
    [
        (lambda y: F.cross_entropy(y, CLASSES), None),
        (lambda y: F.cross_entropy(y.softmax(1), CLASSES), "output-misfit"),
        (lambda y: F.nll_loss(y.log_softmax(1), CLASSES), None),
        (lambda y: F.nll_loss(y.softmax(1), CLASSES), "missing-logarithm"),
        (lambda y: F.nll_loss(y, CLASSES), "missing-logarithm"),
        (lambda y: F.kl_div(y.log_softmax(1), FRACTIONS, reduction="batchmean"), None),
        (lambda y: F.kl_div(y.softmax(1), FRACTIONS, reduction="batchmean"), "missing-logarithm"),
        (lambda y: F.binary_cross_entropy_with_logits(y, FRACTIONS), None),
        (lambda y: F.binary_cross_entropy_with_logits(0.1 * y.tanh() + 0.5, FRACTIONS), None),
        (lambda y: F.binary_cross_entropy_with_logits(y.sigmoid(), FRACTIONS), "output-misfit"),
        (lambda y: F.binary_cross_entropy(y.sigmoid(), FRACTIONS), None),
    ],
)
def test_what_a_loss_is_given(loss, code):
    torch.manual_seed(0)
    model = mlp(6, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Ledger(copies_first_step=True) as ledger:
        for _ in range(5):
            optimizer.zero_grad()
            loss(model(torch.randn(16, 6))).backward()
            optimizer.step()
    assert [f.code for f in loop_findings(ledger.record)] == ([] if code is None else [code])
