"""The map of positions against explicit Jacobians."""

import pytest
import torch
from torch import nn

from bathyscope.measure.dependence import dependence, position_map
from bathyscope.measure.dependence.eval_pass import eval_pass
from bathyscope.measure.dependence.position_map import default_rows, is_unsure, map_of_pass
from bathyscope.measure.dependence.sample_mixing import random_weights
from tests.measure.dependence.architectures import (
    ARCHITECTURES,
    LENGTH,
    WIDTH,
    Attention,
    ChannelsFirst,
    Embedded,
    Masked,
)

ALL_ROWS = tuple(range(LENGTH))


def explicit(function, x, rows, samples):
    """Rows of the map from the whole Jacobian of each sample, with the weights that the map uses."""
    weights = random_weights(function(x))
    result = []
    for row, sample in zip(rows, samples, strict=True):
        jacobian = torch.autograd.functional.jacobian(
            lambda one, sample=sample: function(torch.cat([x[:sample], one, x[sample + 1 :]]))[
                sample
            ],
            x[sample : sample + 1],
        )[:, :, 0]
        at_row = torch.einsum("c,cpd->pd", weights[sample, row], jacobian[row])
        result.append(at_row.norm(dim=-1))
    return torch.stack(result)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_map_equals_the_explicit_jacobian(name):
    torch.manual_seed(0)
    build, pattern = ARCHITECTURES[name]
    model = build().double()
    x = torch.randn(3, LENGTH, WIDTH, dtype=torch.float64)
    result = position_map(model, (x, None), rows=ALL_ROWS)
    expected = explicit(model.eval(), x, result.rows, result.samples)
    assert torch.allclose(result.strength, expected, rtol=1e-10, atol=1e-10)
    assert (result.reads == (expected > 0)).all()
    assert result.pattern == pattern
    assert position_map(model, (x, None)).pattern == pattern


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", ["causal attention", "lstm", "convolution"])
def test_tokens_are_read_through_their_embeddings(name, frozen):
    torch.manual_seed(0)
    build, pattern = ARCHITECTURES[name]
    model = Embedded(build(), frozen=frozen).double()
    tokens = torch.randint(11, (3, LENGTH))
    result = position_map(model, (tokens, None), rows=ALL_ROWS)
    x = model.embedding(tokens).detach()
    expected = explicit(model.body.eval(), x, result.rows, result.samples)
    assert torch.allclose(result.strength, expected, rtol=1e-10, atol=1e-10)
    assert result.pattern == pattern


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padding_mask_hides_what_it_masks(side):
    torch.manual_seed(0)
    model = Masked().double()
    x = torch.randn(3, LENGTH, WIDTH, dtype=torch.float64)
    mask = torch.ones(3, LENGTH)
    mask[:, slice(0, 3) if side == "left" else slice(7, None)] = 0
    result = position_map(model, ({"x": x, "attention_mask": mask}, None), rows=ALL_ROWS)
    expected = explicit(lambda z: model.eval()(z, mask), x, result.rows, result.samples)
    assert torch.allclose(result.strength, expected, rtol=1e-10, atol=1e-10)
    real = mask[0].bool()
    assert not result.reads[real][:, ~real].any()


def test_documents_in_a_packed_batch_are_read_apart():
    torch.manual_seed(0)
    model = Masked(causal=True).double()
    x = torch.randn(3, LENGTH, WIDTH, dtype=torch.float64)
    documents = (torch.arange(LENGTH) >= 4).long().expand(3, -1)
    given = {"x": x, "document_ids": documents}
    result = position_map(model, (given, None), rows=ALL_ROWS)
    expected = explicit(
        lambda z: model.eval()(z, document_ids=documents), x, result.rows, result.samples
    )
    assert torch.allclose(result.strength, expected, rtol=1e-10, atol=1e-10)
    assert not result.reads[4:, :4].any()


def test_the_receptive_field_of_convolutions_over_images_is_exact():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.Conv2d(3, 2, 3, padding=1))
    images = torch.randn(4, 2, 7, 7, dtype=torch.float64)
    center = 3 * 7 + 3
    result = position_map(model.double(), (images, None), rows=(center, 0))
    field = result.reads[0].reshape(7, 7)
    assert field[1:6, 1:6].all()
    assert field.sum() == 25
    assert result.reads[1].reshape(7, 7).nonzero().max() == 2


def test_a_map_of_a_model_without_common_positions_says_why():
    result = position_map(nn.Linear(3, 2), (torch.randn(4, 3), None))
    assert not result.rows
    assert "positions" in result.not_checked[0]
    assert result.pattern is None


def test_default_rows_are_inside_short_sequences():
    assert default_rows(1, 4) == (0,)
    assert default_rows(2, 4) == (0, 1)


class SoftMask(Attention):
    """Later positions weigh e⁻¹⁷: near the threshold, and read nevertheless."""

    def attend(self, x, seen):
        later = torch.ones(x.shape[1], x.shape[1]).triu(1).to(x.dtype) * -17.0
        q, k, v = (
            layer(x).unflatten(-1, (2, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=later)
        return self.out(x + mixed.transpose(1, 2).flatten(2))


def test_float64_decides_near_the_threshold():
    torch.manual_seed(0)
    model = SoftMask()
    x = torch.randn(4, LENGTH, WIDTH)
    before = {name: p.clone() for name, p in model.named_parameters()}
    ran = eval_pass(model, x)
    assert is_unsure(map_of_pass(ran))
    result = dependence(model, (x, None)).positions
    assert result.is_exact
    assert all(
        torch.equal(p, before[n]) and p.dtype == torch.float32 for n, p in model.named_parameters()
    )


def test_a_band_is_as_wide_as_the_kernel():
    result = position_map(
        ChannelsFirst(nn.Conv1d(WIDTH, 4, 5, padding=2)), (torch.randn(4, LENGTH, WIDTH), None)
    )
    assert (result.back, result.ahead) == (2, 2)
