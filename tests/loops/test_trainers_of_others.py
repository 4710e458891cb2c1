"""Healthy loops of Hugging Face's Trainer, Lightning, accelerate and peft: nothing is said of them."""

import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bathyscope.core.records import Severity
from bathyscope.diagnosis.loop import diagnose_loop
from bathyscope.recorder.ledger import Ledger
from tests.loops.language import WORDS, sentences
from tests.loops.tasks import digits, mlp
from tests.zoo import torchvision_models

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif("BATHYSCOPE_ZOO" not in os.environ, reason="needs the zoo's environment"),
]


@pytest.fixture(autouse=True, scope="module")
def operators():
    torchvision_models()  # which all of them import


def loader(size=32):
    x, y, _, _ = digits()
    return DataLoader(TensorDataset(x, y), size, shuffle=True)


def severe(loop):
    """What is found in a loop, other than notes, and the number of its steps."""
    torch.manual_seed(0)
    with Ledger(copies_first_step=True, most_steps=200) as ledger:
        loop()
    assert not ledger.record.notes
    found = diagnose_loop(ledger.record, ledger.first_step, ledger.later_steps).roots
    return [
        (f.code, f.title) for f in found if f.severity is not Severity.NOTE
    ], ledger.record.steps


class Sentences(torch.utils.data.Dataset):
    def __init__(self, num):
        self.tokens = sentences(num)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=WORDS, n_positions=16, n_embd=32, n_layer=2, n_head=2)
    return GPT2LMHeadModel(config)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_trainer_of_hugging_face(tmp_path, accumulation):
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(tmp_path), max_steps=60, per_device_train_batch_size=16, use_cpu=True,
        gradient_accumulation_steps=accumulation, learning_rate=3e-3, warmup_steps=6,
        report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=50,
    )  # fmt: skip

    def loop():
        Trainer(model=gpt2(), args=arguments, train_dataset=Sentences(2000)).train()

    assert severe(loop) == ([], 60)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_lightning(tmp_path, accumulation):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = mlp(64, 64, 10)

        def training_step(self, batch, index):
            x, y = batch
            return F.cross_entropy(self.model(x), y)

        def validation_step(self, batch, index):
            x, y = batch
            self.log("loss", F.cross_entropy(self.model(x), y))

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=80)
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": schedule, "interval": "step"},
            }

    def loop():
        trainer = lightning.Trainer(
            max_steps=60, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
            accumulate_grad_batches=accumulation, gradient_clip_val=1.0,
        )  # fmt: skip
        trainer.fit(Module(), loader(16), loader(64))

    assert severe(loop) == ([], 60)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_accelerate(accumulation):
    from accelerate import Accelerator

    def loop():
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulation)
        model = mlp(64, 64, 10)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 5))
        model, optimizer, data, schedule = accelerator.prepare(
            model, optimizer, loader(16), schedule
        )
        for _ in range(2 * accumulation):
            for x, y in data:
                with accelerator.accumulate(model):
                    loss = F.cross_entropy(model(x), y)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    schedule.step()
                    optimizer.zero_grad()

    found, steps = severe(loop)
    assert found == []
    assert steps >= 100


def test_adapters_of_peft():
    from peft import LoraConfig, get_peft_model

    def loop():
        base = gpt2()
        with torch.no_grad():  # stands for a checkpoint: not as an initializer draws
            for parameter in base.parameters():
                parameter.copy_(parameter.sign() * parameter.abs().sqrt() * 0.1 + parameter)
        model = get_peft_model(
            base, LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)
        )
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
        for _ in range(60):
            tokens = sentences(32)
            optimizer.zero_grad()
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()

    assert severe(loop) == ([], 60)


def test_a_model_of_the_real_compiler():
    def loop():
        model = torch.compile(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(2):
            for x, y in loader(48):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

    assert severe(loop) == ([], 50)
