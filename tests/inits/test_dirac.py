import torch
from torch import nn

from bathyscope.inits import dirac_


def test_identity_on_images_and_vectors():
    x = torch.randn(2, 4, 6, 6)
    for layer in (nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 5, padding=2)):
        assert torch.equal(dirac_(layer)(x), x)
    grouped = dirac_(nn.Conv2d(4, 4, 3, padding=1, groups=2))
    assert torch.equal(grouped(x), x)
    v = torch.randn(3, 5)
    assert torch.equal(dirac_(nn.Linear(5, 5))(v), v)


def test_more_outputs_than_inputs_are_zero_and_fewer_are_left_out():
    x = torch.randn(2, 3, 4, 4)
    wide = dirac_(nn.Conv2d(3, 5, 3, padding=1))(x)
    assert torch.equal(wide[:, :3], x)
    assert wide[:, 3:].abs().sum() == 0
    assert torch.equal(dirac_(nn.Conv2d(3, 2, 3, padding=1))(x), x[:, :2])
