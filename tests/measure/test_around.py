"""Stem and head, measured like blocks: each number beside one computed the long way."""

import copy

import pytest
import torch
import torch.nn.functional as F

from bathyscope import measure
from bathyscope.core import blocks_of
from bathyscope.measure.around import with_around
from tests.core import lookalikes as like
from tests.diagnosis.networks import MLPBlock


@pytest.fixture
def network():
    torch.manual_seed(0)
    return like.TorchvisionLike().double()


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 3, 8, 8, generator=generator, dtype=torch.float64)
    return x, torch.randint(5, (6,), generator=generator)


def by_hand(network, batch):
    """Outputs and gradients of stem and head from one plain pass."""
    network = copy.deepcopy(network)
    seen = {}

    def keep(name):
        def hook(module, args, output):
            output.retain_grad()
            seen[name] = (output, output.detach().clone())

        return hook

    network.conv1.register_forward_hook(keep("conv1"))
    network.fc.register_forward_hook(keep("fc"))
    F.cross_entropy(network(batch[0]), batch[1]).backward()
    return network, seen


def test_numbers_of_stem_and_head(network, batch):
    sgd = torch.optim.SGD(network.parameters(), lr=0.5)
    around = measure.standard(network, batch, loss=F.cross_entropy, optimizer=sgd)["around"]
    assert [b.label for b in around.blocks] == ["conv1", "fc"]
    plain, seen = by_hand(network, batch)
    for i, name in enumerate(("conv1", "fc")):
        layer = getattr(plain, name)
        _, output = seen[name]
        assert around["activations.std"][i] == pytest.approx(output.std(correction=0).item())
        assert around["activations.max"][i] == pytest.approx(output.max().item())
        norm = layer.weight.grad.norm().item()
        assert around["parameter_gradients.norm"][i] == pytest.approx(norm)
        ratio = 0.5 * norm / layer.weight.norm().item()
        assert around["updates.ratio"][i] == pytest.approx(ratio)
        assert around["weights.norm"][i] == pytest.approx(layer.weight.norm().item())
    sigma = torch.linalg.matrix_norm(plain.fc.weight, 2).item()
    assert around["weights.spectral_norm"][1] == pytest.approx(sigma)
    output, _ = seen["fc"]
    assert around["gradients.norm_out"][1] == pytest.approx(output.grad.norm().item())


def test_blocks_are_measured_as_without_stem_and_head(network, batch):
    result = blocks_of(network, batch[0])
    alone = type(result)(result.blocks, result.how)
    sgd = torch.optim.SGD(network.parameters(), lr=0.5)
    both = [
        measure.standard(network, batch, loss=F.cross_entropy, optimizer=sgd, blocks=blocks)
        for blocks in (result, alone)
    ]
    assert set(both[0]) - set(both[1]) == {"around"}
    for name, measurement in both[1].items():
        assert both[0][name] == measurement


def test_rows_are_joined_in_the_order_of_the_pass(network, batch):
    result = blocks_of(network, batch[0])
    measured = measure.standard(network, batch, loss=F.cross_entropy, blocks=result)
    joined = with_around(measured, result)
    assert "around" not in joined
    labels = [b.label for b in joined["weights"].blocks]
    assert labels == ["conv1", "layer1.0", "layer1.1", "layer2.0", "layer2.1", "fc"]
    assert joined["weights"]["norm"][1:-1] == measured["weights"]["norm"]
    assert joined["weights"]["norm"][0] == measured["around"]["weights.norm"][0]
    assert joined["gradients"]["ratio"][0] is None
    assert joined["gradients"].settings == measured["gradients"].settings


def test_a_table_of_many_words_is_not_decomposed():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(400, 300), *(MLPBlock(300, torch.nn.ReLU) for _ in range(3))
    )
    tokens = torch.randint(400, (4, 5)), None
    around = measure.standard(model, tokens, loss=lambda y, _: y.square().mean())["around"]
    assert around["weights.norm"][0] > 0
    assert around["weights.spectral_norm"] == (None,)
