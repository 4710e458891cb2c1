"""What losses ask for, read off their gradients, on losses whose targets are known."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.measure.effective_targets import (
    asked_classes,
    effective_targets,
    targets_of_loss,
)

CLASSES = 5
LABELS = torch.tensor([0, 3, 1, 4, 2, 2, 0, 1, 3, 4, 0, 0])
N = len(LABELS)


def read(output, targets, loss, inputs=None):
    """The loss of an output that is a leaf, read backwards."""
    value = loss(output, targets)
    return targets_of_loss(output, value, (inputs, targets), loss=loss)


def free(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).requires_grad_() * 1.0


def focal(output, targets):
    log_p = F.log_softmax(output, 1).gather(1, targets[:, None])
    return (-((1 - log_p.exp()) ** 2) * log_p).mean()


def distributions():
    sharp = F.one_hot(LABELS, CLASSES) * 4.0
    return sharp.softmax(1)


def reverse_kl(output, targets):
    log_q = F.log_softmax(output, 1)
    return (log_q.exp() * (log_q - targets.log())).sum(1).mean()


def scaled_labels(output, targets):
    """A custom one: exponential loss of the margin to every other class."""
    own = output.gather(1, targets[:, None])
    return (output - own).exp().sum(1).log().mean()


CLASS_LOSSES = {
    "cross-entropy": F.cross_entropy,
    "weighted": functools.partial(F.cross_entropy, weight=torch.tensor([1.0, 5.0, 0.2, 3.0, 1.0])),
    "smoothed": functools.partial(F.cross_entropy, label_smoothing=0.1),
    "summed": functools.partial(F.cross_entropy, reduction="sum"),
    "focal": focal,
    "margin": functools.partial(F.multi_margin_loss, margin=5.0),
    "custom": scaled_labels,
    "negative log-likelihood": lambda y, t: F.nll_loss(F.log_softmax(y, 1), t),
    "squared error of probabilities": lambda y, t: F.mse_loss(
        y.softmax(1), F.one_hot(t, CLASSES).float()
    ),
}


@pytest.mark.parametrize("name", CLASS_LOSSES)
def test_a_loss_on_labels_asks_for_them(name):
    result = read(free(N, CLASSES), LABELS, CLASS_LOSSES[name])
    assert torch.equal(result.asked, LABELS)
    assert result.num_classes == CLASSES
    assert result.silent == 0
    assert result.ignored == ()


DISTRIBUTION_LOSSES = {
    "cross-entropy with probabilities": F.cross_entropy,
    "divergence from the targets": lambda y, t: F.kl_div(
        F.log_softmax(y, 1), t, reduction="batchmean"
    ),
    "divergence to the targets": reverse_kl,
}


@pytest.mark.parametrize("name", DISTRIBUTION_LOSSES)
def test_a_loss_on_distributions_asks_for_their_largest_class(name):
    flat = torch.zeros(N, CLASSES, requires_grad=True) * 1.0
    result = read(flat, distributions(), DISTRIBUTION_LOSSES[name])
    assert torch.equal(result.asked, LABELS)


def test_an_ignored_class_is_never_asked_for():
    loss = functools.partial(F.cross_entropy, ignore_index=0)
    result = read(free(N, CLASSES), LABELS, loss)
    assert (result.asked[LABELS == 0] == -1).all()
    assert torch.equal(result.asked[LABELS != 0], LABELS[LABELS != 0])
    assert result.ignored == (0,)
    assert result.ignored_fraction == pytest.approx(4 / 12)


def test_padding_that_is_ignored_is_no_class():
    labels = torch.tensor([[1, 2, 3, 0, 0], [4, 1, 0, 0, 0], [2, 2, 3, 1, 0]])
    loss = functools.partial(F.cross_entropy, ignore_index=0)
    result = read(free(3, CLASSES, 5), labels, loss)
    assert result.ignored == ()
    assert result.silent == pytest.approx(6 / 15)
    inside = torch.tensor([[1, 0, 3, 0, 0], [4, 1, 0, 0, 0], [2, 2, 3, 1, 0]])
    assert read(free(3, CLASSES, 5), inside, loss).ignored == (0,)


def test_labels_of_minus_a_hundred_are_asked_for_nothing():
    labels = torch.where(LABELS == 2, -100, LABELS)
    result = read(free(N, CLASSES), labels, F.cross_entropy)
    assert (result.asked[labels == -100] == -1).all()
    assert result.ignored == ()


NUMBER_LOSSES = {
    "squared error": F.mse_loss,
    "squared error, summed": functools.partial(F.mse_loss, reduction="sum"),
    "Huber, near": functools.partial(F.huber_loss, delta=100.0),
    "half of it, custom": lambda y, t: 0.5 * (y - t).square().mean(),
}


@pytest.mark.parametrize("name", NUMBER_LOSSES)
def test_a_loss_on_numbers_asks_for_the_targets(name):
    targets = torch.randn(N, 1, generator=torch.Generator().manual_seed(1))
    result = read(free(N, 1), targets, NUMBER_LOSSES[name])
    assert torch.allclose(result.values, targets, atol=1e-3)
    assert result.values_spread == pytest.approx(1.0, abs=1e-2)


def test_a_broadcast_loss_asks_everyone_for_the_mean():
    targets = torch.randn(N, generator=torch.Generator().manual_seed(1))
    result = read(free(N, 1), targets, F.mse_loss)
    assert torch.allclose(result.values, targets.mean().expand(N, 1), atol=1e-3)
    assert result.values_spread < 1e-2


def test_an_absolute_error_has_no_curvature_to_read():
    assert read(free(N, 1), torch.randn(N, 1), F.l1_loss).values is None


@pytest.mark.parametrize("with_logits", [True, False])
def test_a_binary_loss_pushes_towards_its_labels(with_logits):
    labels = (LABELS > 1).float()
    y = free(N)
    output = y if with_logits else y.sigmoid()
    loss = F.binary_cross_entropy_with_logits if with_logits else F.binary_cross_entropy
    (gradient,) = torch.autograd.grad(loss(output, labels), [output])
    assert ((gradient < 0) == labels.bool()).all()
    result = read(output, labels, loss)
    assert result.asked is None
    assert result.silent == 0


def test_ctc_asks_for_the_labels_in_their_order():
    labels = torch.tensor([[1, 2, 3], [3, 1, 2]])
    lengths = torch.tensor([3, 3])

    def loss(output, targets):
        steps = torch.full((2,), output.shape[0])
        return F.ctc_loss(output.log_softmax(-1), targets, steps, lengths)

    output = torch.zeros(3, 2, 4, requires_grad=True) * 1.0  # as many steps as labels: one way
    value = loss(output, labels)
    result = targets_of_loss(output, value, (None, labels), loss=loss)
    assert torch.equal(asked_classes(torch.autograd.grad(value, [output])[0], -1).T, labels)
    assert torch.equal(result.asked.T, labels)


def contrastive(temperature):
    def loss(output, targets):
        first, second = output.chunk(2)
        scores = first @ second.T / temperature
        return F.cross_entropy(scores, torch.arange(len(first)))

    return loss


@pytest.mark.parametrize(("temperature", "lower"), [(0.1, 0.0), (1.0, 0.6)])
def test_unit_vectors_without_temperature_meet_a_floor(temperature, lower):
    y = F.normalize(free(64, 32), dim=1)
    result = read(y, None, contrastive(temperature)).floor
    assert result.unit_rows
    assert result.reachable >= lower * result.collapsed
    if temperature == 1.0:
        assert result.temperature == pytest.approx(1.0, rel=0.3)
    else:
        assert result.reachable < 0.1 * result.collapsed


def test_a_loss_that_normalizes_by_itself_is_bounded_too():
    def loss(output, targets):
        return contrastive(1.0)(F.normalize(output, dim=1), targets)

    result = read(free(64, 32), None, loss).floor
    assert result.unit_rows
    assert result.reachable > 0.6 * result.collapsed


def test_a_triplet_reaches_zero():
    def loss(output, targets):
        return F.triplet_margin_loss(*output.chunk(3), margin=0.5)

    result = read(F.normalize(free(30, 16), dim=1), None, loss).floor
    assert result.reachable == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize(
    ("given", "activation"),
    [
        ("log-probabilities", lambda y: y.log_softmax(1)),
        ("probabilities", lambda y: y.softmax(1)),
        ("logits", lambda y: y),
    ],
)
@pytest.mark.parametrize("loss", [F.nll_loss, F.kl_div])
def test_losses_on_logarithms_know_what_they_were_given(given, activation, loss):
    targets = LABELS if loss is F.nll_loss else distributions()
    result = read(activation(free(N, CLASSES)), targets, loss).floor
    assert result.is_linear
    assert result.given == given


@pytest.mark.parametrize("axis", [1, 2])
def test_a_loss_on_tokens_knows_what_it_was_given_wherever_the_classes_stand(axis):
    labels = torch.randint(17, (4, 20), generator=torch.Generator().manual_seed(0))

    def loss(output, targets):
        return F.nll_loss(output.movedim(axis, -1).flatten(0, 1), targets.flatten())

    result = read(free(4, 20, 17).softmax(-1).movedim(-1, axis), labels, loss).floor
    assert result.is_linear
    assert result.given == "probabilities"


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_the_offset_of_a_language_model(shift):
    tokens = torch.randint(17, (4, 20), generator=torch.Generator().manual_seed(0))

    def loss(output, targets):
        length = tokens.shape[1]
        return F.cross_entropy(
            output[:, : length - shift].reshape(-1, 17), targets[:, shift:].reshape(-1)
        )

    result = read(free(4, 20, 17), tokens, loss, inputs=tokens)
    assert result.offset == shift
    assert result.offset_fraction == 1


def test_masked_tokens_are_no_offset():
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, 17, (4, 20), generator=generator)
    hidden = torch.rand(4, 20, generator=generator) < 0.3
    labels = torch.where(hidden, tokens, -100)
    given = torch.where(hidden, 0, tokens)
    result = read(free(4, 17, 20), labels, F.cross_entropy, inputs=given)
    assert result.offset is None
    assert torch.equal(result.asked[hidden], tokens[hidden])


@pytest.mark.parametrize(("power", "slope"), [(1.0, 1.0), (-1.0, -1.0)])
def test_class_weights_are_set_against_frequencies(power, slope):
    labels = torch.repeat_interleave(torch.arange(4), torch.tensor([40, 20, 10, 5]))
    frequency = torch.bincount(labels).float()
    loss = functools.partial(F.cross_entropy, weight=frequency**power)
    result = read(free(len(labels), 4), labels, loss).weights
    assert result.slope == pytest.approx(slope, abs=1e-3)
    assert result.counts == (40, 20, 10, 5)


def test_equal_weights_have_no_slope():
    result = read(free(N, CLASSES), LABELS, F.cross_entropy).weights
    assert result.slope is None or abs(result.slope) < 1e-3


def test_a_weighted_binary_loss_is_read():
    labels = torch.tensor([1.0] * 3 + [0.0] * 21)
    loss = functools.partial(F.binary_cross_entropy_with_logits, pos_weight=torch.tensor(0.1))
    result = read(free(24), labels, loss).weights
    assert result.counts == (21, 3)
    assert result.weights[1] / result.weights[0] == pytest.approx(0.1, rel=1e-3)


def test_a_model_that_computes_its_own_loss_is_read_at_its_logits():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(13, 13)

        def forward(self, input_ids, labels):
            logits = self.table(input_ids)
            shifted = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
            return {"loss": shifted, "logits": logits}

    tokens = torch.randint(13, (3, 12), generator=torch.Generator().manual_seed(0))
    model = Own()
    before = {n: p.clone() for n, p in model.named_parameters()}
    result = effective_targets(
        model, ({"input_ids": tokens, "labels": tokens}, None), loss=lambda o, _: o["loss"]
    )
    assert result.offset == 1
    assert all(torch.equal(p, before[n]) and p.grad is None for n, p in model.named_parameters())


def test_a_loss_beside_the_output_is_said():
    y, other = free(3, 2), free(3, 2, seed=1)
    result = targets_of_loss(y, other.sum(), (None, None), loss=lambda o, t: other.sum())
    assert result.asked is None
    assert "loss" in result.not_checked[0]
