import pytest
import torch
import torch.nn.functional as F

from bathyscope.measure.loss_form import loss_form, trial_of


@pytest.mark.parametrize("size", [1.0, 30.0, 1e4, 1e8])
@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.huber_loss])
def test_a_distance_is_one_whatever_the_size_of_its_targets(loss, size):
    torch.manual_seed(0)
    output = torch.randn(64, 2)
    targets = size * (torch.randn(64, 2) + 0.05)
    found = loss_form(trial_of(loss, output, targets), output, frozenset())
    assert (found.asks, found.takes) == ("distance", "values")


def test_cross_entropy_on_labels_and_on_shares_asks_for_one_class():
    torch.manual_seed(0)
    output = torch.randn(64, 5)
    for targets in (torch.arange(64) % 5, torch.rand(64, 5).softmax(1)):
        found = loss_form(trial_of(F.cross_entropy, output, targets), output, frozenset())
        assert (found.asks, found.takes) == ("one class", "logits")
