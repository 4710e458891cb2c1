"""Every singular value of a convolution against an SVD of the kernel's transform at every frequency.

`ratio` is the SVD's CPU time over ours; `error` the largest relative error of a float32 value,
against the same spectrum in float64.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from bathyscope.linalg import conv_singular_values
from benchmarks.interleaved import interleaved

_CASES = ((16, 64, 32), (64, 64, 16), (64, 128, 16), (128, 256, 8))


def svd_of_every_frequency(kernel: Tensor, size: int) -> Tensor:
    """What theorem 3 says, written down: a two-dimensional transform and an SVD a frequency."""
    matrices = torch.fft.fft2(kernel, s=(size, size)).permute(2, 3, 0, 1)
    return torch.linalg.svdvals(matrices).flatten().sort(descending=True).values


def lines(*, rounds: int = 1) -> Iterator[dict[str, Any]]:
    torch.set_num_threads(1)
    for inputs, outputs, size in _CASES:
        kernel = (
            torch.randn(outputs, inputs, 3, 3, generator=torch.Generator().manual_seed(0))
            * (2 / (9 * inputs)) ** 0.5
        )
        calls: dict[str, Callable[[], object]] = {
            "ours": lambda kernel=kernel, size=size: conv_singular_values(kernel, size),
            "svd": lambda kernel=kernel, size=size: svd_of_every_frequency(kernel, size),
        }
        times = interleaved(calls, repeats=9 * rounds)
        exact = svd_of_every_frequency(kernel.double(), size)
        error = (conv_singular_values(kernel, size).values / exact - 1).abs().max().item()
        yield {
            "benchmark": "conv_spectrum",
            "case": f"{inputs}→{outputs} 3×3 at {size}×{size}",
            "ratio": round(times["ours"].ratio_to(times["svd"]), 2),
            "noise": round(times["ours"].spread_to(times["svd"]), 2),
            "ours_ms": round(1e3 * times["ours"].median_cpu, 2),
            "svd_ms": round(1e3 * times["svd"].median_cpu, 2),
            "ours_wall_ms": round(1e3 * times["ours"].median_wall, 2),
            "svd_wall_ms": round(1e3 * times["svd"].median_wall, 2),
            "error": error,
        }
