import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.runs import read_run, table
from bathyscope.training.trackers import huggingface_callback
from tests.zoo import installed


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x, labels=None):
        output = self.layer(x)
        return {"loss": nn.functional.mse_loss(output, labels), "logits": output}


def test_what_a_trainer_logs_is_a_run(tmp_path):
    transformers = installed("transformers", "accelerate")
    x = torch.randn(32, 2)
    rows = [{"x": row, "labels": row[:1]} for row in x]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "hf"),
        num_train_epochs=2,
        per_device_train_batch_size=8,
        learning_rate=0.1,
        logging_steps=1,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        optim="sgd",
    )
    trainer = transformers.Trainer(
        model=Line(),
        args=arguments,
        train_dataset=rows,
        eval_dataset=rows,
        callbacks=[huggingface_callback(tmp_path / "runs", "line", settings={"lr": 0.1})],
    )
    trainer.train()
    assert table(tmp_path / "runs")["status"].tolist() == ["finished"]
    metrics = read_run(next((tmp_path / "runs").iterdir()))[2]
    steps = [r for r in metrics if r["kind"] == "step" and "loss" in r]
    assert [r["step"] for r in steps] == list(range(1, 9))
    assert {"loss", "gradient_norm", "lr"} <= set(steps[0])
    assert len([r for r in metrics if r["kind"] == "epoch" and "test_loss" in r]) == 2


def test_without_transformers_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UsageError, match=r"bathyscope\[hf\]"):
        huggingface_callback(tmp_path, "line")


def test_what_a_log_holds_is_written_and_an_empty_one_is_not(tmp_path, monkeypatch):
    """Without transformers: the calls that a Trainer makes."""
    monkeypatch.setitem(
        sys.modules, "transformers", SimpleNamespace(TrainerCallback=type("Callback", (), {}))
    )
    callback = huggingface_callback(tmp_path, "mine")
    state = SimpleNamespace(is_world_process_zero=True, global_step=3)
    callback.on_train_begin(None, state, None)
    callback.on_log(None, state, None, logs={})
    callback.on_log(None, state, None, logs={"loss": 2.0, "grad_norm": 5.0, "note": "word"})
    callback.on_log(None, state, None, logs={"eval_loss": 1.0})
    callback.on_train_end(None, state, None)
    (folder,) = tmp_path.iterdir()
    _, manifest, records = read_run(folder)
    assert manifest.status == "finished"
    assert [(r["kind"], r["step"]) for r in records] == [("step", 3), ("epoch", 3)]
    assert (records[0]["loss"], records[0]["gradient_norm"]) == (2.0, 5.0)
    assert records[1]["test_loss"] == 1.0
