"""The quantities of the four papers in a transformer, block by block."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope import measure
from bathyscope.claims.reading import numbers_of
from bathyscope.core.blocks import blocks_of
from bathyscope.core.hooks import Hooks
from bathyscope.core.losses import token_cross_entropy
from bathyscope.curvature import hessian
from bathyscope.measure.tokens import token_similarity
from bathyscope.papers.beyond.studies.causes import StartAndEnd
from bathyscope.training import Examples, LoopView

_CURVATURE_SAMPLES = 8
KIND = "block"
"""The kind of record that holds a block's numbers."""


class BlockWatcher(StartAndEnd):
    """Measures every block before the first step and after the last.

    Args:
        probe: the sequences to measure on.
        curvature: at how many blocks, from the first to the last, the ends of the Hessian's spectrum
            are measured; they take most of the time.
    """

    def __init__(self, probe: Examples, *, curvature: int) -> None:
        self.probe = probe
        self.curvature = curvature

    def measure(self, loop: LoopView, moment: str) -> None:
        """Log every block, as a record of its kind."""
        rows = block_rows(loop.model, self.probe)
        count = len(rows)
        chosen = {
            round(i * (count - 1) / max(1, self.curvature - 1)) for i in range(self.curvature)
        }
        for index, row in enumerate(rows):
            if index in chosen:
                row |= spectrum_ends(loop.model, self.probe, index)
            loop.log({"kind": KIND, "moment": moment, "block": index} | row)


def block_rows(model: nn.Module, probe: Examples) -> list[dict[str, float]]:
    """A row for every block of a transformer of the catalog, of its output on some sequences.

    `rank`, `stable_rank`, `condition`: of each sequence's tokens × features (singularity), see
    `token_conditioning`. `similarity`: mean cosine of two tokens. `gradient_norm`: ‖∂E/∂x‖ at the block's
    output, `gradient_ratio`: over that at its input (norm_preservation). `accuracy`: of the network, the
    same in every row.
    """
    named = [f"blocks.{i}" for i, _ in enumerate(model.get_submodule("blocks").children())]
    blocks = blocks_of(model, probe[0], blocks=named)
    gradients = measure.gradients(model, probe, loss=token_cross_entropy, blocks=blocks)
    norms, ratios = numbers_of(gradients, "norm_out"), numbers_of(gradients, "ratio")
    outputs, logits = _block_outputs(model, probe[0])
    accuracy = (logits.argmax(-1) == probe[1]).double().mean().item()
    return [
        {
            **token_conditioning(x),
            "cosine similarity": token_similarity(x).cosine,
            "gradient_norm": norm,
            "gradient_ratio": ratio,
            "accuracy": accuracy,
        }
        for x, norm, ratio in zip(outputs, norms, ratios, strict=True)
    ]


def token_conditioning(x: Float[Tensor, " n t d"]) -> dict[str, float]:
    """Rank and condition of the matrices tokens × features, one a sequence, means over the sequences.

    rank: singular values above max(t, d)·ε·σ_max, ε that of the tensor's type; stable_rank:
    ‖X‖_F²/σ_max²; condition: median of σ_max over the smallest of min(t, d) singular values.

    Examples:
        >>> token_conditioning(torch.eye(3).reshape(1, 3, 3))
        {'rank': 3.0, 'stable_rank': 3.0, 'condition': 1.0}
        >>> token_conditioning(torch.ones(2, 3, 4))["rank"]
        1.0
    """
    if not bool(torch.isfinite(x).all()):
        return dict.fromkeys(("rank", "stable_rank", "condition"), float("nan"))
    values = torch.linalg.svdvals(x.double())
    largest = values[:, :1].clamp(min=torch.finfo(torch.float64).tiny)
    tolerance = max(x.shape[1:]) * torch.finfo(x.dtype).eps * largest
    return {
        "rank": float((values > tolerance).sum(1).double().mean()),
        "stable_rank": float((values / largest).square().sum(1).mean()),
        "condition": float((largest[:, 0] / values[:, -1]).median()),
    }


def spectrum_ends(model: nn.Module, probe: Examples, index: int) -> dict[str, float]:
    """The largest and the smallest eigenvalue of a block's own part of the Hessian   (shortcut_length)."""
    few = (probe[0][:_CURVATURE_SAMPLES], probe[1][:_CURVATURE_SAMPLES])
    part = hessian(model, few, loss=token_cross_entropy, parameters=[f"blocks.{index}.*"])
    result = part.extremes(1, tolerance=1e-2, max_products=40, check_copies=False)
    return {
        "largest": float(result.largest.values[0]),
        "smallest": float(result.smallest.values[0]),
    }


def _block_outputs(model: nn.Module, tokens: Tensor) -> tuple[list[Tensor], Tensor]:
    seen: list[Tensor] = []
    blocks = model.get_submodule("blocks")
    with Hooks() as hooks, torch.no_grad():
        for block in blocks.children():
            hooks.after_forward(block, lambda _m, _a, y: seen.append(y))
        logits: Tensor = model(tokens)
    return seen, logits
