import pytest
import torch
import torch.nn.functional as F
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


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.long])
@pytest.mark.parametrize("shape", [(32,), (32, 1)])
def test_targets_of_one_output_may_be_of_any_type(shape, dtype, sign):
    torch.manual_seed(0)
    model, x = nn.Linear(4, 1), torch.randn(32, 4)
    y = (torch.rand(shape) > 0.5).to(dtype)

    def loss(output, targets):
        return sign * F.binary_cross_entropy_with_logits(
            output.reshape(targets.shape), targets.float()
        )

    codes = [f.code for f in diagnose(model, (x, y), loss=loss).findings]
    as_numbers = diagnose(model, (x, y.float()), loss=loss).findings
    assert codes == [f.code for f in as_numbers]
    assert ("negated-loss" in codes) is (sign < 0)


def test_a_loss_that_is_lower_on_both_sides_of_the_targets_is_negated():
    torch.manual_seed(0)
    model, x, y = nn.Linear(4, 1), torch.randn(32, 4), torch.randint(-3, 4, (32, 1)).float()
    result = diagnose(model, (x, y), loss=lambda o, t: F.relu(1 - (o - t).abs()).mean())
    assert "negated-loss" in [finding.code for finding in result.findings]
