"""All of it together: what is left as it was, and what is said of models that cannot be measured."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.measure.dependence import (
    dependence,
    detached_parameters,
    parameter_lists,
    position_map,
    sample_dependence,
)
from tests.measure.dependence.architectures import LENGTH, WIDTH, Attention, Embedded
from tests.rules.dependent_networks import Lambda, padded, tokens
from tests.support.model_state import assert_same, state_of


class Modal(nn.Module):
    """Batch norm, dropout, a counter, a frozen layer and an embedding that rescales itself."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(13, 8, max_norm=1.0)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.5)
        self.frozen, self.head = nn.Linear(8, 8).requires_grad_(False), nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        states = self.norm(self.embed(x).mT).mT
        return self.head(self.drop(self.frozen(states)))


MEASUREMENTS = {
    "dependence": lambda m, b: dependence(m, b, loss=F.cross_entropy),
    "sample_dependence": sample_dependence,
    "position_map": position_map,
    "parameter_lists": parameter_lists,
    "detached_parameters": lambda m, b: detached_parameters(m, b, unreached=["head.weight"]),
}


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_the_model_is_left_as_it_was(name):
    torch.manual_seed(0)
    model = Modal()
    model.norm.eval()
    model.head.weight.grad = torch.ones_like(model.head.weight)
    batch = tokens(8, 6), torch.zeros(8, 4, dtype=torch.long)
    given = batch[0].clone()
    before = state_of(model)
    MEASUREMENTS[name](model, batch)
    assert_same(before, state_of(model))
    assert torch.equal(batch[0], given)


class NoBackward(torch.autograd.Function):
    """A kernel that has no derivative."""

    @staticmethod
    def forward(ctx, x):
        return x.cumsum(1)

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("not implemented")


def test_a_kernel_without_a_derivative_is_measured_by_changing_tokens():
    model = Lambda(
        lambda m, x: m.head(NoBackward.apply(m.embed(x))),
        embed=nn.Embedding(13, 8),
        head=nn.Linear(8, 3),
    )
    result = dependence(model, (tokens(8, 10), None))
    assert any("no gradient" in why for why in result.not_checked)
    assert result.positions.pattern == "causal"
    assert not result.samples.mixes


def test_whole_numbers_without_an_embedding_are_changed():
    model = Lambda(
        lambda m, x: m.rnn(F.one_hot(x, 13).float())[0],
        rnn=nn.GRU(13, 6, batch_first=True, bidirectional=True),
    )
    result = dependence(model, (tokens(8, 10), None))
    assert result.positions.pattern == "bidirectional"
    assert any("changing" in why for why in result.not_checked)


def test_samples_that_mix_without_a_gradient_are_seen_by_value():
    model = Lambda(
        lambda m, x: m.head(x - x.detach().mean(0, keepdim=True).round(decimals=3)),
        head=nn.Linear(4, 3),
    )
    result = sample_dependence(model, (torch.randn(16, 4), None))
    assert result.gradient == 0
    assert result.mixes


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        (lambda m, x: "words", "no floating tensor"),
        (lambda m, x: {"scores": x.long()}, "no floating tensor"),
        (lambda m, x: m.head(x).mean(0), "no axis"),
        (lambda m, x: m.head(x) @ m.head(x).T, "every other"),
        (lambda m, x: m.missing(x), "cannot take"),
    ],
)
def test_what_cannot_be_measured_is_said(forward, said):
    model = Lambda(forward, head=nn.Linear(4, 7))
    result = dependence(model, (torch.randn(16, 4), None))
    assert any(said in why for why in result.not_checked)
    assert result.samples is None


def test_outputs_in_mappings_and_tuples_are_found():
    for wrap in (lambda y: {"logits": y}, lambda y: (torch.tensor(0.5), y), lambda y: [y]):
        model = Lambda(lambda m, x, wrap=wrap: wrap(m.head(x)), head=nn.Linear(4, 7))
        assert dependence(model, (torch.randn(16, 4), None)).samples.mixes is False


def test_a_model_for_one_size_of_batch_is_run_on_all_of_it():
    model = Lambda(lambda m, x: m.head(x.view(8, 4)), head=nn.Linear(4, 7))
    result = dependence(model, (torch.randn(8, 4), None))
    assert result.samples.samples == 8
    assert not result.samples.mixes


def test_a_batch_of_one_says_nothing_of_samples():
    result = dependence(nn.Linear(4, 7), (torch.randn(1, 4), None))
    assert result.samples.gradient is None
    assert not result.samples.mixes


def test_inputs_of_several_lengths_are_measured():
    model = Lambda(
        lambda m, x, y: m.head(torch.cat([m.rnn(x)[0][:, -1], m.rnn(y)[0][:, -1]], 1)),
        rnn=nn.GRU(6, 8, batch_first=True),
        head=nn.Linear(16, 7),
    )
    result = dependence(model, ((torch.randn(8, 5, 6), torch.randn(8, 9, 6)), None))
    assert [one.positions for one in result.unread] == [5, 9]
    assert not result.samples.mixes


def test_half_precision_is_measured():
    model = Embedded(Attention(causal=True)).bfloat16()
    result = dependence(model, (tokens(8, LENGTH) % 11, None))
    assert result.positions.pattern == "causal"
    assert not result.samples.mixes


@pytest.mark.parametrize("transposed", [False, True])
def test_tokens_that_the_model_turns_around_are_followed(transposed):
    """The embedding looks up (time, samples), or one long row."""

    def forward(m, x):
        if transposed:
            return m.rnn(m.embed(x.T))[0].transpose(0, 1)
        return m.rnn(m.embed(x.flatten()).unflatten(0, x.shape).transpose(0, 1))[0].transpose(0, 1)

    model = Lambda(forward, embed=nn.Embedding(13, 8), rnn=nn.GRU(8, 8))
    result = dependence(model, (tokens(8, 10), None))
    assert result.positions.pattern == "causal"
    assert not result.samples.mixes
    assert not result.not_checked


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_told_apart_from_tokens(side):
    x, _, _ = padded()
    x = x.flip(1) if side == "left" else x
    model = Lambda(
        lambda m, t: m.head(m.embed(t).mean(1)),
        embed=nn.Embedding(13, WIDTH),
        head=nn.Linear(WIDTH, 7),
    )
    result = dependence(model, (x, None)).padding
    assert result.side == side
    assert result.is_read
    assert result.fraction == pytest.approx(float((x == 0).float().mean()))
    model = Lambda(
        lambda m, t: m.head((m.embed(t) * (t != 0)[..., None]).sum(1)),
        embed=nn.Embedding(13, WIDTH),
        head=nn.Linear(WIDTH, 7),
    )
    assert not dependence(model, (x, None)).padding.is_read
