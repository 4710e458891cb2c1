"""What the pages of the docs take for granted: a small network, a batch, a loop; and those of others."""

import shutil
import tarfile
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

import bathyscope as bs
from tests import zoo
from tests.report import specimens


def scene() -> dict[str, object]:
    """A small network, a batch, a loss, an optimizer, a loop of one's own."""
    torch.manual_seed(0)
    model = bs.nets.build("resnet-8", in_channels=1, width=1, seed=0)
    digits = bs.data.load("digits", normalize=True, num_train=32)
    x, y = digits.train_inputs[:16], digits.train_labels[:16]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def train(model):
        for _ in range(2):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    return {
        "torch": torch,
        "nn": torch.nn,
        "F": F,
        "bs": bs,
        "model": model,
        "x": x,
        "y": y,
        "batch": (x, y),
        "loader": [(x, y)],
        "batches": [(x, y)] * 3,
        "optimizer": optimizer,
        "report": specimens.clean(12),
        "opt": optimizer,
        "train": train,
        "build": lambda: bs.nets.build("resnet-8", in_channels=1, width=1, seed=0),
        "config": bs.training.TrainingConfig(epochs=1, batch_size=8),
        "v": torch.ones(sum(p.numel() for p in model.parameters())),
    }


def _copies_of_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive and a folder as people have them, made of what was fetched, and an empty cache."""
    cache = bs.data.cache_dir()
    with tarfile.open("cifar-10-binary.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(cache / "cifar-10", "cifar-10-batches-bin")
    shutil.copytree(cache / "mnist", "Downloads/mnist")
    monkeypatch.setenv("HOME", str(Path.cwd()))
    monkeypatch.setenv("BATHYSCOPE_DATA", str(Path.cwd() / "cache"))


def _pictures(_: pytest.MonkeyPatch) -> None:
    """A folder of images for each class."""
    generator = torch.Generator().manual_seed(0)
    for part in ("train", "test"):
        for kind in ("cats", "dogs"):
            folder = Path("pictures", part, kind)
            folder.mkdir(parents=True)
            for number in range(8):
                pixels = torch.randint(256, (8, 8, 3), generator=generator, dtype=torch.uint8)
                Image.fromarray(pixels.numpy()).save(folder / f"{number}.png")


FILES = {"data.md": _copies_of_sets, "scale.md": _pictures}
"""What a page takes for granted in the working folder."""


def scene_of_others(page: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The same with what others bring: a tokenizer, a trainer, a module. No weights are fetched."""
    if page == "timm.md":
        zoo.timm()
        return scene()
    return scene() | (_lightning() if page == "lightning.md" else _hugging_face(monkeypatch))


def _hugging_face(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A tokenizer of a few words, a small GPT-2 with random weights, a trainer of two steps."""
    transformers = zoo.installed("transformers", "accelerate", "tokenizers")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    texts = ["one line", "and another one"]
    phrase = sorted({word for text in texts for word in text.split()})
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *phrase])}
    splitting = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    splitting.pre_tokenizer = Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=splitting, pad_token="[PAD]", eos_token="[PAD]", unk_token="[UNK]"
    )
    config = transformers.GPT2Config(
        vocab_size=len(vocabulary), n_positions=8, n_embd=16, n_layer=3, n_head=2,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda _: tokenizer)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", lambda _: model)
    labels = tokenizer(texts, return_tensors="pt", padding=True)["input_ids"]
    arguments = transformers.TrainingArguments(
        output_dir="trainer", max_steps=2, report_to=[], save_strategy="no", use_cpu=True,
        disable_tqdm=True, logging_steps=1,
    )  # fmt: skip
    rows = [{"input_ids": row, "labels": row} for row in labels]
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows)
    return {
        "tokenizer": tokenizer,
        "texts": texts,
        "labels": labels,
        "model": model,
        "trainer": trainer,
    }


def _lightning() -> dict[str, object]:
    """A module that holds a network, its trainer of two steps, and a loader."""
    lightning = zoo.installed("lightning.pytorch")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

        def training_step(self, batch, _):
            return F.cross_entropy(self.network(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    quiet = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    samples = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.arange(8) % 3)
    return {
        "module": Module(),
        "trainer": lightning.Trainer(max_steps=2, **quiet),
        "Trainer": lightning.Trainer,
        "loader": torch.utils.data.DataLoader(samples, batch_size=4),
    }
