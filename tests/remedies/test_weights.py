import pytest
import torch

from bathyscope import inits, nets
from bathyscope.core import UsageError, blocks_of
from bathyscope.remedies.learning_rate import learning_rate_
from bathyscope.remedies.weights import last_layer, reinitialise_, scale_, zero_last_layers_
from tests.core import lookalikes as like

IMAGE = torch.randn(2, 3, 8, 8)


def values(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def test_zeroed_branches_leave_the_shortcuts_alone():
    model = nets.build("prebasic-14", in_channels=3)
    before = values(model)
    blocks = [b for b in blocks_of(model, IMAGE) if not b.changes_dimension]
    change = zero_last_layers_(model, blocks)
    x = torch.randn(2, *blocks[0].in_shape[1:])
    torch.testing.assert_close(model.get_submodule(blocks[0].name)(x), x)
    assert not same(before, values(model))
    change.undo()
    assert same(before, values(model))


def test_scaling_acts_on_what_the_branch_gives_out():
    model = nets.build("prebasic-14", in_channels=3).eval()
    block = next(b for b in blocks_of(model, IMAGE) if not b.changes_dimension)
    module = model.get_submodule(block.name)
    x = torch.randn(2, *block.in_shape[1:])
    branch = module(x) - x
    scale_(model, {block: 0.25})
    torch.testing.assert_close(module(x) - x, 0.25 * branch, rtol=1e-4, atol=1e-5)


def test_the_last_layer_is_on_the_branch_not_on_the_projection():
    model = like.TorchvisionLike()
    transition = next(b for b in blocks_of(model, IMAGE) if b.changes_dimension)
    assert last_layer(model, transition) is model.layer2[0].bn2


def test_reinitialising_touches_one_block_and_follows_the_seed():
    model = like.TorchvisionLike()
    before = values(model)
    block = blocks_of(model, IMAGE)[1]
    model.layer1[1].bn1.weight.data.fill_(7.0)
    change = reinitialise_(model, [block], generator=torch.Generator().manual_seed(0))
    once = values(model)
    assert torch.equal(model.layer1[1].bn1.weight, torch.ones(8))
    assert {n for n in before if not torch.equal(before[n], once[n])} == {
        "layer1.1.conv1.weight",
        "layer1.1.conv2.weight",
    }
    change.undo()
    reinitialise_(model, [block], generator=torch.Generator().manual_seed(0))
    assert same(once, values(model))
    assert "he" in inits.SCHEMES


def test_learning_rates_come_back():
    model = like.TorchvisionLike()
    groups = [
        {"params": [*model.fc.parameters()], "lr": 1.0},
        {"params": [*model.conv1.parameters()]},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    change = learning_rate_(optimizer, factor=0.1, parameters=[model.fc.weight])
    assert [g["lr"] for g in optimizer.param_groups] == [pytest.approx(0.1), 0.1]
    change.undo()
    assert [g["lr"] for g in optimizer.param_groups] == [1.0, 0.1]
    with pytest.raises(UsageError, match="positive"):
        learning_rate_(optimizer, factor=0.0)
    with pytest.raises(UsageError, match="optimizer"):
        learning_rate_(optimizer, factor=0.5, parameters=[model.layer1[0].conv1.weight])
