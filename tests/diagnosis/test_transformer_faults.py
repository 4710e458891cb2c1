"""Faults planted in transformers are named with their place; healthy ones are left alone."""

import pytest
import torch
from torch import nn

from bathyscope import diagnose, nets
from bathyscope.rules.families import attention, residual_stream
from bathyscope.rules.rule import Rule
from benchmarks.transformer_faults import (
    FAULTS,
    diagnosis_of,
    is_named,
    lines,
    token_batch,
    token_loss,
)

ATTENTION_CODES = {
    rule.code
    for family in (attention, residual_stream)
    for rule in vars(family).values()
    if isinstance(rule, Rule)
}


def test_every_kind_is_planted():
    assert set(FAULTS) == set(ATTENTION_CODES)


@pytest.mark.parametrize("code", FAULTS)
def test_kind_and_place(code):
    case = FAULTS[code](2 if code not in _DEEP else 1)
    assert is_named(code, case, diagnosis_of(case).findings)


_DEEP = {"embedding-scale", "output-logit-drift", "positions-unused"}  # seed 2 has 48 blocks


@pytest.mark.parametrize(
    ("family", "norm"), [("gpt", "pre"), ("bert", "post"), ("vit", "deep"), ("gpt", "sandwich")]
)
def test_healthy_transformers_have_no_problem(family, norm):
    sizes = {"image_size": 16} if family == "vit" else {"vocabulary": 40, "context": 24}
    model = nets.build(f"{family}-6", seed=0, norm=norm, **sizes)
    torch.manual_seed(0)
    if family == "vit":
        batch = torch.randn(16, 3, 16, 16), torch.randint(10, (16,))
    else:
        batch = token_batch(family)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    result = diagnose(model, batch, loss=token_loss, optimizer=optimizer)
    assert not [f for f in result.findings if f.severity == "problem"]
    assert not [f for f in result.findings if f.code in ATTENTION_CODES]


def test_post_norm_of_24_layers_at_adam_3e_3():
    """The case in which everything looked right and nothing trained."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
    body = nn.TransformerEncoder(layer, 24, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(50, 64), body, nn.Linear(64, 50))
    tokens = torch.randint(50, (16, 16))
    for lr, severity in ((3e-3, "problem"), (1e-5, None)):
        optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        result = diagnose(model, (tokens, tokens), loss=token_loss, optimizer=optimizer).findings
        reported = [f.severity for f in result if f.code == "post-norm-imbalance"]
        assert reported == ([severity] if severity else [])


def test_a_shallow_post_norm_network_whose_steps_add_up_is_worth_a_look():
    """A BERT of six layers trains at a rate at which one of twelve does not."""
    for depth, severity in ((6, "warning"), (12, "problem")):
        model = nets.build(f"bert-{depth}", seed=0, norm="post", vocabulary=40, context=24)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        result = diagnose(model, token_batch("bert"), loss=token_loss, optimizer=optimizer)
        reported = [f.severity for f in result.findings if f.code == "post-norm-imbalance"]
        assert reported == [severity]


class _Sentiment(nn.Module):
    """One answer for a sequence, whose tokens are alike behind the second layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.token = nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(
            16, 2, 32, dropout=0.0, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(16, 2)
        with torch.no_grad():
            self.body.layers[1].linear2.bias.fill_(300.0)

    def forward(self, tokens):
        return self.head(self.body(self.token(tokens))[:, 0])


def test_tokens_may_be_alike_in_a_network_that_has_learned():
    model = _Sentiment()
    tokens = torch.randint(20, (16, 8))
    with torch.no_grad():
        model.head.bias.zero_()
        scores = model(tokens)
        model.head.weight.mul_(8 / (scores - scores.mean(0)).std())
        model.head.bias.sub_(model(tokens).mean(0))
        right = model(tokens).argmax(1)
    for labels, severity in ((right, "warning"), (1 - right, "problem")):
        result = diagnose(model, (tokens, labels))
        assert [f.severity for f in result.findings if f.code == "token-collapse"] == [severity]


@pytest.mark.slow
def test_at_least_57_of_60_and_20_healthy():
    *_, total, clean = lines()
    assert total["right"] >= 57
    assert not clean["blamed"]
