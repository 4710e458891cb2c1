"""Attention measured against explicit attention matrices, in float64."""

import math
import operator
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import measure, nets
from bathyscope.core import UsageError
from bathyscope.measure.attention import attention, attention_heads
from bathyscope.measure.attention_calls import AttentionCall, AttentionCalls
from bathyscope.measure.attention_scores import head_statistics
from bathyscope.measure.positions import position_effect
from tests import zoo

ALL = {"samples": 99, "queries": 99}


def by_hand(scores, seen):
    """The statistics of explicit scores (n, h, t, k) and of what is seen, row by row."""
    n, h, t, _ = scores.shape
    result = {
        name: torch.zeros(h, dtype=torch.float64)
        for name in (
            *("entropy", "largest_logit", "logit_std", "uniform_rows"),
            *("one_hot_rows", "masked_rows", "rank"),
        )
    }
    for head in range(h):
        rows, several = [], []
        for sample in range(n):
            for query in range(t):
                kept = scores[sample, head, query][seen[sample, head, query]]
                result["masked_rows"][head] += (len(kept) == 0) / (n * t)
                if len(kept):
                    largest = float(kept.abs().max())
                    result["largest_logit"][head] = max(
                        float(result["largest_logit"][head]), largest
                    )
                if len(kept) >= 2:
                    p = kept.softmax(0)
                    several.append((p, kept))
        for p, kept in several:
            fraction = -float((p * p.clamp(min=1e-300).log()).sum()) / math.log(len(p))
            result["entropy"][head] += fraction / len(several)
            result["uniform_rows"][head] += (fraction >= 0.999) / len(several)
            result["one_hot_rows"][head] += (float(p.max()) >= 0.99) / len(several)
            result["logit_std"][head] += float(kept.std(correction=0)) / len(several)
        matrix = explicit_weights(scores, seen)[0, head]
        result["rank"][head] = torch.linalg.matrix_rank(matrix)
        rows.append(matrix)
    return result


def explicit_weights(scores, seen):
    return torch.where(seen, scores, -torch.inf).softmax(-1).nan_to_num(0.0)


def check(statistics, scores, seen):
    for name, expected in by_hand(scores.double(), seen.expand_as(scores)).items():
        actual = getattr(statistics, name)
        assert torch.allclose(actual.double(), expected, atol=1e-6, equal_nan=True), name


def random_heads(*, n=3, h=4, t=7, k=7, d=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        2 * torch.randn(n, h, length, d, generator=generator, dtype=torch.float64)
        for length in (t, k, k)
    )


MASKS = {
    "none": lambda n, h, t, k: None,
    "bool": lambda n, h, t, k: torch.rand(n, 1, t, k) > 0.3,
    "padded": lambda n, h, t, k: (torch.arange(k) < torch.arange(1, n + 1)[:, None])[:, None, None],
    "added": lambda n, h, t, k: torch.randn(t, k, dtype=torch.float64),
    "infinite": lambda n, h, t, k: torch.zeros(t, k, dtype=torch.float64).masked_fill(
        torch.rand(t, k) > 0.6, -math.inf
    ),
    "one row hidden": lambda n, h, t, k: (torch.arange(t) != 2)[:, None].expand(t, k),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("scale", [None, 0.7])
def test_fused_attention(mask, scale):
    torch.manual_seed(1)
    query, key, value = random_heads()
    given = MASKS[mask](3, 4, 7, 7)
    calls = []
    with AttentionCalls(calls.append):
        F.scaled_dot_product_attention(query, key, value, attn_mask=given, scale=scale)
    scores = query @ key.transpose(-1, -2) * (scale or 5**-0.5)
    seen = torch.ones_like(scores, dtype=torch.bool)
    if given is not None and given.dtype == torch.bool:
        seen = given.expand_as(scores)
    elif given is not None:
        seen = torch.isfinite(given).expand_as(scores)
        scores = scores + given.nan_to_num(neginf=0.0)
    check(head_statistics(calls[0], **ALL), scores, seen)


def test_causal_attention():
    query, key, value = random_heads()
    calls = []
    with AttentionCalls(calls.append):
        F.scaled_dot_product_attention(query, key, value, is_causal=True)
    seen = torch.ones(7, 7, dtype=torch.bool).tril()
    check(head_statistics(calls[0], **ALL), query @ key.mT * 5**-0.5, seen)


def test_grouped_queries():
    query, key, value = random_heads()
    calls = []
    with AttentionCalls(calls.append):
        F.scaled_dot_product_attention(query, key[:, :2], value[:, :2], enable_gqa=True)
    wide = key[:, [0, 0, 1, 1]]
    scores = query @ wide.mT * 5**-0.5
    check(head_statistics(calls[0], **ALL), scores, torch.ones_like(scores, dtype=torch.bool))


def softmax_with_division(q, k, v, mask):
    return (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask).softmax(dim=-1) @ v


def softmax_of_scaled_queries(q, k, v, mask):
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-1, -2)) + mask
    return torch.matmul(F.dropout(F.softmax(scores, dim=-1), 0.0), v)


