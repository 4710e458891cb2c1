"""HOSVD singular values by Gram matrices beside tensorly's SVD of every unfolding."""

from collections.abc import Iterator
from statistics import median
from time import process_time
from typing import Any

import tensorly
import torch
from tensorly.tenalg import svd_interface
from torch import Tensor

from bathyscope.linalg import hosvd_of

SHAPE = (128, 64, 32, 32)


def _by_tensorly(tensor: Tensor) -> list[Tensor]:
    values = []
    for mode in range(tensor.ndim):
        unfolding = tensorly.unfold(tensor, mode)
        values.append(svd_interface(unfolding, n_eigenvecs=min(unfolding.shape))[1])
    return values


def lines(*, repeats: int = 3) -> Iterator[dict[str, Any]]:
    """One line a case: representations after a ReLU, well conditioned and with a weak direction."""
    tensorly.set_backend("pytorch")
    generator = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        for case in ("well conditioned", "weak direction"):
            tensor = torch.randn(SHAPE, generator=generator).relu().to(dtype)
            if case == "weak direction":  # one channel 1e-4 of the others: the first Gram gives way
                tensor[:, 0] *= 1e-4
            ours, theirs = [], []
            for _ in range(repeats):
                start = process_time()
                found = hosvd_of(tensor)
                middle = process_time()
                reference = _by_tensorly(tensor)
                ours.append(middle - start)
                theirs.append(process_time() - middle)
            worst = max(
                ((f.singular_values - r).abs().max() / r[0]).item()
                for f, r in zip(found, reference, strict=True)
            )
            yield {
                "benchmark": "hosvd",
                "case": f"{'x'.join(map(str, SHAPE))}, {str(dtype)[6:]}, {case}",
                "ratio": round(median(theirs) / median(ours), 2),
                "seconds": round(median(ours), 3),
                "tensorly_seconds": round(median(theirs), 3),
                "largest_difference": worst,
                "how": [f.how for f in found],
            }
