"""The loop against a loop written out by hand."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import data
from bathyscope.core.errors import UsageError
from bathyscope.core.losses import token_cross_entropy
from bathyscope.training import Callback, TrainingConfig, evaluate, fit
from bathyscope.training.batches import TrainingBatches, derived_seed
from bathyscope.training.loop import Patience


@pytest.fixture(scope="module")
def digits():
    result = data.load("digits", normalize=True, num_train=300, num_test=100)
    return (
        (result.train_inputs.flatten(1), result.train_labels),
        (result.test_inputs.flatten(1), result.test_labels),
    )


def mlp(width=32, *, dropout=0.0):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, width),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 10),
    )


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def by_hand(model, examples, config, *, optimizer):
    """Three epochs with nothing but torch; the data order is taken from `TrainingBatches`."""
    torch.manual_seed(derived_seed(config.seed, "steps"))
    losses = []
    for epoch in range(config.epochs):
        for x, y in TrainingBatches(examples, config).epoch(epoch):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            if config.clip_norm:
                nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
            optimizer.step()
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    ("settings", "make"),
    [
        (
            {"momentum": 0.9, "weight_decay": 1e-3, "lr": 0.05},
            lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3, fused=True),
        ),
        (
            {"optimizer": "adamw", "lr": 1e-3, "weight_decay": 0.1},
            lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.1, fused=True),
        ),
    ],
    ids=["sgd", "adamw"],
)
def test_the_loop_is_the_plain_loop_bit_for_bit(digits, settings, make):
    config = TrainingConfig(epochs=3, schedule="constant", **settings)
    ours, theirs = mlp(dropout=0.2), mlp(dropout=0.2)
    outcome = fit(ours, digits[0], config=config)
    losses = by_hand(theirs, digits[0], config, optimizer=make(theirs.parameters()))
    assert outcome.curve("loss") == losses
    assert same(ours, theirs)


def test_clipping_is_that_of_torch(digits):
    config = TrainingConfig(epochs=2, schedule="constant", clip_norm=0.05, weight_decay=0.0)
    ours, theirs = mlp(), mlp()
    outcome = fit(ours, digits[0], config=config)
    by_hand(theirs, digits[0], config, optimizer=torch.optim.SGD(theirs.parameters(), 0.1, 0.9))
    assert max(outcome.curve("gradient_norm")) > 0.05
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("accumulate", [2, 3, 7])
def test_a_batch_in_parts_is_the_batch(digits, accumulate):
    config = TrainingConfig(epochs=2, batch_size=50, precision="float64", lr=0.05)
    whole, parts = mlp(), mlp()
    a = fit(whole, digits[0], config=config)
    b = fit(parts, digits[0], config=config.model_copy(update={"accumulate": accumulate}))
    assert a.curve("loss") == pytest.approx(b.curve("loss"), rel=1e-12)
    assert a.curve("accuracy") == b.curve("accuracy")


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.head = nn.Embedding(12, 8), nn.Linear(8, 5)

    def forward(self, tokens):
        return self.head(torch.tanh(self.words(tokens)))


def ragged():
    """Tokens with tags, most of which are unknown in some of the samples."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(12, (40, 9), generator=generator)
    unknown = torch.arange(9) >= torch.randint(1, 10, (40, 1), generator=generator)
    return tokens, (tokens % 5).masked_fill(unknown, -100)


@pytest.mark.parametrize("accumulate", [2, 5, 16])
def test_a_batch_in_parts_with_unknown_labels_is_the_batch(accumulate):
    config = TrainingConfig(
        epochs=3, batch_size=16, precision="float64", lr=0.5, loss="token_cross_entropy"
    )
    whole, parts = Tagger(), Tagger()
    a = fit(whole, ragged(), config=config)
    b = fit(parts, ragged(), config=config.model_copy(update={"accumulate": accumulate}))
    for curve, error in (("loss", 1e-10), ("gradient_norm", 1e-10), ("accuracy", 1e-6)):
        assert a.curve(curve) == pytest.approx(b.curve(curve), rel=error)


def test_an_evaluation_in_parts_with_unknown_labels_is_that_of_the_whole():
    model = Tagger().double()
    parts, whole = (
        evaluate(model, ragged(), loss=token_cross_entropy, batch_size=n) for n in (7, 40)
    )
    assert parts["loss"] == pytest.approx(whole["loss"], rel=1e-12)
    assert parts["accuracy"] == pytest.approx(whole["accuracy"], rel=1e-6)


def test_the_epoch_record_holds_averages_evaluation_and_gap(digits):
    train, test = digits
    model = mlp()
    outcome = fit(model, train, config=TrainingConfig(epochs=2, batch_size=64), test=test)
    steps = [r for r in outcome.history if r["kind"] == "step" and r["epoch"] == 1]
    sizes = [64, 64, 64, 64, 44]
    last = outcome.result
    mean = sum(r["loss"] * n for r, n in zip(steps, sizes, strict=True)) / 300
    assert last["train_loss"] == pytest.approx(mean)
    with torch.no_grad():
        output = model.eval()(test[0])
    assert last["test_loss"] == pytest.approx(F.cross_entropy(output, test[1]).item(), rel=1e-5)
    assert last["test_accuracy"] == (output.argmax(1) == test[1]).double().mean().item()
    assert last["generalization_gap"] == last["test_loss"] - last["train_loss"]
    assert last["accuracy_gap"] == last["train_accuracy"] - last["test_accuracy"]