def softmax_filled(q, k, v, mask):
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    weights = torch.softmax(scores.masked_fill(mask < -1, torch.finfo(q.dtype).min), -1)
    return torch.einsum("bhqk,bhkd->bhqd", weights.to(v.dtype), v)


def softmax_where(q, k, v, mask):
    scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    scores = torch.where(mask > -1, scores, torch.tensor(-1e4, dtype=q.dtype))
    return torch.matmul(scores.softmax(-1), v)


@pytest.mark.parametrize(
    "written",
    [softmax_with_division, softmax_of_scaled_queries, softmax_filled, softmax_where],
)
@pytest.mark.parametrize("minimum", [-math.inf, torch.finfo(torch.float64).min, -1e4])
def test_attention_written_out(written, minimum):
    query, key, value = random_heads()
    seen = torch.ones(7, 7, dtype=torch.bool).tril()
    mask = torch.zeros(7, 7, dtype=torch.float64).masked_fill(~seen, minimum)
    calls = []
    with AttentionCalls(calls.append):
        written(query, key, value, mask)
    assert len(calls) == 1
    assert calls[0].scale * math.sqrt(calls[0].head_width) == pytest.approx(1.0)
    check(head_statistics(calls[0], **ALL), query @ key.mT * 5**-0.5, seen)


IN_PLACE = {
    "/=": lambda scores: operator.itruediv(scores, 4),
    "*=": lambda scores: operator.imul(scores, 0.25),
    "div_": lambda scores: scores.div_(4),
    "mul_ by a tensor": lambda scores: scores.mul_(torch.tensor(0.25)),
    "/ a tensor": lambda scores: scores / torch.tensor(16.0).sqrt(),
    "a tensor *": lambda scores: torch.tensor(0.25) * scores,
}


@pytest.mark.parametrize("way", IN_PLACE)
def test_scores_divided_in_place_or_by_a_tensor_have_the_right_scale(way):
    query, key, value = random_heads(d=16)
    calls = []
    with AttentionCalls(calls.append):
        IN_PLACE[way](query @ key.mT).softmax(-1) @ value
        (IN_PLACE[way](query.clone()) @ key.mT).softmax(-1) @ value
    assert [c.scale * math.sqrt(c.head_width) for c in calls] == pytest.approx([1.0, 1.0])


def test_scores_changed_in_place_by_more_than_a_number_have_no_known_scale():
    query, key, value = random_heads(d=16)
    calls = []
    with AttentionCalls(calls.append):
        (query @ key.mT).mul_(torch.rand(7, 7)).softmax(-1) @ value
    assert [c.scale for c in calls] == [None]


def test_a_softmax_of_classes_is_no_attention():
    calls = []
    with AttentionCalls(calls.append):
        probabilities = torch.randn(4, 6, 10).softmax(-1)
        (probabilities * torch.randn(4, 6, 10)).sum()
        torch.randn(4, 10).softmax(-1) @ torch.randn(10, 3)
    assert not calls


def test_an_unscaled_product_has_a_scale_of_root_d():
    query, key, value = random_heads(d=16)
    calls = []
    with AttentionCalls(calls.append):
        (query @ key.transpose(-1, -2)).softmax(-1) @ value
        F.scaled_dot_product_attention(query, key, value, scale=1.0)
    assert [c.scale * c.head_width**0.5 for c in calls] == [4.0, 4.0]


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("extra", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}])
@pytest.mark.parametrize("masked", ["none", "hidden", "padding", "both"])
def test_multihead_attention(batch_first, train, extra, masked):
    """Its own weights, head by head, are the explicit matrices; the fast path of eval mode too."""
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(12, 3, batch_first=batch_first, **extra).double().train(train)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    x = x if batch_first else x.transpose(0, 1)
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1) if masked in ("hidden", "both") else None
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    padding = padding if masked in ("padding", "both") else None
    calls = []
    with AttentionCalls(calls.append), torch.set_grad_enabled(train):
        _, weights = layer(
            *(x, x, x),
            attn_mask=hidden,
            key_padding_mask=padding,
            need_weights=True,
            average_attn_weights=False,
        )
    assert len(calls) == 1
    seen = weights.detach() > 0
    statistics = head_statistics(calls[0], **ALL)
    for head in range(3):
        fractions = []
        for sample in range(2):
            for row, visible in zip(weights[sample, head], seen[sample, head], strict=True):
                p = row.detach()[visible]
                if len(p) >= 2:
                    fractions.append(-float((p * p.log()).sum()) / math.log(len(p)))
        expected = sum(fractions) / len(fractions)
        assert float(statistics.entropy[head]) == pytest.approx(expected, abs=1e-6)
    rank = torch.linalg.matrix_rank(weights[0].detach())
    assert statistics.rank.tolist() == rank.tolist()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("padded", [False, True])
