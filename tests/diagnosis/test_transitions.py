"""A planted fault in a transition: found, named, and treated by the Procrustes projection."""

import pytest
import torch
import torch.nn.functional as F

import bathyscope as bs
from bathyscope import data, nets
from bathyscope.diagnosis.candidates import candidates
from bathyscope.linalg import conv_singular_values
from bathyscope.remedies import transition_layers
from bathyscope.rules.targeted.context import Context


@pytest.fixture(scope="module")
def batch():
    digits = data.load("digits", num_train=64, normalize=True)
    return digits.train_inputs, digits.train_labels


@pytest.fixture
def model(batch):
    return nets.build_for("procresnet-13", tuple(batch[0].shape[1:]), num_classes=10, seed=0)


def spoil_(layer):
    """A quarter of the directions stretched a thousand times, the others lost."""
    with torch.no_grad():
        left, values, right = torch.linalg.svd(layer.weight[:, :, 0, 0], full_matrices=False)
        values = torch.where(torch.arange(len(values)) < len(values) // 4, 1e3, 0.0)
        layer.weight.copy_(((left * values) @ right)[:, :, None, None])


def by_block(diagnosis, measurement, column):
    return dict(
        zip(
            [block.label for block in diagnosis.blocks],
            diagnosis.measurements[measurement][column],
            strict=True,
        )
    )


def test_a_spoilt_transition_is_found_and_the_projection_mends_it(model, batch):
    # The first transition meets the image; the second, a 1×1 convolution, is spoilt.
    name, layer = list(transition_layers(model).items())[1]
    block = name.rpartition(".")[0]
    healthy = bs.diagnose(model, batch, loss=F.cross_entropy)
    assert not healthy.findings
    spoil_(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    diagnosis = bs.diagnose(model, batch, loss=F.cross_entropy, optimizer=optimizer)
    result = next(f for f in diagnosis.findings if f.code == "not-norm-preserving")
    assert result.blocks == (block,)
    assert result.evidence["transition"] is True
    assert by_block(diagnosis, "gradients", "ratio")[block] < 0.01
    assert by_block(diagnosis, "weights", "spread")[block] > 100

    context = Context(
        model, optimizer, batch, diagnosis.blocks, diagnosis.findings, F.cross_entropy
    )
    targeted = [c.recipe for c in candidates(context, ("settings", "weights"), 4) if c.targeted]
    recipe = next(
        r for r in targeted if r.description.startswith("Procrustes projection of the trans")
    )
    change = recipe.apply_(model, optimizer)
    after = bs.diagnose(model, batch, loss=F.cross_entropy, optimizer=optimizer)
    assert not after.findings
    assert 0.5 < by_block(after, "gradients", "ratio")[block] < 2
    assert conv_singular_values(layer, 8, padding="circular").spread < 1e-5
    # In force while training, and gone once undone.
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    for _ in range(2):
        optimizer.step()
    assert conv_singular_values(layer, 8, padding="circular").spread < 0.01
    change.undo()
    assert conv_singular_values(layer, 8, padding="circular").largest == pytest.approx(
        1e3, rel=1e-3
    )
