"""The forms in which people call `diagnose`: they all say the same as the pair of inputs and targets."""

import copy
import re
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bathyscope as bs
from bathyscope.core.call_forms import first_batch, is_batch
from bathyscope.core.errors import UsageError
from tests.zoo import installed

X, Y = torch.randn(32, 6, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 4


def mlp(outputs: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, outputs)
    )


def same(one: bs.diagnosis.Diagnosis, other: bs.diagnosis.Diagnosis) -> bool:
    return one.findings == other.findings and one.table.equals(other.table)


@pytest.fixture(scope="module")
def by_pair():
    return bs.diagnose(mlp(), (X, Y))


@pytest.mark.parametrize(
    "call",
    [
        lambda m: bs.diagnose(m, X, Y),
        lambda m: bs.diagnose(m, X, Y, loss="cross-entropy"),
        lambda m: bs.diagnose(m, DataLoader(TensorDataset(X, Y), batch_size=32)),
        lambda m: bs.diagnose(m, batches=[(X, Y), (X + 1, Y)]),
        lambda m: bs.diagnose(m, [(X, Y), (X + 1, Y)]),
        lambda m: bs.diagnose(m, [[X, Y], [X + 1, Y]]),
        lambda m: bs.diagnose(m, batches=iter([(X, Y)])),
    ],
    ids=[
        "x, y",
        "loss by name",
        "loader",
        "batches=",
        "list of pairs",
        "list of lists",
        "iterator",
    ],
)
def test_every_form_says_the_same(by_pair, call):
    assert same(call(mlp()), by_pair)


def test_a_shuffling_loader_moves_no_random_numbers():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    bs.diagnose(mlp(), DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True))
    torch.manual_seed(3)
    assert torch.equal(before, torch.get_rng_state())


def test_a_loss_by_name():
    target = X.sum(1, keepdim=True)
    by_name = bs.diagnose(mlp(1), X, target, loss="mse")
    assert same(by_name, bs.diagnose(mlp(1), (X, target), loss=F.mse_loss))


def test_two_inputs_and_two_targets_are_one_batch():
    a, b = torch.zeros(4, 3), torch.zeros(4, 5)
    assert is_batch(((a, b), (Y, Y)))
    assert is_batch([[a, b], [Y, Y]])
    assert is_batch([[a, a], [a, a]])  # nothing says otherwise: torch's loaders give this form
    assert first_batch(((a, b), (Y, Y)))[0] == (a, b)


def test_batch_and_batches_are_one_too_many():
    with pytest.raises(UsageError, match="one of them is enough"):
        bs.diagnose(mlp(), (X, Y), batches=[(X, Y)])


def test_batches_by_one_name_everywhere():
    batches = [(X, Y)]
    model = mlp()
    assert bs.forecast(model, batches=batches, loss="cross-entropy").spent
    assert bs.hessian(model, batches=batches, loss="cross-entropy").shape[0] > 0


def _lightning():
    return installed("lightning").LightningModule


def lightning_module(base):
    class Classifier(base):
        def __init__(self):
            super().__init__()
            self.network = mlp()

        def training_step(self, batch, index):
            x, y = batch
            return F.cross_entropy(self.network(x), y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Classifier()


def test_a_lightning_module_with_its_loader(by_pair):
    module = lightning_module(_lightning())
    before = copy.deepcopy(module.state_dict())
    result = bs.diagnose(module, DataLoader(TensorDataset(X, Y), batch_size=32))
    assert result.title == "Classifier"
    assert [b.name for b in result.blocks] == [f"network.{b.name}" for b in by_pair.blocks]
    ratio = "gradients.norm_out"
    assert result.table[ratio].tolist() == pytest.approx(by_pair.table[ratio].tolist(), rel=1e-5)
    assert "updates" in result.measurements  # by the optimizer that it configures
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())


def test_a_lightning_module_without_data():
    module = lightning_module(_lightning())
    with pytest.raises(UsageError, match=r"diagnose\(module, loader\)"):
        bs.diagnose(module)


class Own(nn.Module):
    """A model that computes its own loss, as those of transformers do."""

    def __init__(self):
        super().__init__()
        self.network = mlp()

    def forward(self, x, labels=None):
        logits = self.network(x)
        loss = None if labels is None else F.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return {"x": X[i], "labels": Y[i]}