def test_hugging_face_gpt2(implementation, padded):
    transformers = zoo.transformers()
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=12, n_layer=3, n_head=3, initializer_range=0.5
    )
    config._attn_implementation = implementation
    model = transformers.GPT2LMHeadModel(config).double().eval()
    tokens = torch.randint(50, (3, 8))
    inputs = {"input_ids": tokens, "labels": tokens}
    if padded:
        mask = torch.ones(3, 8, dtype=torch.long)
        mask[1, 5:] = 0
        inputs["attention_mask"] = mask
    heads = attention_heads(model, (inputs, None), loss=F.cross_entropy, **ALL)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        explicit = model(**inputs, output_attentions=True).attentions
    assert len(heads) >= 3
    result = [heads[f"transformer.h.{i}"][0] for i in range(3)]
    for statistics, weights in zip(result, explicit, strict=True):
        seen = weights > 0
        fractions = torch.zeros(3, dtype=torch.float64)
        count = 0
        for sample in range(3):
            for query in range(8):
                for head in range(3):
                    p = weights[sample, head, query][seen[sample, head, query]]
                    if len(p) >= 2:
                        fractions[head] += -float((p * p.log()).sum()) / math.log(len(p))
                count += len(p) >= 2
        assert torch.allclose(statistics.entropy.double(), fractions / count, atol=1e-6)
        assert statistics.rank.tolist() == torch.linalg.matrix_rank(weights[0]).tolist()


def test_a_sample_of_queries_is_spread_over_the_sequence():
    query, key, value = random_heads(n=9, t=100, k=100)
    statistics = head_statistics(
        AttentionCall(query=query, key=key, value=value, scale=1.0), samples=3, queries=10
    )
    assert statistics.full_rank == 10
    whole = head_statistics(AttentionCall(query=query, key=key, value=value, scale=1.0), **ALL)
    assert torch.allclose(statistics.entropy, whole.entropy, atol=0.05)


def test_half_precision_is_measured_in_float32():
    query, key, value = (t.bfloat16() for t in random_heads())
    statistics = head_statistics(AttentionCall(query=query, key=key, value=value, scale=0.4))
    assert statistics.entropy.dtype == torch.float32
    assert bool((statistics.entropy > 0).all())


NORMS = ["pre", "post", "deep", "sandwich", "none"]


@pytest.mark.parametrize("norm", NORMS)
def test_sizes_and_gradient_ratios_of_the_branches(norm):
    model = nets.build("gpt-2", seed=0, vocabulary=11, context=9, width=8, heads=2, norm=norm)
    model = model.double()
    tokens = torch.randint(11, (4, 9), generator=torch.Generator().manual_seed(0))
    measured = attention(model, (tokens, tokens), loss=_token_loss)
    streams = [model.stem(tokens)]
    sizes = {"attention": [], "mlp": []}
    for block in model.blocks:
        for kind, part in (("attention", block.attention), ("mlp", block.mlp)):
            branch, stream = part.branch(streams[-1]), part.shortcut(streams[-1])
            sizes[kind].append(float((branch.norm() / stream.norm()).detach()))
            total = branch + stream
            streams.append(total if part.post is None else part.post(total))
    on_blocks = [b.name.startswith("blocks.") for b in measured.blocks]
    for kind, expected in sizes.items():
        result = [v for v, on in zip(measured[f"{kind}_size"], on_blocks, strict=True) if on]
        assert result == pytest.approx(expected, rel=1e-6)
    loss = _token_loss(model.head(streams[-1]), tokens)
    normalized = norm in ("post", "deep")
    back = torch.autograd.grad(loss, streams)
    if not normalized:
        ratios = [float(b.norm() / a.norm()) for a, b in pairwise(back)]
        result = [v for v, on in zip(measured["mlp_gradient_ratio"], on_blocks, strict=True) if on]
        assert result == pytest.approx(ratios[1::2], rel=1e-6)
    post = [v for v, on in zip(measured["post_norm"], on_blocks, strict=True) if on]
    assert post == [normalized, normalized]


