"""Loops and trackers of others, each with the real package; skipped where it is not installed."""

import torch
from torch import nn

from bathyscope import diagnosis
from bathyscope.recorder import watch
from tests.recorder.trainings import ResidualNet, train
from tests.zoo import installed


def tokens(count=16, length=8, vocabulary=20):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(vocabulary, (count, length), generator=generator)


def small_gpt2(transformers):
    config = transformers.GPT2Config(
        vocab_size=20, n_positions=8, n_embd=16, n_layer=3, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)


def test_a_hugging_face_trainer(tmp_path):
    transformers = installed("transformers", "accelerate")
    torch.manual_seed(0)
    model = small_gpt2(transformers)
    rows = [{"input_ids": row, "labels": row} for row in tokens()]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=5,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows)
    with watch(model, every=2) as seen:
        trainer.train()
    assert seen.steps == 5
    assert "transformer.h.1" in set(seen.table.block)
    assert not seen.events
    assert torch.isfinite(torch.tensor(seen.recording.history.losses)).all()


def test_adapters_by_peft():
    transformers, peft = installed("transformers"), installed("peft")
    torch.manual_seed(0)
    config = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
    model = peft.get_peft_model(small_gpt2(transformers), config)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    batch = tokens(4)
    with watch(model, every=2) as seen:
        for _ in range(5):
            optimizer.zero_grad()
            model(input_ids=batch, labels=batch).loss.backward()
            optimizer.step()
    assert seen.steps == 5
    assert not seen.events
    # only the adapters train, and they belong to the blocks that hold them
    assert len(seen.recording.groups.labels) == 3


def test_lightning(tmp_path):
    lightning = installed("lightning.pytorch")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = ResidualNet()

        def training_step(self, batch, index):
            x, y = batch
            return nn.functional.cross_entropy(self.network(x), y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.05)

    torch.manual_seed(0)
    module = Module()
    x = torch.randn(64, 16)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, x[:, :4].argmax(1)), batch_size=8
    )
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        default_root_dir=tmp_path,
    )
    with watch(module.network, every=4) as seen:
        trainer.fit(module, loader)
    assert seen.steps == 8
    assert not seen.events


def forgetful(tracker):
    """A loop that never clears its gradients, and a network that cannot train, both in a tracker."""
    torch.manual_seed(0)
    model = nn.Sequential(*[m for _ in range(3) for m in (nn.Linear(8, 8), nn.ReLU())])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with watch(model, every=1, tracker=tracker):
        for _ in range(8):
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
    with torch.no_grad():
        model[0].bias.fill_(-100.0)
    x, y = torch.randn(16, 8), torch.arange(16) % 8
    diagnosis.diagnose(model, x, y).log_to(tracker, step=8)


def test_tensorboard_gets_findings(tmp_path):
    installed("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        forgetful(writer)
    read = EventAccumulator(str(tmp_path))
    read.Reload()
    assert {"finding/gradients-not-cleared", "finding/dead-units"} <= set(read.Tags()["scalars"])
    (text,) = read.Tensors("finding/dead-units/text_summary")
    assert b"What helps" in text.tensor_proto.string_val[0]


def test_mlflow_gets_findings(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = installed("mlflow")
    mlflow.set_tracking_uri(f"file://{tmp_path}")
    mlflow.set_experiment("findings")
    with mlflow.start_run() as run:
        forgetful(mlflow)
    data = mlflow.MlflowClient().get_run(run.info.run_id).data
    assert data.metrics["finding/dead-units"] >= 2
    assert "zero_grad" in data.tags["finding/gradients-not-cleared"]


def test_wandb_gets_findings_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    wandb = installed("wandb")
    with wandb.init(mode="offline", dir=tmp_path, project="bathyscope") as run:
        forgetful(run)
        summary = dict(run.summary)
    assert summary["finding/dead-units"] >= 2
    assert "zero_grad" in summary["finding/gradients-not-cleared/text"]


def test_tensorboard_gets_the_names_that_all_trackers_get(tmp_path):
    installed("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(tmp_path)
    train("residual", seed=0, steps=3, every=1, tracker=writer)
    writer.close()
    read = EventAccumulator(str(tmp_path))
    read.Reload()
    assert "blocks.0/std" in read.Tags()["scalars"]


def test_mlflow(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = installed("mlflow")
    mlflow.set_tracking_uri(f"file://{tmp_path}")
    mlflow.set_experiment("watched")
    with mlflow.start_run() as run:
        train("residual", seed=0, steps=3, every=1, tracker=mlflow)
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "blocks.0/std")
    assert [m.step for m in history] == [0, 1, 2]


def test_wandb_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    wandb = installed("wandb")
    with wandb.init(mode="offline", dir=tmp_path, project="bathyscope") as run:
        train("residual", seed=0, steps=3, every=1, tracker=run)
        assert "blocks.0/std" in dict(run.summary)
