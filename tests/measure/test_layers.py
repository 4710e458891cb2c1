import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from bathyscope.core import blocks_of
from bathyscope.measure.layers import input_sizes, layers_of, parameters_of
from tests.core import lookalikes as like


def test_layers_of_a_residual_block_are_its_kernels():
    model = like.TorchvisionLike()
    blocks = blocks_of(model, torch.randn(2, 3, 8, 8))
    assert [layer.name for layer in layers_of(model, blocks[2])] == [
        "layer2.0.conv1",
        "layer2.0.conv2",
        "layer2.0.downsample.0",
    ]
    assert layers_of(model, blocks[2])[0].axes == ("outputs", "inputs", "height", "width")


def test_a_parametrized_weight_is_taken_as_it_is_applied():
    model = nn.Sequential(weight_norm(nn.Linear(4, 4)), nn.ReLU(), nn.Linear(4, 2))
    block = blocks_of(model, torch.randn(2, 4), blocks=["0"])[0]
    (layer,) = layers_of(model, block)
    assert torch.equal(layer.weight, model[0].weight)


def test_weights_that_belong_to_no_known_layer_are_found():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    block = blocks_of(model, torch.randn(3, 5, 8))[0]
    names = {layer.name for layer in layers_of(model, block)}
    assert "layers.0.self_attn.in_proj_weight" in names
    assert "layers.0.linear1" in names
    assert "layers.0.norm1" not in names


def test_a_shared_parameter_appears_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    model = nn.Sequential(Tied(), Tied())
    block = blocks_of(model, torch.randn(2, 3))[0]
    assert list(parameters_of(model, block)) == ["0.a.weight", "0.a.bias", "0.b.bias"]


def test_input_sizes_are_those_that_each_convolution_reads():
    model = like.TorchvisionLike()
    with input_sizes(model) as sizes:
        model(torch.randn(2, 3, 8, 10))
    assert sizes["layer2.0.conv1"] == (8, 10)
    assert sizes["layer2.0.conv2"] == (4, 5)
    assert not model.conv1._forward_pre_hooks
