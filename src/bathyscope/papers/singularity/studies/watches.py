"""What is measured of a network of this paper while it trains, block by block."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import measure
from bathyscope.core.blocks import blocks_of
from bathyscope.core.hooks import Hooks
from bathyscope.core.json_values import JsonObject
from bathyscope.core.preserve import preserve_model
from bathyscope.training import Examples

# What is kept of the standard measurements: the numbers that the figures need.
_KEPT = {
    "activations": ("min", "max", "std"),
    "representations": ("mean_cosine",),
    "gradients": ("norm_in", "norm_out", "ratio"),
    "weights": ("min", "max", "norm", "spectral_norm", "condition_operator"),
}
_NUM_BINS = 60


def conditions(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """One row per block: ranges, gradient ratio, and condition numbers mode by mode."""
    result = measure.standard(model, probe, loss=F.cross_entropy)
    blocks = result["activations"].blocks
    for index, block in enumerate(blocks):
        row: JsonObject = {"block": block.label, "index": index}
        for name, columns in _KEPT.items():
            modes = [c for c in result[name].columns if c.startswith(("condition_", "rank_"))]
            for column in dict.fromkeys((*columns, *modes)):
                row[f"{name}_{column}"] = result[name][column][index]
        yield row


def events(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """One row per block, with no more than shows explosion, collapse and singularity.

    The columns are named as in `conditions`, at a third of its cost.
    """
    blocks = blocks_of(model, probe[0])
    outputs = measure.representations(model, probe, loss=F.cross_entropy, blocks=blocks)
    gradients = measure.gradients(model, probe, loss=F.cross_entropy, blocks=blocks)
    for index, block in enumerate(blocks):
        weights = [p.detach() for p in model.get_submodule(block.name).parameters() if p.ndim > 1]
        yield {
            "block": block.label,
            "index": index,
            "representations_mean_cosine": outputs["mean_cosine"][index],
            "representations_condition_samples": outputs["condition_samples"][index],
            "gradients_norm_in": gradients["norm_in"][index],
            "gradients_norm_out": gradients["norm_out"][index],
            "weights_min": min(w.min().item() for w in weights),
            "weights_max": max(w.max().item() for w in weights),
        }


def values(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """Histograms of outputs and weights of the first and of a late block   (figures 5 to 10)."""
    blocks = list(blocks_of(model, probe[0]))
    # the paper looks at layer 160 of 164: as deep a fraction of this network's blocks
    chosen = {"first": blocks[0], "late": blocks[min(len(blocks) - 1, 160 * len(blocks) // 164)]}
    for location, block in chosen.items():
        module = model.get_submodule(block.name)
        outputs: list[Tensor] = []
        with preserve_model(model, copy_parameters=False), Hooks() as hooks, torch.no_grad():
            hooks.after_forward(module, lambda _m, _i, out, into=outputs: into.append(out))
            model(probe[0])
        weights = torch.cat([p.detach().flatten() for p in module.parameters() if p.ndim > 1])
        for what, tensor in (("activations", outputs[0]), ("weights", weights)):
            yield {"place": location, "block": block.name, "what": what} | histogram(tensor)


def histogram(tensor: Tensor, *, num_bins: int = _NUM_BINS) -> dict[str, object]:
    """Counts between the smallest and the largest finite entry.

    Examples:
        >>> histogram(torch.tensor([0.0, 1.0, 1.0, float("inf")]), num_bins=2)
        {'low': 0.0, 'high': 1.0, 'counts': [1, 2], 'non_finite': 1}
    """
    flat = tensor.detach().double().flatten()
    finite = flat[torch.isfinite(flat)]
    low, high = (v.item() for v in finite.aminmax()) if len(finite) else (0.0, 0.0)
    counts = torch.histc(finite, bins=num_bins, min=low, max=high) if high > low else finite
    return {
        "low": low,
        "high": high,
        "counts": [int(c) for c in counts] if high > low else [len(finite)],
        "non_finite": len(flat) - len(finite),
    }


def deletion(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """The change of the loss when one block's branch is dropped, block by block."""
    result = measure.deletion(model, probe, loss=F.cross_entropy)
    for block, change in zip(result.blocks, result["loss_change"], strict=True):
        yield {
            "block": block.label,
            "index": block.index,
            "transition": block.changes_dimension,
            "loss_change": change,
            "loss": result.settings["loss"],
        }
