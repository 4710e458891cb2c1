"""Small data sets and models that the programs of this folder share."""

import itertools
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

Train = Callable[[bool, int], float]


@cache
def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """1,200 training and 597 test images of 8 by 8 pixels, standardized, in a fixed random order."""
    data = load_digits()
    x = torch.tensor(data.data, dtype=torch.float32)
    y = torch.tensor(data.target)
    x = (x - x.mean()) / x.std()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    return x[:1200], y[:1200], x[1200:], y[1200:]


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def batches(num: int, size: int, *arrays: Tensor):
    """Random batches, drawn with replacement from the default generator."""
    for _ in range(num):
        index = torch.randint(len(arrays[0]), (size,))
        yield tuple(array[index] for array in arrays)


@torch.no_grad()
def held_out_loss(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Mean cross-entropy in eval mode, which is left as it was."""
    was_training = model.training
    model.eval()
    loss = float(F.cross_entropy(model(x).float(), y))
    model.train(was_training)
    return loss


@torch.no_grad()
def held_out_error(model: nn.Module, x: Tensor, y: Tensor) -> float:
    was_training = model.training
    model.eval()
    error = float((model(x).argmax(1) != y).float().mean())
    model.train(was_training)
    return error


def run_as_script(train: Train) -> None:
    """What `python program.py [--corrected] [--seed N]` does: train, and print the final score."""
    seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 0
    print(f"score {train('--corrected' not in sys.argv, seed):.6f}")


def on_two_ranks(train: Callable[[int], float]) -> float:
    """Run a function as rank 0 here and as rank 1 in a forked process, joined by gloo."""
    import torch.distributed as dist

    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        child = os.fork()
        rank = 1 if child == 0 else 0
        try:
            dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=2)
            score = train(rank)
            dist.barrier()
            dist.destroy_process_group()
        except BaseException:
            if rank:
                traceback.print_exc()
                os._exit(1)
            raise
        if rank:
            os._exit(0)
        os.waitpid(child, 0)
    return score