def test_max_steps_ends_in_the_middle_of_an_epoch_with_a_record(digits):
    outcome = fit(mlp(), digits[0], config=TrainingConfig(max_steps=3), test=digits[1])
    assert outcome.status == "finished"
    assert outcome.result["step"] == 3
    assert "test_loss" in outcome.result


def test_early_stopping_after_patience_evaluations(digits):
    config = TrainingConfig(epochs=50, lr=0.0, patience=2, schedule="constant")
    outcome = fit(mlp(), digits[0], config=config, test=digits[1])
    assert outcome.status == "finished"
    assert outcome.result["epoch"] == 2
    assert "no better test loss" in outcome.ending


def test_bfloat16_autocast_keeps_float32_weights_and_learns(digits):
    model = mlp()
    config = TrainingConfig(epochs=8, precision="bfloat16", lr=0.1)
    # oneDNN takes AMX for granted where the processor names it, and dies where the system forbids it
    with torch.backends.mkldnn.flags(enabled=False):
        losses = fit(model, digits[0], config=config).curve("loss")
    assert model[0].weight.dtype == torch.float32
    assert losses[-1] < losses[0] / 2


def test_channels_last_changes_no_more_than_rounding():
    images = data.load("digits", num_train=64, num_test=10)
    examples = (images.train_inputs, images.train_labels)

    def net():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))

    runs = [fit(net(), examples, config=TrainingConfig(epochs=1, channels_last=c)) for c in (0, 1)]
    assert runs[0].curve("loss") == pytest.approx(runs[1].curve("loss"), rel=1e-4)


def test_regression_has_no_accuracy():
    x = torch.randn(40, 3)
    outcome = fit(nn.Linear(3, 2), (x, x[:, :2]), config=TrainingConfig(loss="mse", epochs=2))
    assert "train_accuracy" not in outcome.result
    assert outcome.result["train_loss"] > 0


def test_callbacks_see_every_step_and_may_stop(digits):
    class Counting(Callback):
        steps = epochs = 0
        ending = ""

        def on_step(self, loop, record):
            self.steps += 1
            assert loop.step == record["step"] == self.steps
            if loop.step == 7:
                loop.stop("seven is enough")

        def on_epoch(self, loop, record):
            self.epochs += 1

        def on_end(self, loop, ending):
            self.ending = ending

    counting = Counting()
    outcome = fit(mlp(), digits[0], config=TrainingConfig(epochs=9), callbacks=[counting])
    assert (counting.steps, counting.epochs) == (7, 2)
    assert counting.ending == outcome.ending == "finished: seven is enough"


def test_frozen_parameters_stay(digits):
    model = mlp()
    model[0].requires_grad_(False)
    before = copy.deepcopy(model[0])
    fit(model, digits[0], config=TrainingConfig(epochs=1))
    assert same(model[0], before)


def test_nothing_to_train_is_refused(digits):
    with pytest.raises(UsageError, match="nothing to train"):
        fit(nn.Flatten(), digits[0], config=TrainingConfig())


@pytest.mark.slow
def test_the_compiled_network_trains_alike(digits, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    runs = [
        fit(mlp(), digits[0], config=TrainingConfig(epochs=1, compile=c)) for c in (False, True)
    ]
    assert runs[0].curve("loss") == pytest.approx(runs[1].curve("loss"), rel=1e-4)


def test_a_gradient_below_the_limit_is_left_alone(digits):
    config = TrainingConfig(epochs=1, schedule="constant")
    free, limited = mlp(), mlp()
    outcome = fit(free, digits[0], config=config)
    limit = 1.01 * max(outcome.curve("gradient_norm"))
    fit(limited, digits[0], config=config.model_copy(update={"clip_norm": limit}))
    assert same(free, limited)


def test_patience_counts_evaluations_without_a_better_loss():
    patience = Patience()
    seen = [patience.is_over_after(loss, most=2) for loss in (3.0, 2.0, 2.0, 1.0, 1.5, 1.0)]
    assert seen == [False, False, False, False, False, True]
    assert not any(Patience(best=0.0).is_over_after(1.0, most=None) for _ in range(9))


def test_an_evaluation_gives_every_module_its_own_mode_back():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    model.train()
    model[1].eval()  # frozen by its user
    examples = (torch.randn(5, 2), torch.tensor([0, 1, 0, 1, 0]))
    evaluate(model, examples, loss=nn.functional.cross_entropy)
    assert [m.training for m in model] == [True, False, True]
    with pytest.raises(UsageError, match="loss could not be computed"):
        evaluate(model, examples, loss=lambda output, targets: 1 / 0)
    assert [m.training for m in model] == [True, False, True]
