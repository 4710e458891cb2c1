"""The constant baseline of labels in closed form, against a fit of it and against counting."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from bathyscope.foresight.baseline import label_baseline
from bathyscope.measure.loss_form import fit_constant_baseline


def entropy(labels, classes):
    fractions = torch.bincount(labels, minlength=classes).double() / len(labels)
    return float(-(fractions * fractions.clamp_min(1e-300).log()).sum())


@pytest.mark.parametrize("seed", range(3))
def test_of_one_label_a_sample_it_is_the_entropy_and_what_a_fit_finds(seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (200,), generator=generator)
    output = torch.randn(200, 5, generator=generator)  # the fifth class never occurs
    value = label_baseline(output, labels, loss=F.cross_entropy)
    assert value == pytest.approx(entropy(labels, 5), rel=1e-5)
    assert value == pytest.approx(fit_constant_baseline(output, labels, F.cross_entropy), rel=1e-3)


def test_every_place_has_its_own_constant_and_unknown_labels_are_left_out():
    labels = torch.tensor([[0, 1], [0, 2], [1, 1], [1, -100]])
    value = label_baseline(torch.randn(4, 3, 2), labels, loss=F.cross_entropy)
    first, second = 4 * math.log(2), 3 * entropy(torch.tensor([1, 2, 1]), 3)
    assert value == pytest.approx((first + second) / 7, rel=1e-5)


@pytest.mark.parametrize(
    "loss",
    [
        partial(F.cross_entropy, label_smoothing=0.2),
        partial(F.cross_entropy, weight=torch.tensor([1.0, 9.0, 1.0])),
        lambda output, targets: -F.cross_entropy(output, targets),
    ],
    ids=["smoothed", "weighted", "negated"],
)
def test_a_loss_that_asks_for_another_constant_has_none_in_closed_form(loss):
    labels = torch.tensor([0, 0, 1, 2, 2, 2])
    assert label_baseline(torch.randn(6, 3), labels, loss=loss) is None


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_scale_of_a_loss_does_not_decide(scale):
    labels, weight = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([1.0, 9.0, 1.0])

    def scaled(output, targets, **settings):
        return scale * F.cross_entropy(output, targets, **settings)

    summed = label_baseline(torch.randn(6, 3), labels, loss=partial(scaled, reduction="sum"))
    assert summed == pytest.approx(6 * scale * entropy(labels, 3), rel=1e-5)
    assert label_baseline(torch.randn(6, 3), labels, loss=partial(scaled, weight=weight)) is None


def test_where_a_convex_loss_has_no_slope_it_has_its_smallest_value():
    output, labels = torch.randn(6, 3), torch.tensor([0, 0, 1, 2, 2, 2])
    value = label_baseline(output, labels, loss=F.multi_margin_loss)
    assert value == pytest.approx(fit_constant_baseline(output, labels, F.multi_margin_loss))


def test_one_class_alone_leaves_nothing_to_predict():
    labels = torch.zeros(6, dtype=torch.long)
    value = label_baseline(torch.randn(6, 3), labels, loss=F.cross_entropy)
    assert value is None or value < 1e-6
    assert label_baseline(torch.randn(6, 3), torch.rand(6, 3), loss=F.mse_loss) is None
    assert label_baseline(torch.randn(0, 3), labels[:0], loss=F.cross_entropy) is None
