"""HOSVD singular values by Gram matrices beside tensorly's SVD of every unfolding.

`ratio` is tensorly's CPU time over ours.
"""

from collections.abc import Iterator
from typing import Any

import tensorly
import torch
from tensorly.tenalg import svd_interface
from torch import Tensor

from bathyscope.linalg import hosvd_of
from benchmarks.interleaved import interleaved

_SHAPE = (128, 64, 32, 32)


def lines(*, rounds: int = 1) -> Iterator[dict[str, Any]]:
    """Representations after a ReLU, well conditioned and with a weak channel, in two precisions."""
    torch.set_num_threads(1)
    tensorly.set_backend("pytorch")
    for dtype in (torch.float32, torch.float64):
        for case in ("well conditioned", "weak channel"):
            yield _line(_representation(case, dtype), case, repeats=3 * rounds)


def _representation(case: str, dtype: torch.dtype) -> Tensor:
    tensor = torch.randn(_SHAPE, generator=torch.Generator().manual_seed(0)).relu().to(dtype)
    if case == "weak channel":  # so weak that the first Gram matrix does not decide
        tensor[:, 0] *= 1e-4
    return tensor


def _line(tensor: Tensor, case: str, *, repeats: int) -> dict[str, Any]:
    last: dict[str, list[Tensor]] = {}  # seconds of a call, so that none is for the numbers alone

    def reference() -> None:
        last["reference"] = _by_tensorly(tensor)

    result = hosvd_of(tensor)  # also ours is warm by this
    times = interleaved(
        {"ours": lambda: hosvd_of(tensor), "tensorly": reference}, repeats=repeats, warmup=0
    )
    worst = max(
        ((f.singular_values - r).abs().max() / r[0]).item()
        for f, r in zip(result, last["reference"], strict=True)
    )
    return {
        "benchmark": "hosvd",
        "case": f"{'x'.join(map(str, _SHAPE))}, {str(tensor.dtype)[6:]}, {case}",
        "ratio": round(times["ours"].ratio_to(times["tensorly"]), 2),
        "cpu_seconds": round(times["ours"].median_cpu, 3),
        "wall_seconds": round(times["ours"].median_wall, 3),
        "tensorly_cpu_seconds": round(times["tensorly"].median_cpu, 3),
        "largest_difference": worst,
        "how": [f.how for f in result],
        "repeats": repeats,
    }


def _by_tensorly(tensor: Tensor) -> list[Tensor]:
    unfoldings = [tensorly.unfold(tensor, mode) for mode in range(tensor.ndim)]
    return [svd_interface(u, n_eigenvecs=min(u.shape))[1] for u in unfoldings]
