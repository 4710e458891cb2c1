import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core import UsageError, blocks_of, probe
from bathyscope.core.batch import check_batch
from bathyscope.core.probe import Observer
from tests.core import lookalikes as like
from tests.support.model_state import assert_same, state_of

IMAGE, LABELS = torch.randn(4, 3, 8, 8, dtype=torch.float64), torch.tensor([0, 1, 2, 3])


class Recorder(Observer):
    def __init__(self):
        self.values = {"entered": {}, "left": {}, "gradient_in": {}, "gradient_out": {}}

    def _keep(self, what, block, x):
        self.values[what][block.label] = x.clone()

    def on_input(self, block, x):
        self._keep("entered", block, x)

    def on_output(self, block, x):
        self._keep("left", block, x)

    def on_input_gradient(self, block, gradient):
        self._keep("gradient_in", block, gradient)

    def on_output_gradient(self, block, gradient):
        self._keep("gradient_out", block, gradient)


def recorded(model, batch, loss=F.cross_entropy, **options):
    blocks = blocks_of(model, batch[0], **options)
    recorder = Recorder()
    return (
        blocks,
        recorder.values,
        probe(model, batch, loss=loss, blocks=blocks, observers=(recorder,)),
    )


def test_values_and_gradients_agree_with_autograd_on_each_block_alone():
    model = like.TorchvisionLike().double()
    blocks, values, result = recorded(model, (IMAGE, LABELS))
    for block in blocks:
        x = values["entered"][block.label].requires_grad_()
        # the block's module ends in an in-place ReLU, so it is given a copy
        y = model.get_submodule(block.name)(x.clone())
        torch.testing.assert_close(y, values["left"][block.label])
        (expected,) = torch.autograd.grad(y, x, values["gradient_out"][block.label])
        torch.testing.assert_close(values["gradient_in"][block.label], expected)
    expected = torch.autograd.grad(F.cross_entropy(model(IMAGE), LABELS), list(model.parameters()))
    for (name, _), gradient in zip(model.named_parameters(), expected, strict=True):
        torch.testing.assert_close(result.gradients[name], gradient)


def test_gradients_reach_blocks_behind_frozen_layers_and_the_first_block():
    model = like.TorchvisionLike().double().requires_grad_(False)
    model.fc.requires_grad_(True)
    blocks, values, result = recorded(model, (IMAGE, LABELS))
    assert set(values["gradient_in"]) == {b.label for b in blocks}
    assert set(result.gradients) == {"fc.weight", "fc.bias"}


def test_a_chain_whose_first_layer_is_the_first_block_and_works_in_place():
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4), nn.ReLU(True), nn.Linear(4, 3))
    x = torch.randn(5, 4)
    before = x.clone()
    _, values, _ = recorded(model, (x, torch.tensor([0, 1, 2, 0, 1])))
    assert torch.equal(x, before)
    assert set(values["gradient_in"]) == {"1", "3"}


def test_keyword_inputs_and_a_loss_that_the_model_computes():
    model = like.HuggingFaceLike()
    batch = {"input_ids": torch.randint(11, (2, 5)), "labels": torch.tensor([1, 2])}
    blocks = blocks_of(model, batch)
    recorder = Recorder()
    result = probe(model, (batch, None), loss=F.cross_entropy, blocks=blocks, observers=(recorder,))
    assert result.loss == pytest.approx(float(model(**batch).loss.detach()))
    assert set(recorder.values["gradient_in"]) == {"layer.0", "layer.1", "layer.2"}


def test_shared_module_is_told_apart_by_call():
    model = like.SharedTwice().double()
    _, values, _ = recorded(model, (IMAGE, LABELS))
    assert not torch.equal(values["entered"]["block"], values["entered"]["block[1]"])
    torch.testing.assert_close(values["left"]["other"], values["entered"]["block[1]"])


def test_blocks_that_are_skipped_are_not_reported():
    model = like.StochasticDepth().double()
    _, values, _ = recorded(model, (IMAGE, LABELS))
    assert values["left"] == {}


def test_checkpointed_blocks_are_reported_once():
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(like.TorchvisionLike):
        def forward(self, x):
            x = F.relu(self.conv1(x))
            for block in [*self.layer1, *self.layer2]:
                x = checkpoint(block, x, use_reentrant=False)
            return self.fc(x.mean((2, 3)))

    torch.manual_seed(0)
    model = Checkpointed().double()
    _, values, _ = recorded(model, (IMAGE, LABELS))
    assert len(values["gradient_in"]) == 4


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_comes_back_bit_for_bit(fails):
    model = like.TorchvisionLike().double()
    F.cross_entropy(model(IMAGE), LABELS).backward()
    blocks = blocks_of(model, IMAGE)
    before = state_of(model)

    def loss(output, targets):
        if fails:
            raise ValueError("half way")
        return F.cross_entropy(output, targets)

    if fails:
        with pytest.raises(UsageError, match="half way"):
            probe(model, (IMAGE, LABELS), loss=loss, blocks=blocks)
    else:
        probe(model, (IMAGE, LABELS), loss=loss, blocks=blocks)
    assert_same(before, state_of(model))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((IMAGE[:0], LABELS[:0]), "empty"),
        ((IMAGE * float("nan"), LABELS), "NaN"),
        ((IMAGE, LABELS + 2), "0 to 4"),
        ((IMAGE[:, :2], LABELS), "cannot take"),
        ((IMAGE, LABELS[:2]), "loss could not be computed"),
        (("no tensor", LABELS), "no tensor"),
    ],
)
def test_bad_batches_get_one_sentence(batch, message):
    model = like.TorchvisionLike().double()
    blocks = blocks_of(model, IMAGE)
    with pytest.raises(UsageError, match=message) as caught:
        probe(model, batch, loss=F.cross_entropy, blocks=blocks)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("batch", [IMAGE, (IMAGE,), (IMAGE, IMAGE, LABELS), None])
def test_a_batch_is_a_pair(batch):
    with pytest.raises(UsageError, match="pair"):
        check_batch(like.TorchvisionLike(), batch)


def test_bad_losses_get_one_sentence():
    model = like.TorchvisionLike().double()
    blocks = blocks_of(model, IMAGE)
    with pytest.raises(UsageError, match="scalar"):
        probe(model, (IMAGE, LABELS), loss=lambda o, t: o, blocks=blocks)
    with pytest.raises(UsageError, match="no_grad"):
        probe(model, (IMAGE, LABELS), loss=lambda o, t: o.detach().sum(), blocks=blocks)


def test_a_batch_of_one_with_batch_norm_gets_a_hint():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    blocks = blocks_of(model, torch.randn(1, 4))
    with pytest.raises(UsageError, match="larger batch"):
        probe(model, (torch.randn(1, 4), torch.tensor([0])), loss=F.cross_entropy, blocks=blocks)
