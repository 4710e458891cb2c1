import pytest
import torch
import torch.nn.functional as F

from bathyscope import data, diagnose, nets
from bathyscope.core.losses import token_cross_entropy
from bathyscope.measure.loss_form import (
    LossForm,
    constant_baseline,
    loss_form,
    perfect_output,
    trial_of,
)


@pytest.mark.parametrize("size", [1.0, 30.0, 1e4, 1e8])
@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.huber_loss])
def test_a_distance_is_one_whatever_the_size_of_its_targets(loss, size):
    torch.manual_seed(0)
    output = torch.randn(64, 2)
    targets = size * (torch.randn(64, 2) + 0.05)
    result = loss_form(trial_of(loss, output, targets), output, frozenset())
    assert (result.asks, result.takes) == ("distance", "values")


def test_cross_entropy_on_labels_and_on_shares_asks_for_one_class():
    torch.manual_seed(0)
    output = torch.randn(64, 5)
    for targets in (torch.arange(64) % 5, torch.rand(64, 5).softmax(1)):
        result = loss_form(trial_of(F.cross_entropy, output, targets), output, frozenset())
        assert (result.asks, result.takes) == ("one class", "logits")


@pytest.mark.parametrize(("tokens", "classes"), [(12, 11), (5, 9)])
def test_a_label_a_token_with_the_classes_last(tokens, classes):
    """Shapes that a loss would also take with tokens for classes; the first labels count nowhere."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (6, tokens), generator=generator)
    labels[:, :3] = -100
    logits = torch.randn(6, tokens, classes, generator=generator)
    trial = trial_of(token_cross_entropy, logits, labels)
    form = loss_form(trial, logits, frozenset())
    assert (trial.num_classes, form) == (classes, LossForm("one class", "logits"))
    perfect = perfect_output(trial, form)
    assert perfect.shape == logits.shape
    assert trial.value(perfect) < 1e-6 < trial.value(-perfect)
    known = labels[labels >= 0]
    fractions = torch.bincount(known, minlength=classes) / len(known)
    entropy = -(fractions * fractions.clamp_min(1e-30).log()).sum()
    assert constant_baseline(trial, form) == pytest.approx(float(entropy), abs=1e-3)


def test_the_sequences_are_not_told_of_a_negated_loss():
    result = data.sequences("copy", context=12, num_train=16, num_test=1)
    model = nets.build("gpt-2", vocabulary=11, context=12, width=8, seed=0)
    reported = diagnose(model, result.batch(8), loss=token_cross_entropy).findings
    assert "negated-loss" not in [f.code for f in reported]
