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


def test_classes_that_stand_last_are_all_in_the_batch():
    """Twenty tokens of four classes were held to be twenty classes, sixteen of them without a label."""
    torch.manual_seed(0)
    tokens = torch.randint(20, (32, 20))
    model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 4))
    result = diagnose(
        model,
        (tokens, tokens % 4),
        loss=lambda out, y: nn.functional.cross_entropy(out.flatten(0, 1), y.flatten()),
    )
    assert "missing-classes" not in [finding.code for finding in result.findings]
    few = diagnose(model, (tokens, tokens % 2), loss=token_cross_entropy)
    (finding,) = [f for f in few.findings if f.code == "missing-classes"]
    assert finding.evidence["outputs"] == 4
