import pytest
import torch
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.runs import read_run, table
from bathyscope.training.trackers import lightning_callback
from tests.zoo import installed


def test_what_a_module_logs_is_a_run(tmp_path):
    lightning = installed("lightning.pytorch")

    class Line(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1)

        def training_step(self, batch, _):
            loss = nn.functional.mse_loss(self.layer(batch[0]), batch[1])
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch, _):
            self.log("test_loss", nn.functional.mse_loss(self.layer(batch[0]), batch[1]))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    x = torch.randn(32, 2)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x[:, :1]), batch_size=8)
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path / "lightning",
        callbacks=[lightning_callback(tmp_path / "runs", "line", settings={"lr": 0.1})],
    )
    trainer.fit(Line(), loader, loader)
    assert table(tmp_path / "runs")["status"].tolist() == ["finished"]
    metrics = read_run(next((tmp_path / "runs").iterdir()))[2]
    steps = [r for r in metrics if r["kind"] == "step"]
    assert [r["step"] for r in steps] == list(range(1, 9))
    assert steps[-1]["loss"] < steps[0]["loss"]
    assert len([r for r in metrics if r["kind"] == "epoch" and "test_loss" in r]) == 2


def test_without_lightning_the_error_says_what_to_install(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    with pytest.raises(UsageError, match=r"bathyscope\[lightning\]"):
        lightning_callback(tmp_path, "line")
