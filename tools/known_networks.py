"""The README's table: networks that everyone knows, at their published sizes, each diagnosed in a process.

    BATHYSCOPE_ZOO=1 .venv-zoo/bin/python -m tools.known_networks docs/known-networks.json

Weights are fresh, images and tokens are random, the optimizer is AdamW at 3e-4. Seconds are of CPU time in
one thread, of `diagnose` alone; memory is the largest resident size of the process less that before.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests import zoo


def _image_network(library: str, name: str) -> nn.Module:
    model: nn.Module
    if library == "timm":
        model = zoo.timm().create_model(name, num_classes=1000)
    else:
        model = getattr(zoo.torchvision_models(), name)()
    return model


class Logits(nn.Module):
    """The logits of a network of transformers, for a loss of one's own."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, tokens: Tensor) -> Tensor:
        """Of every position."""
        logits: Tensor = self.inner(input_ids=tokens).logits
        return logits


def _language_model(kind: str) -> nn.Module:
    library = zoo.transformers()
    if kind == "gpt2":
        return Logits(library.GPT2LMHeadModel(library.GPT2Config()))
    return Logits(library.BertForMaskedLM(library.BertConfig()))


def next_token(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of every position."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


NETWORKS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "ResNet-50": (lambda: _image_network("torchvision", "resnet50"), "images"),
    "ConvNeXt-T": (lambda: _image_network("torchvision", "convnext_tiny"), "images"),
    "ViT-S/16": (lambda: _image_network("timm", "vit_small_patch16_224"), "images"),
    "GPT-2 (124 M)": (lambda: _language_model("gpt2"), "causal"),
    "BERT-base": (lambda: _language_model("bert"), "masked"),
}


def batch_of(kind: str) -> tuple[Tensor, Tensor]:
    """Four images of 224 × 224, or two texts of 128 tokens with what is asked of each position."""
    generator = torch.Generator().manual_seed(0)
    if kind == "images":
        x = torch.randn(4, 3, 224, 224, generator=generator)
        return x, torch.randint(1000, (4,), generator=generator)
    vocabulary = 50257 if kind == "causal" else 30522
    tokens = torch.randint(1000, vocabulary, (2, 129), generator=generator)
    if kind == "causal":
        return tokens[:, :-1], tokens[:, 1:]
    masked = torch.rand(2, 128, generator=generator) < 0.15
    inputs = tokens[:, :128].masked_fill(masked, 103)  # BERT's own token for what is masked
    return inputs, tokens[:, :128].masked_fill(~masked, -100)


def measured(name: str) -> dict[str, Any]:
    """Verdict, findings, seconds and memory of one network."""
    import bathyscope as bs

    torch.manual_seed(0)
    build, kind = NETWORKS[name]
    model, batch = build(), batch_of(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loss = F.cross_entropy if kind == "images" else next_token
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    diagnosis = bs.diagnose(model, batch, loss=loss, optimizer=optimizer)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "network": name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "blocks": len(diagnosis.blocks),
        "batch": " × ".join(map(str, batch[0].shape)),
        "verdict": diagnosis.report().verdict.level,
        "findings": [f"{root.severity} {root.code}" for root in diagnosis.roots],
        "seconds": round(seconds, 1),
        "megabytes": round((peak - before) / 1024),
        "torch": torch.__version__,
    }


def main() -> None:
    """Measure each network in a process of its own and write them all."""
    if len(sys.argv) > 2:
        print(json.dumps(measured(sys.argv[2])))
        return
    rows = []
    for name in NETWORKS:
        command = [sys.executable, "-m", "tools.known_networks", "-", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        rows.append(json.loads(done.stdout.decode().splitlines()[-1]))
        print(rows[-1], file=sys.stderr)
        Path(sys.argv[1]).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
