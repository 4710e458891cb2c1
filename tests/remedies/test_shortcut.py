import copy

import pytest
import torch
from torch import nn

from bathyscope.core import UsageError, blocks_of
from bathyscope.remedies import Recipe
from bathyscope.remedies.shortcut import AddShortcuts, shortcut_
from tests.core import lookalikes as like

IMAGE = torch.randn(2, 3, 8, 8)


def test_equals_the_network_written_with_shortcuts_and_can_be_taken_back():
    model = like.TorchvisionLike().eval()
    plain = model(IMAGE)
    equal = [b for b in blocks_of(model, IMAGE) if not b.changes_dimension]
    change = shortcut_(model, equal)
    x = torch.relu(model.conv1(IMAGE))
    change.undo()
    for block in [*model.layer1, *model.layer2]:
        y = block(x.clone())
        x = x + y if x.shape == y.shape else y
    expected = model.fc(x.mean((2, 3)))
    assert torch.equal(model(IMAGE), plain)
    change = shortcut_(model, equal)
    torch.testing.assert_close(model(IMAGE), expected)
    assert change.blocks == ("layer1.0", "layer1.1", "layer2.1")


def test_a_copy_has_its_own_shortcut_and_gradients_flow():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 3))
    x = torch.randn(4, 3)
    shortcut_(model, blocks_of(model, x))
    twin = copy.deepcopy(model)
    torch.testing.assert_close(twin(x), model(x))
    with torch.no_grad():
        twin[0].weight.zero_()
        twin[0].bias.zero_()
        twin[2].weight.zero_()
        twin[2].bias.zero_()
    x.requires_grad_()
    out = twin(x)
    torch.testing.assert_close(out, x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(gradient, torch.ones_like(x))
    assert not torch.allclose(model(x), out)


def test_blocks_with_tuple_outputs():
    model = like.HuggingFaceLike().eval()
    example = {"input_ids": torch.randint(11, (2, 5))}
    plain = model(**example).logits
    change = shortcut_(model, blocks_of(model, example))
    assert not torch.allclose(model(**example).logits, plain)
    change.undo()
    assert torch.equal(model(**example).logits, plain)


def test_a_block_that_flattens_is_refused_and_so_is_none():
    model = nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()), nn.Linear(144, 2))
    with pytest.raises(UsageError, match="leave it out"):
        shortcut_(model, blocks_of(model, IMAGE, blocks=["0"]))
    with pytest.raises(UsageError, match="at least one"):
        shortcut_(model, [])


class Wandering(nn.Module):
    """Of its two layers a pass runs those that are named."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x, names):
        for name in names:
            x = getattr(self, name)(x)
        return x


@pytest.mark.parametrize("exported", [False, True])
def test_what_a_pass_has_left_behind_is_not_for_the_next(exported):
    torch.manual_seed(0)
    net = Wandering()
    recipe = Recipe(steps=(AddShortcuts(spans=(("one", "two"),), scale=1.0),))
    x = torch.randn(2, 3)
    alone, both = net(x, ["two"]), net(x, ["one", "two"])
    if exported:
        exec(recipe.code(), {"model": net, "torch": torch})
    else:
        recipe.steps[0].apply_(net)
    net(x, ["one"]).sum().backward()
    assert torch.equal(net(x, ["two"]), alone)
    assert torch.allclose(net(x, ["one", "two"]), both + x)