@pytest.mark.parametrize("norm_first", [True, False])
def test_branches_of_torch_layers(norm_first):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    measured = attention(model, (x, torch.zeros_like(x)), loss=F.mse_loss)
    for i, layer in enumerate(model.layers):
        before = layer.norm1(x) if norm_first else x
        branch = layer.self_attn(before, before, before)[0]
        assert measured["attention_size"][i] == pytest.approx(
            float((branch.norm() / x.norm()).detach()), rel=1e-6
        )
        x = layer(x)
    assert measured["post_norm"] == (not norm_first,) * 2


def test_likeness_of_tokens_by_hand():
    model = nets.build("bert-2", seed=0, vocabulary=11, context=6, width=8, heads=2).double()
    tokens = torch.randint(11, (3, 6), generator=torch.Generator().manual_seed(0))
    measured = attention(model, (tokens, tokens), loss=_token_loss)
    x = model.blocks(model.stem(tokens))
    cosines = [
        float(F.cosine_similarity(a, b, dim=0))
        for sample in x
        for i, a in enumerate(sample)
        for j, b in enumerate(sample)
        if i != j
    ]
    last = max(i for i, b in enumerate(measured.blocks) if b.name.startswith("blocks."))
    assert measured["token_similarity"][last] == pytest.approx(
        sum(cosines) / len(cosines), abs=1e-6
    )
    spread = (x - x.mean(1, keepdim=True)).norm() / x.norm()
    assert measured["token_spread"][last] == pytest.approx(float(spread), abs=1e-6)


def test_scale_of_the_output_by_hand():
    model = nets.build("gpt-1", seed=0, vocabulary=11, context=6, width=8, heads=2).double()
    tokens = torch.randint(11, (3, 6))
    settings = attention(model, (tokens, tokens), loss=_token_loss).settings
    logits = model(tokens).detach()
    assert settings["log_z"] == pytest.approx(float(logits.exp().sum(-1).log().mean()), abs=1e-6)
    assert settings["output_std"] == pytest.approx(
        float(logits.std(-1, correction=0).mean()), abs=1e-6
    )


def test_a_head_without_values_or_without_output_is_dead():
    model = nets.build("gpt-2", seed=0, vocabulary=11, context=6, width=8, heads=4)
    with torch.no_grad():
        model.blocks[0].attention.branch[1].value.weight[2:4] = 0
        model.blocks[1].attention.branch[1].out.weight[:, 6:] = 0
    tokens = torch.randint(11, (3, 6))
    measured = attention(model, (tokens, tokens), loss=_token_loss)
    dead = [d for d in measured["dead"] if d is not None]
    assert dead == ["1", "3"]


def test_the_model_comes_back_as_it_was():
    model = nets.build("gpt-2", seed=0, vocabulary=11, context=6, width=8, heads=4)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    tokens = torch.randint(11, (3, 6))
    attention(model, (tokens, tokens), loss=_token_loss)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    hooks = [h for m in model.modules() for h in (m._forward_hooks, m._forward_pre_hooks)]
    assert not any(hooks)


def test_no_attention_found():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    batch = torch.randn(3, 4), torch.zeros(3).long()
    with pytest.raises(UsageError, match="No attention was found in Sequential"):
        attention(model, batch, loss=F.cross_entropy)
    assert "attention" not in measure.standard(model, batch, loss=F.cross_entropy)


class Kernel(torch.autograd.Function):
    """Attention where torch's functions do not show."""

    @staticmethod
    def forward(ctx, q, k, v):
        scores = np.matmul(q.detach().numpy(), k.detach().numpy().swapaxes(1, 2))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = torch.from_numpy(weights / weights.sum(-1, keepdims=True))
        ctx.save_for_backward(weights)
        return torch.from_numpy(np.matmul(weights.numpy(), v.detach().numpy()))

    @staticmethod
    def backward(ctx, grad):
        (weights,) = ctx.saved_tensors
        return None, None, weights.mT @ grad


class HiddenAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(8, 8)

    def forward(self, x):
        return x + Kernel.apply(x, x, self.map(x))


