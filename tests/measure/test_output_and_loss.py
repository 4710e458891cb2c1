import torch
from torch import nn

from bathyscope.core.losses import token_cross_entropy
from bathyscope.diagnosis import diagnose


def test_as_many_tokens_as_classes_are_no_negated_loss():
    torch.manual_seed(0)
    tokens = torch.randint(6, (8, 6))
    model = nn.Sequential(nn.Embedding(6, 16), nn.Linear(16, 6))
    result = diagnose(model, (tokens, tokens.roll(1, 1)), loss=token_cross_entropy)
    assert "negated-loss" not in [finding.code for finding in result.findings]
