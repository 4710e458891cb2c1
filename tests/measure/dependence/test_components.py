"""Norms, tables, caches, fresh heads and the end of texts, each beside what it should be."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from bathyscope import diagnose
from bathyscope.measure.dependence.components import constant_outputs, norm_use, partly_frozen
from bathyscope.measure.dependence.dependence import dependence
from bathyscope.measure.dependence.input_roles import padding_in_text
from bathyscope.measure.dependence.without_pass import fresh_weights
from tests.diagnosis.components import networks


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm, networks.RootMeanSquareNorm])
@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_gain_offset_and_epsilon_of_a_norm_by_hand(norm, eps):
    torch.manual_seed(0)
    layer = norm(6, eps=eps).double()
    gain, offset = torch.rand(6) + 1, torch.randn(6)
    with torch.no_grad():
        layer.weight.copy_(gain)
        if norm is nn.LayerNorm:
            layer.bias.copy_(offset)
    x = torch.randn(4, 30, 6, dtype=torch.float64)
    result = norm_use("it", layer, x, layer(x).detach())
    center = x.mean(-1, keepdim=True) if norm is nn.LayerNorm else 0
    variance = (x - center).square().mean(-1)
    assert result.gain == pytest.approx(float(gain.square().mean().sqrt()), rel=1e-6)
    wanted = float(offset.square().mean().sqrt()) if norm is nn.LayerNorm else 0.0
    assert result.offset == pytest.approx(wanted, abs=1e-6)
    assert result.epsilon_fraction == pytest.approx(float((eps / (variance + eps)).median()))


def test_what_is_no_norm_over_features_is_left_out():
    x = torch.randn(4, 10, 6)
    assert norm_use("it", nn.Identity(), x, x.softmax(1)) is None


def components(model, family):
    return dependence(model, networks.batch_of(family)).components


def test_rows_of_tables_are_counted_over_the_whole_batch():
    model = networks.build("gpt")
    with torch.no_grad():
        model.token.weight[3:6] = 0
        model.token.weight[10] = model.token.weight[11]
    tokens, _ = networks.batch_of("gpt")
    table = next(t for t in components(model, "gpt").tables if t.name == "token")
    assert table.rows == len(tokens.unique())
    assert table.zero_rows == len({3, 4, 5} & set(tokens.unique().tolist()))
    assert table.equal_rows == 1
    assert table.zero_columns == 0


def test_frozen_blocks_and_adapters_are_no_partly_frozen_ones():
    model = networks.build("bert")
    assert partly_frozen(model) == ()
    model.blocks[0].requires_grad_(False)
    assert partly_frozen(model) == ()
    model.blocks[1].attention.query.weight.requires_grad_(False)
    assert partly_frozen(model) == ("blocks.1.attention.query.weight",)
    model.blocks[1].requires_grad_(False)
    model.blocks[1].attention.query.weight.requires_grad_(True)  # as a small adapter beside
    assert partly_frozen(model) == ()


def test_a_cached_pass_is_the_whole_one():
    model = networks.build("gpt")
    assert dependence(model, networks.batch_of("gpt")).cache < 1e-5
    assert dependence(networks.build("vit"), networks.batch_of("vit")).cache is None


def train_like_(model):
    """Heavy tails in every matrix, as training leaves them."""
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.copy_(
                0.02 * parameter.data.sign() * torch.randn_like(parameter).abs() ** 3
            )
    return model


@pytest.mark.parametrize(("family", "severity"), [("gpt", "warning"), ("vit", "note")])
def test_a_head_that_was_drawn_again_behind_trained_layers(family, severity):
    model = networks.build(family)
    if family == "vit":
        model.head = nn.Linear(networks.WIDTH, 10)  # 320 weights are enough to judge
    model.head.reset_parameters()
    assert fresh_weights(model).head is None  # all of it is fresh
    train_like_(model)
    assert fresh_weights(model).head is None  # all of it is trained
    model.head.reset_parameters()
    result = diagnose(model, networks.batch_of(family), loss=networks.loss)
    reported = [(f.severity, f.blocks) for f in result.findings if f.code == "fresh-head"]
    assert reported == [(severity, ("head",))]


class Masked(networks.Gpt):
    """Takes a mask of padding, and has a configuration."""

    def forward(self, input_ids, attention_mask):
        return super().forward(input_ids)


@pytest.mark.parametrize("masked_by", ["mask", "token"])
def test_an_end_that_is_padding_is_never_asked_for(masked_by):
    end, length = 0, networks.LENGTH
    model = networks.draw_(Masked())
    model.config = SimpleNamespace(pad_token_id=end, eos_token_id=end)
    tokens, _ = networks.batch_of("gpt")
    lengths = torch.tensor([16, 12, 9, 14, 8, 16, 11, 10])[:, None]
    steps = torch.arange(length)[None]
    tokens = tokens.masked_fill(steps >= lengths - 1, end)
    mask = (steps < lengths).long()
    hidden = mask == 0 if masked_by == "mask" else tokens == end
    labels = tokens.masked_fill(hidden, -100).roll(-1, 1)
    labels[:, -1] = -100
    batch = {"input_ids": tokens, "attention_mask": mask}, labels
    result = diagnose(model, batch, loss=networks.loss)
    reported = [f.severity for f in result.findings if f.code == "end-never-asked"]
    assert reported == ([] if masked_by == "mask" else ["problem"])


def test_outputs_that_differ_by_rounding_alone_are_not_told_apart():
    rounding = torch.tensor([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]])
    rounding[1, 0] += 1e-8
    assert rounding[0, 0] != rounding[1, 0]
    assert constant_outputs(rounding) == 0
    assert constant_outputs(torch.tensor([[0.1, 0.2], [0.1, 0.9]])) == 0.5
    assert constant_outputs(torch.tensor([[1, 2], [1, 3]])) == 0


def test_a_sequence_of_padding_alone_makes_it_no_word():
    torch.manual_seed(0)
    tokens = torch.randint(1, 9, (5, 10))
    tokens[:4, 7:] = tokens[4] = 0
    assert padding_in_text(tokens, 0) == 0.0
    tokens[:4, 1:7:3] = 0
    assert padding_in_text(tokens, 0) == 0.4
