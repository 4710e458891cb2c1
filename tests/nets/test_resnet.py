"""Plain, highway and erased networks are the residual network but for the one thing they change."""

import pytest
import torch
from torch import nn

from bathyscope import nets
from tests.nets.by_hand import randomize_norms_


@pytest.mark.parametrize(
    ("plain", "residual", "options"),
    [
        ("plain-20", "resnet-20", {}),
        ("plain-20-erased", "resnet-20-erased", {}),
        ("preplain-20", "preresnet-20", {}),
        ("imagenet-plain-50", "imagenet-resnet-50", {"width": 4, "num_classes": 10}),
        ("linear-plain-8", "linear-residual-8", {}),
    ],
)
def test_plain_is_residual_with_the_skips_removed(plain, residual, options):
    ours = nets.build(plain, seed=0, **options).eval()
    randomize_norms_(ours)
    other = nets.build(residual, seed=1, **options).eval()
    for block in other.blocks:
        block.shortcut = None
    other.load_state_dict(ours.state_dict())
    x = torch.randn(2, 16) if "linear" in plain else torch.randn(2, 3, 16, 16)
    assert torch.equal(ours(x), other(x))


@pytest.mark.parametrize("shortcut", ["A", "B"])
def test_highway_with_both_gates_at_one_is_the_resnet(shortcut):
    resnet = nets.build("resnet-14", seed=0, shortcut=shortcut).eval()
    randomize_norms_(resnet)
    x = torch.randn(2, 3, 16, 16)

    constant = nets.build("highway-14", shortcut=shortcut, gates="one").eval()
    constant.load_state_dict(resnet.state_dict())
    assert torch.equal(constant(x), resnet(x))

    opened = nets.build("highway-14", shortcut=shortcut, gates="independent").eval()
    gates = {k: v for k, v in opened.state_dict().items() if ".join." in k}
    opened.load_state_dict(resnet.state_dict() | gates)
    assert not torch.allclose(opened(x), resnet(x))
    for block in opened.blocks:
        block.join.open_()
    assert torch.equal(opened(x), resnet(x))


def test_erased_is_the_resnet_without_the_last_relu_of_each_block():
    whole, erased = nets.build("resnet-14", seed=0), nets.build("resnet-14-erased", seed=0)
    for block in whole.blocks:
        block.post = nn.Identity()
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(whole(x), erased(x))
    num = [sum(isinstance(m, nn.ReLU) for m in net.modules()) for net in (whole, erased)]
    assert num == [7, 7]


def test_diracnet_is_the_plain_net_with_its_effective_weights():
    dirac = nets.build("diracnet-14", seed=0).eval()
    plain = nets.build("plain-14", seed=1).eval()
    state = {k: v for k, v in dirac.state_dict().items() if k in plain.state_dict()}
    for name, module in dirac.named_modules():
        if isinstance(module, nets.DiracConv2d):
            state[f"{name}.weight"] = module.effective_weight()
    plain.load_state_dict(state)
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(dirac(x), plain(x))