@pytest.mark.parametrize("overridden", [False, True])
def test_a_trainer_of_hugging_face(tmp_path, by_pair, overridden):
    transformers = installed("transformers", "accelerate")

    class Weighted(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            output = model(**inputs)
            return (output["loss"] * 2, output) if return_outputs else output["loss"] * 2

    options = transformers.TrainingArguments(
        str(tmp_path), per_device_train_batch_size=32, report_to=[], use_cpu=True
    )
    kind = Weighted if overridden else transformers.Trainer
    trainer = kind(model=Own(), args=options, train_dataset=Rows())
    result = bs.diagnose(trainer)
    assert trainer.optimizer is None
    assert result.title == "Own"
    assert [b.name for b in result.blocks] == [f"network.{b.name}" for b in by_pair.blocks]
    norm = "gradients.norm_out"
    ratio = result.table[norm].to_numpy() / by_pair.table[norm].to_numpy()
    assert ratio.tolist() == pytest.approx([2.0 if overridden else 1.0] * len(ratio), rel=1e-4)
    assert "updates" in result.measurements  # by the optimizer that it would make


class _Trainer:
    """What is used of a trainer of Hugging Face, which need not be installed."""

    def compute_loss(self, model, inputs, return_outputs=False):
        raise AssertionError("the model's own loss is asked")

    def __init__(self, model, dataset):
        self.model, self.dataset, self.optimizer = model, dataset, None
        self.args = types.SimpleNamespace(learning_rate=1e-8)

    def get_train_dataloader(self):
        return DataLoader(self.dataset, batch_size=16, shuffle=True)

    def _prepare_inputs(self, inputs):
        return inputs

    def create_optimizer(self):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-8)
        return self.optimizer


_Trainer.__name__, _Trainer.__module__ = "Trainer", "transformers.trainer"


def _treated(trainer):
    result = bs.diagnose(trainer)
    done = bs.treat(trainer, result, allow="settings", spend=300)
    assert done.untreated_by == "AdamW at 1e-08"  # it was SGD at 0.1
    assert done.num_batches == len(X) // 16  # of its own loader
    assert trainer.optimizer is None
    assert bs.forecast(trainer, budget=50, spend=4).spent == 4


def test_what_has_the_form_of_a_trainer_is_treated_and_forecast():
    """`treat(trainer, diagnosis)` asked for a module made "from a name"."""
    torch.manual_seed(0)
    _treated(_Trainer(Own(), Rows()))


def test_settings_found_for_a_trainer_are_printed_as_its_arguments():
    x = torch.randn(96, 6, generator=torch.Generator().manual_seed(1))
    rows = [{"x": one, "labels": one[:4].argmax()} for one in x]
    trainer = _Trainer(Own(), rows)
    done = bs.treat(trainer, bs.diagnose(trainer), allow="settings", spend=300)
    printed = re.search(r"# TrainingArguments\(.*learning_rate=([^,)]+)", done.code())
    assert float(printed[1]) == pytest.approx(done.optimizer.param_groups[0]["lr"], rel=1e-4)


def test_a_trainer_is_diagnosed_in_the_mode_in_which_it_trains():
    """`from_pretrained` gives models in eval mode, and `train()` of a trainer sets train mode."""
    model = Own()
    model.network.append(torch.nn.Dropout(0.1))
    model.eval()
    model.network[0].train()
    modes = [part.training for part in model.modules()]
    result = bs.diagnose(_Trainer(model, Rows()))
    assert result.provenance["mode"] == "train"
    assert "eval-mode" not in [f.code for f in result.findings]
    assert [part.training for part in model.modules()] == modes
    alone = bs.diagnose(model, next(iter(DataLoader(Rows(), batch_size=16))), loss=None)
    assert "eval-mode" in [f.code for f in alone.findings]


def test_a_trainer_is_treated_and_forecast_with_its_own_optimizer(tmp_path):
    transformers = installed("transformers", "accelerate")
    options = transformers.TrainingArguments(
        str(tmp_path),
        per_device_train_batch_size=16,
        report_to=[],
        use_cpu=True,
        learning_rate=1e-8,
    )
    torch.manual_seed(0)
    _treated(transformers.Trainer(model=Own(), args=options, train_dataset=Rows()))


def test_a_lightning_module_is_forecast_with_its_own_step():
    module = lightning_module(_lightning())
    seen = bs.forecast(module, DataLoader(TensorDataset(X, Y), batch_size=16), budget=50, spend=4)
    assert seen.spent == 4


def test_treat_takes_the_optimizer_of_the_diagnosis():
    torch.manual_seed(0)
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-8)
    x = torch.randn(64, 6)
    result = bs.diagnose(model, (x, x[:, :4].argmax(1)), optimizer=optimizer)
    done = bs.treat(model, result, allow="settings", spend=300)
    assert "untreated (AdamW at 1e-08)" in done.outcome


def test_something_that_holds_a_model_is_told_to_give_it():
    class Holder:
        model = mlp()

    with pytest.raises(UsageError, match=r"give its \.model"):
        bs.forecast(Holder(), [(X, Y)])
