"""What the Procrustes remedy costs and how well it holds, against the paper's way of doing it.

`ratio` is the other's CPU time over ours, the median over rounds; `ratio_of_smallest` that of the
smallest times, which other work on the machine disturbs least. `cold` is the first projection of
kernels as they were initialized, `warm` each later one. Percentages are of a training step of
procresnet-166 at batch 128 on 32×32 images, with a projection after every second step.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bathyscope import data, nets
from bathyscope.linalg import conv_singular_values
from bathyscope.linalg.conv_spectrum import spread_about
from bathyscope.remedies import procrustes_
from benchmarks.interleaved import Times, interleaved

# One call is short, and the first after other work pays for that work.
_COLD_CALLS, _WARM_CALLS = 4, 40
_TRANSITIONS = ((3, 64, 32), (64, 128, 16), (128, 256, 8))


def reference(kernel: Tensor, size: int) -> Tensor:
    """The projection as the authors' code does it, on the smaller Gram side, without its mirroring.

    A full transform, each complex matrix as a real one of twice the size, ten coupled iterations,
    the Gram matrix divided by its Frobenius norm where that exceeds one, then the cut.
    """
    d, c, k, _ = kernel.shape
    spectrum = torch.fft.fft2(kernel, s=(size, size)).permute(2, 3, 0, 1)
    top = torch.cat([spectrum.real, -spectrum.imag], -1)
    block = torch.cat([top, torch.cat([spectrum.imag, spectrum.real], -1)], -2)
    gram = block.mT @ block if c <= d else block @ block.mT
    norm = torch.linalg.matrix_norm(gram).clamp_min(1)[..., None, None]
    identity = torch.eye(gram.shape[-1])
    y, z = gram / norm, identity.expand_as(gram)
    for _ in range(10):
        t = 3 * identity - z @ y
        y, z = y @ t / 2, t @ z / 2
    root = z / norm.sqrt()
    block = block @ root if c <= d else root @ block
    projected = torch.complex(block[..., :d, :c], block[..., d:, :c]).permute(2, 3, 0, 1)
    gain = (d / min(d, c)) ** 0.5
    return gain * torch.fft.ifft2(projected).real[..., :k, :k]


def svd_projection(kernel: Tensor, size: int) -> Tensor:
    """The polar factor by an SVD at every frequency, then the cut."""
    d, c, k, _ = kernel.shape
    spectrum = torch.fft.fft2(kernel, s=(size, size)).permute(2, 3, 0, 1)
    left, _, right = torch.linalg.svd(spectrum, full_matrices=False)
    polar = (left @ right).permute(2, 3, 0, 1)
    return (d / min(d, c)) ** 0.5 * torch.fft.ifft2(polar).real[..., :k, :k]


def lines(*, rounds: int = 1) -> Iterator[dict[str, Any]]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    step = training_step_seconds()
    yield {"benchmark": "procrustes", "case": "training step, batch 128", "cpu_s": round(step, 3)}
    yield from own_layers(step, repeats=5 * rounds)
    yield from three_by_three(step, repeats=3 * rounds)
    yield from image_sizes(repeats=5 * rounds)
    yield from quality()


def training_step_seconds() -> float:
    """CPU seconds of a step of procresnet-166 at batch 128, after one on a few samples."""
    model = nets.build("procresnet-166", num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(128, 3, 32, 32), torch.randint(10, (128,))
    seconds = 0.0
    for size in (8, 128):
        began = time.process_time()
        optimizer.zero_grad()
        functional.cross_entropy(model(x[:size]), y[:size]).backward()
        optimizer.step()
        seconds = time.process_time() - began
    return seconds


def own_layers(step: float, *, repeats: int) -> Iterator[dict[str, Any]]:
    """The three transition layers of procresnet-166: a 3×3 stem and two 1×1 convolutions."""
    layers = nets.build("procresnet-166", num_classes=10).transition_layers()
    sizes = dict(zip(layers, (32, 16, 8), strict=True))
    kernels = {name: layer.weight.detach().clone() for name, layer in layers.items()}
    calls = _ours(layers) | {
        "reference": lambda: [reference(kernels[name], sizes[name]) for name in layers]
    }
    times = interleaved(calls, repeats=repeats)
    for kind, count in (("cold", _COLD_CALLS), ("warm", _WARM_CALLS)):
        yield _line(f"procresnet-166's own layers, {kind}", times, kind, count, step)


def three_by_three(step: float, *, repeats: int) -> Iterator[dict[str, Any]]:
    """3×3 transitions, each alone and all together."""
    for cases in ([case] for case in _TRANSITIONS):
        yield from _transitions(cases, step, repeats=repeats)
    yield from _transitions(list(_TRANSITIONS), step, repeats=repeats)


def _transitions(
    cases: list[tuple[int, int, int]], step: float, *, repeats: int
) -> Iterator[dict[str, Any]]:
    layers = {f"{c}→{d}": nn.Conv2d(c, d, 3, padding=1, bias=False) for c, d, _ in cases}
    sizes = [size for _, _, size in cases]
    kernels = [layer.weight.detach().clone() for layer in layers.values()]
    calls = _ours(layers) | {
        "reference": lambda: [reference(k, n) for k, n in zip(kernels, sizes, strict=True)],
        "svd": lambda: [svd_projection(k, n) for k, n in zip(kernels, sizes, strict=True)],
    }
    times = interleaved(calls, repeats=repeats, warmup=0)
    line = _line(f"3×3 {', '.join(layers)}, warm", times, "warm", _WARM_CALLS, step)
    line["ratio_to_svd"] = round(_WARM_CALLS * times["warm"].ratio_to(times["svd"]), 1)
    line["cold_ms"] = round(1e3 * times["cold"].median_cpu / _COLD_CALLS, 2)
    yield line


def image_sizes(*, repeats: int) -> Iterator[dict[str, Any]]:
    """A warm projection of a 64→128 layer that works on images of 8 to 56 pixels."""
    calls: dict[str, Callable[[], object]] = {}
    for size in (8, 16, 28, 56):
        layer = nn.Conv2d(64, 128, 3, padding=1, bias=False)
        layer(torch.randn(1, 64, size, size))
        calls[str(size)] = _ours({"layer": layer})["warm"]
    times = interleaved(calls, repeats=repeats)
    median = {name: t.median_cpu / _WARM_CALLS for name, t in times.items()}
    yield {
        "benchmark": "procrustes",
        "case": "64→128 3×3, warm, image of 8 to 56 pixels",
        "ratio": round(max(median.values()) / min(median.values()), 3),
        "lower_is_better": True,
        "ms": {name: round(1e3 * value, 3) for name, value in median.items()},
    }


def quality() -> Iterator[dict[str, Any]]:
    """Spread of 3×3 transitions after 24 steps on digits, against one exact projection and cut."""
    digits = data.load("digits")
    torch.manual_seed(0)
    widths = (1, 64, 128, 256)
    convs = [nn.Conv2d(c, d, 3, padding=1, bias=False) for c, d in pairwise(widths)]
    body = [m for conv in convs for m in (conv, nn.BatchNorm2d(conv.out_channels), nn.ReLU())]
    model = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))
    treated = {f"{conv.in_channels}→{conv.out_channels}": conv for conv in convs}
    once = {name: _spread(svd_projection(c.weight.detach(), 16)) for name, c in treated.items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    procrustes_(optimizer, treated)
    order = torch.Generator().manual_seed(0)
    for _ in range(24):
        batch = torch.randint(len(digits.train_labels), (128,), generator=order)
        loss = functional.cross_entropy(
            model(digits.train_inputs[batch]), digits.train_labels[batch]
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for name, conv in treated.items():
        spread = _spread(conv.weight.detach())
        yield {
            "benchmark": "procrustes",
            "case": f"spread of {name} 3×3 after 24 steps on digits",
            "ratio": round(once[name] / spread, 2),
            "spread": round(spread, 4),
            "projected_once": round(once[name], 4),
        }


def _ours(layers: Mapping[str, nn.Module]) -> dict[str, Callable[[], object]]:
    parameters = [layer.weight for layer in layers.values()]
    handle = procrustes_(torch.optim.SGD(parameters, lr=0.1), layers)  # type: ignore[arg-type]
    raw = [p.detach().clone() for p in parameters]

    def cold() -> None:
        for _ in range(_COLD_CALLS):
            with torch.no_grad():
                for parameter, kernel in zip(parameters, raw, strict=True):
                    parameter.copy_(kernel)  # type: ignore[operator]
            handle.project()

    def warm() -> None:
        for _ in range(_WARM_CALLS):
            handle.project()

    cold()
    return {"cold": cold, "warm": warm}


def _line(
    case: str, times: Mapping[str, Times], kind: str, count: int, step: float
) -> dict[str, Any]:
    ours = times[kind].median_cpu / count
    return {
        "benchmark": "procrustes",
        "case": case,
        "ratio": round(count * times[kind].ratio_to(times["reference"]), 1),
        "ratio_of_smallest": round(min(times["reference"].cpu) * count / min(times[kind].cpu), 1),
        "ours_ms": round(1e3 * ours, 3),
        "ours_smallest_ms": round(1e3 * min(times[kind].cpu) / count, 3),
        "ours_wall_ms": round(1e3 * times[kind].median_wall / count, 3),
        "reference_ms": round(1e3 * times["reference"].median_cpu, 1),
        "percent_of_a_step": round(100 * ours / 2 / step, 4),
    }


def _spread(kernel: Tensor) -> float:
    d, c = kernel.shape[:2]
    return spread_about(conv_singular_values(kernel, 16).values, (d / min(d, c)) ** 0.5)
