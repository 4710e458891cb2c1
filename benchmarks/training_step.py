"""A training step of `resnet-110` and `preresnet-164` against networks of the same layers written by hand.

`ratio` is the hand-written network's CPU time over ours: at least 1, within noise, means not slower.
"""

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import nets
from benchmarks.interleaved import interleaved

_BATCH = 16


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and an option A shortcut, as one would write them down."""

    def __init__(self, in_planes: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.stride, self.extra = stride, planes - in_planes

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.extra:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.extra))
        return F.relu(out + x)


class PreActBottleneck(nn.Module):
    """Three pre-activated convolutions and a projection after batch normalization and ReLU."""

    def __init__(self, in_planes: int, planes: int, stride: int) -> None:
        super().__init__()
        inner = planes // 4
        self.bn1 = nn.BatchNorm2d(in_planes)
        self.conv1 = nn.Conv2d(in_planes, inner, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, planes, 1, bias=False)
        self.projects = in_planes != planes
        if self.projects:
            self.skip_bn = nn.BatchNorm2d(in_planes)
            self.skip = nn.Conv2d(in_planes, planes, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        out = self.conv1(F.relu(self.bn1(x)))
        out = self.conv2(F.relu(self.bn2(out)))
        out = self.conv3(F.relu(self.bn3(out)))
        return out + (self.skip(F.relu(self.skip_bn(x))) if self.projects else x)


class ByHand(nn.Module):
    """Stem, three stages of blocks, average pooling and classifier."""

    def __init__(
        self, block: Callable[[int, int, int], nn.Module], n: int, widths: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        blocks, planes = [], 16
        for stage, width in enumerate(widths):
            for i in range(n):
                blocks.append(block(planes, width, 2 if stage and i == 0 else 1))
                planes = width
        self.blocks = nn.Sequential(*blocks)
        self.last_bn = nn.BatchNorm2d(planes) if block is PreActBottleneck else None
        self.fc = nn.Linear(planes, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.blocks(F.relu(self.bn(self.conv(x))))
        if self.last_bn is not None:
            x = F.relu(self.last_bn(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def training_step(model: nn.Module, *, batch: int = _BATCH) -> Callable[[], None]:
    """A function that takes one SGD step on a fixed batch of 32×32 images."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, 3, 32, 32, generator=generator)
    y = torch.randint(10, (batch,), generator=generator)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def lines(*, rounds: int = 1) -> Iterator[dict[str, Any]]:
    """One line per network."""
    torch.set_num_threads(1)
    cases = {
        "resnet-110": ByHand(BasicBlock, 18, (16, 32, 64)),
        "preresnet-164": ByHand(PreActBottleneck, 18, (64, 128, 256)),
    }
    for name, by_hand in cases.items():
        ours = nets.build(name, seed=0)
        copy_weights(ours, by_hand)
        steps = {"ours": training_step(ours), "by_hand": training_step(by_hand)}
        times = interleaved(steps, repeats=5 * rounds)
        yield {
            "benchmark": "training_step",
            "case": f"{name}, batch {_BATCH}",
            "ratio": round(times["ours"].ratio_to(times["by_hand"]), 4),
            "ratio_of_fastest": round(times["ours"].fastest_ratio_to(times["by_hand"]), 4),
            "noise": round(times["ours"].spread_to(times["by_hand"]), 4),
            "cpu_seconds": round(times["ours"].median_cpu, 4),
            "cpu_seconds_by_hand": round(times["by_hand"].median_cpu, 4),
            "wall_seconds": round(times["ours"].median_wall, 4),
            "wall_seconds_by_hand": round(times["by_hand"].median_wall, 4),
            "repeats": len(times["ours"].cpu),
        }

    yield from _compiled(repeats=11 * rounds)


def _compiled(*, repeats: int) -> Iterator[dict[str, Any]]:
    """A step of compiled networks; `ratio` is the plain step's CPU time over that of the compiled one."""
    torch.manual_seed(0)
    mlp = nn.Sequential(
        *(nn.Flatten(), nn.Linear(3072, 256), nn.ReLU()),
        *(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)),
    )
    for name, plain in (
        ("an MLP of 3 layers", mlp),
        ("resnet-8", nets.build("resnet-8", seed=0)),
    ):
        compiled = torch.compile(copy.deepcopy(plain))
        steps = {"compiled": training_step(compiled), "plain": training_step(plain)}
        began = time.process_time()
        try:
            steps["compiled"]()
        except RuntimeError as error:  # no compiler here
            why = str(error).partition("\n")[0]
            yield {
                "benchmark": "training_step",
                "case": f"{name}, compiled",
                "ratio": None,
                "why": why,
            }
            continue
        compiling = time.process_time() - began
        times = interleaved(steps, repeats=repeats)
        yield {
            "benchmark": "training_step",
            "case": f"{name}, compiled, batch {_BATCH}",
            "ratio": round(times["compiled"].ratio_to(times["plain"]), 3),
            "noise": round(times["compiled"].spread_to(times["plain"]), 3),
            "cpu_seconds": round(times["compiled"].median_cpu, 4),
            "cpu_seconds_plain": round(times["plain"].median_cpu, 4),
            "compiling_cpu_seconds": round(compiling, 1),
            "repeats": len(times["plain"].cpu),
        }


def copy_weights(source: nn.Module, target: nn.Module) -> None:
    """Give the target the source's weights, layer by layer: the two must then compute the same."""
    state = dict(zip(target.state_dict(), source.state_dict().values(), strict=True))
    target.load_state_dict(state)
    x = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(source(x), target(x))