def test_attention_hidden_in_a_kernel_is_said_and_the_rest_measured():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.Sequential(HiddenAttention(), HiddenAttention(), layer, nn.Linear(8, 8))
    batch = torch.randn(3, 5, 8), torch.randn(3, 5, 8)
    names = ["0", "1", "2"]
    measured = measure.standard(model, batch, loss=F.mse_loss, blocks=names)["attention"]
    assert any("inside 0 (HiddenAttention) and 1 more was not seen" in n for n in measured.notes)
    assert measured["heads"] == (None, None, 2)
    only = nn.Sequential(HiddenAttention(), HiddenAttention())
    with pytest.raises(UsageError, match=r"No attention was found.*kernel of its own"):
        attention(only, batch, loss=F.mse_loss)


def test_a_mask_of_the_wrong_shape_is_one_sentence():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            x = self.one(x).unsqueeze(1)
            mask = torch.ones(3, 4, dtype=torch.bool)
            return self.two(F.scaled_dot_product_attention(x, x, x, attn_mask=mask).squeeze(1))

    batch = torch.randn(3, 5, 8), torch.randn(3, 5, 8)
    with pytest.raises(UsageError, match="The model cannot take a batch"):
        attention(Masked(), batch, loss=F.mse_loss)


def _token_loss(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def _written_out(layer):
    """The same attention as the layer's, by a softmax of scores in place of the fused kernel."""

    def forward(x):
        query, key, value = (layer._split(m(x)) for m in (layer.query, layer.key, layer.value))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        if layer.causal:
            hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        return layer.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))

    layer.forward = forward


def _small_gpt(*, written_out=False, change=lambda layer: None):
    model = nets.build("gpt-3", seed=0, vocabulary=20, context=12, width=16, heads=4)
    layers = [m for m in model.modules() if type(m).__name__ == "Attention"]
    with torch.no_grad():
        change(layers)
    if written_out:
        for layer in layers:
            _written_out(layer)
    tokens = torch.randint(20, (6, 12), generator=torch.Generator().manual_seed(0))
    return attention(model, (tokens, tokens.roll(-1, 1)), loss=_token_loss)


def test_gradients_of_heads_are_the_same_for_attention_that_is_written_out():
    def ignore_a_head(layers):
        layers[1].out.weight[:, :4] = 0

    fused, written = (_small_gpt(written_out=w, change=ignore_a_head) for w in (False, True))
    assert written["dead"] == fused["dead"] == (None, "0", None)
    for column in ("choice_gradient", "entropy"):
        assert written[column] == pytest.approx(fused[column], rel=1e-3)


@pytest.mark.parametrize("written_out", [False, True])
def test_a_block_all_of_whose_heads_have_no_values_is_dead(written_out):
    def no_values(layers):
        layers[1].value.weight.zero_()
        layers[1].value.bias.zero_()

    assert _small_gpt(written_out=written_out, change=no_values)["dead_heads"] == (0, 1, 0)


def test_no_values_anywhere_are_dead_heads_everywhere():
    def no_values(layers):
        for layer in layers:
            layer.value.weight.zero_()
            layer.value.bias.zero_()

    assert _small_gpt(change=no_values)["dead_heads"] == (1, 1, 1)


def test_output_layers_that_all_start_at_zero_are_meant_so():
    def zero_outputs(layers):
        for layer in layers:
            layer.out.weight.zero_()

    assert _small_gpt(change=zero_outputs)["dead_heads"] == (0, 0, 0)


class Pooled(nn.Module):
    """An encoder with a mask whose first token stands for the sequence, and whose positions may be off."""

    def __init__(self, *, positions):
        super().__init__()
        torch.manual_seed(0)
        self.token, self.position = nn.Embedding(20, 16), nn.Embedding(12, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 3)
        if not positions:
            nn.init.zeros_(self.position.weight)

    def forward(self, input_ids, attention_mask):
        x = self.token(input_ids) + self.position(torch.arange(input_ids.shape[1]))
        return self.head(self.layer(x, src_key_padding_mask=attention_mask == 0)[:, 0])


@pytest.mark.parametrize("positions", [True, False])
def test_positions_of_padded_batches_are_judged_by_their_inner_real_tokens(positions):
    tokens = torch.randint(1, 20, (4, 12), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(12)[None] < torch.tensor([12, 8, 6, 10])[:, None]).long()
    inputs = {"input_ids": tokens, "attention_mask": mask}
    effect = position_effect(Pooled(positions=positions), inputs)
    assert (effect > 1e-3) == positions


def test_sequences_too_short_to_change_places_are_left_out():
    tokens = torch.randint(1, 20, (4, 12))
    inputs = {"input_ids": tokens, "attention_mask": (torch.arange(12) < 3).long().expand(4, 12)}
    assert position_effect(Pooled(positions=True), inputs) is None
