"""Fresh weights, spectral norms, norm axes, lists of parameters and the order of channels."""

import pytest
import torch
from torch import nn

from bathyscope.measure.dependence import channel_order, fresh_weights, parameter_lists
from bathyscope.measure.dependence.without_pass import (
    norm_statistics,
    scale_ranges,
    unnormalized_spectral_norms,
)

LAYERS = {
    "linear": lambda: nn.Linear(48, 32),
    "convolution": lambda: nn.Conv2d(8, 16, 3),
    "convolution in groups": lambda: nn.Conv2d(8, 16, 3, groups=2),
    "transposed convolution": lambda: nn.ConvTranspose2d(8, 16, 3),
    "embedding": lambda: nn.Embedding(50, 16),
    "embedding with padding": lambda: nn.Embedding(50, 16, padding_idx=0),
}


@pytest.mark.parametrize("name", LAYERS)
def test_frozen_layers_are_known_for_fresh(name):
    for seed in range(20):
        torch.manual_seed(seed)
        model = nn.Sequential(LAYERS[name]()).requires_grad_(False)
        assert fresh_weights(model).frozen == ("0",), seed
        with torch.no_grad():  # as a training would
            weight = model[0].weight
            weight.add_(weight.std() * torch.randn_like(weight))
        assert fresh_weights(model).frozen == (), seed


def test_trained_layers_are_not_judged():
    result = fresh_weights(nn.Sequential(nn.Linear(48, 32)))
    assert (result.frozen, result.frozen_layers) == ((), 0)


@pytest.mark.parametrize("norm", [nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm])
def test_a_spectral_norm_is_one_after_passes_in_train_mode(norm):
    torch.manual_seed(0)
    model = nn.Sequential(norm(nn.Linear(20, 20)))
    state = {name: b.clone() for name, b in model.named_buffers()}
    unnormalized_spectral_norms(model)
    assert all(torch.equal(b, state[name]) for name, b in model.named_buffers())
    for _ in range(100):
        model(torch.randn(4, 20))
    (size,) = unnormalized_spectral_norms(model).values()
    assert size == pytest.approx(1.0, abs=0.02)


def test_scales_are_measured_along_both_axes():
    x = torch.randn(64, 5, 7) * torch.tensor([1.0, 1, 1, 1, 1, 1, 40])
    channels, others = scale_ranges(x)
    assert channels < 1.5
    assert others == pytest.approx(40, rel=0.3)
    assert scale_ranges(torch.zeros(4, 3)) is None


def test_momenta_are_read_in_train_mode_only():
    norm = nn.Sequential(nn.BatchNorm2d(3, momentum=0.0), nn.BatchNorm2d(3, momentum=None))
    assert norm_statistics(norm).still == ("0",)
    assert norm_statistics(norm.eval()).still == ()


def test_a_tensor_that_the_optimizer_holds_is_no_lost_parameter():
    class Outside(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 3)
            self.holder = {"latent": torch.zeros(4, requires_grad=True)}

        def forward(self, x):
            return self.head(x + self.holder["latent"])

    model, batch = Outside(), (torch.randn(8, 4), None)
    result = parameter_lists(model, batch)
    assert (result.unlisted, result.held_by) == (("4",), "holder")
    optimizer = torch.optim.SGD([*model.parameters(), model.holder["latent"]], lr=0.1)
    assert parameter_lists(model, batch, optimizer=optimizer).unlisted == ()


def test_layers_made_in_forward_are_held_by_nobody():
    class Forgetful(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            return self.head(nn.Linear(4, 4)(x))

    result = parameter_lists(Forgetful(), (torch.randn(8, 4), None))
    assert result.made_in_forward
    assert len(result.unlisted) == 2


@pytest.mark.parametrize("kind", ["noise", "gray", "stripes"])
def test_pictures_without_colors_are_not_called_interleaved(kind):
    torch.manual_seed(0)
    images = {
        "noise": torch.randn(16, 3, 32, 32),
        "gray": torch.randn(16, 1, 32, 32).cumsum(-1).expand(-1, 3, -1, -1),
        "stripes": torch.sin(torch.arange(32) * 0.9).expand(16, 3, 32, 32),
    }[kind]
    assert not channel_order(images.contiguous()).interleaved


def test_images_of_one_channel_have_no_order():
    assert channel_order(torch.randn(4, 1, 32, 32)) is None
