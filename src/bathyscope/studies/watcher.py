"""What is measured while a run trains, and kept among its metrics."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import measure
from bathyscope.certificates import certify
from bathyscope.core.blocks import blocks_of
from bathyscope.core.json_values import JsonObject
from bathyscope.core.preserve import preserve_model
from bathyscope.remedies import transition_layers
from bathyscope.studies.linear_spectrum import linear_spectrum
from bathyscope.training import Callback, Examples, LoopView, Record

Watch = Literal[
    "conditions", "events", "ratios", "norms", "values", "deletion", "spectrum", "certificate"
]
_AT_END_ONLY: tuple[Watch, ...] = ("values", "deletion")

# What is kept of the standard measurements: the numbers that the figures need.
_KEPT = {
    "activations": ("min", "max", "std"),
    "representations": ("mean_cosine",),
    "gradients": ("norm_in", "norm_out", "ratio"),
    "weights": ("min", "max", "norm", "spectral_norm", "condition_operator"),
}
_NUM_BINS = 60


class Watcher(Callback):
    """Measures a run at its start, at its end, and at chosen steps between.

    The records are lines of the run's metrics; their `kind` is the name of what was watched.

    Args:
        watch: names of what to measure.
        probe: the samples to measure on.
        every: steps between measurements; none for 0.
        at: further steps after which to measure.
    """

    def __init__(
        self, watch: tuple[Watch, ...], probe: Examples, *, every: int, at: frozenset[int]
    ) -> None:
        self.watch = watch
        self.probe = probe
        self.every = every
        self.at = at
        self._last = -1

    def on_start(self, loop: LoopView) -> None:
        """Measure the network before its first step."""
        if loop.step == 0:
            self._measure(loop)

    def on_step(self, loop: LoopView, record: Record) -> None:
        """Measure at the chosen steps."""
        if loop.step in self.at or (self.every and loop.step % self.every == 0):
            self._measure(loop)

    def on_end(self, loop: LoopView, ending: str) -> None:
        """Measure the network as the run leaves it, unless it was stopped to go on later."""
        if not ending.startswith("stopped"):
            self._measure(loop, at_end=True)

    def state_dict(self) -> dict[str, object]:
        """The step of the last measurement."""
        return {"last": self._last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take it up."""
        self._last = state["last"]

    def _measure(self, loop: LoopView, *, at_end: bool = False) -> None:
        done = self._last == loop.step
        self._last = loop.step
        for name in self.watch:
            if done if name not in _AT_END_ONLY else not at_end:
                continue
            for row in WATCHES[name](loop.model, self.probe):
                loop.log({"kind": name, "step": loop.step, "epoch": loop.epoch} | row)


def conditions(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """One row a block: ranges, gradient ratio, and condition numbers mode by mode."""
    found = measure.standard(model, probe, loss=F.cross_entropy)
    blocks = found["activations"].blocks
    for index, block in enumerate(blocks):
        row: JsonObject = {"block": block.label, "index": index}
        for name, columns in _KEPT.items():
            modes = [c for c in found[name].columns if c.startswith(("condition_", "rank_"))]
            for column in dict.fromkeys((*columns, *modes)):
                row[f"{name}_{column}"] = found[name][column][index]
        yield row


def events(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """One row a block, with no more than tells explosion, collapse and singularity.

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


def ratios(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """The gradient-norm ratio of every block, and of every transition layer.

    `part` is `block`, `convolution` (the bare transition layer) or `normalised convolution` (the
    chain that holds it, where it is one).
    """
    blocks = blocks_of(model, probe[0])
    layers = list(transition_layers(model))
    parts = {block.name: "block" for block in blocks}
    around = [name.rpartition(".")[0] for name in layers]
    parts |= {n: "normalised convolution" for n in around if n and n not in parts}
    parts |= dict.fromkeys(layers, "convolution")
    found = measure.gradients(model, probe, loss=F.cross_entropy, blocks=list(parts))
    changes = {block.name for block in blocks if block.changes_dimension}
    weighted = [n for n, m in model.named_modules() if isinstance(m, nn.Conv2d)]
    stem = weighted[:1]  # the convolution that meets the image, where it is a transition
    for block, ratio in zip(found.blocks, found["ratio"], strict=True):
        yield {
            "block": block.name,
            "index": block.index,
            "part": parts[block.name],
            "transition": parts[block.name] != "block" or block.name in changes,
            "stem": block.name in stem,
            "ratio": ratio,
        }


def norms(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """The mean Frobenius norm of the weight matrices and kernels   (shortcut_length, figure 2)."""
    sizes = [p.detach().norm().item() for p in model.parameters() if p.ndim > 1]
    yield {"mean_norm": sum(sizes) / len(sizes), "num_matrices": len(sizes)}


def values(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """Histograms of outputs and weights of the first and of a late block   (figures 5 to 10)."""
    blocks = list(blocks_of(model, probe[0]))
    # the paper looks at layer 160 of 164: as deep a share of this network's blocks
    chosen = {"first": blocks[0], "late": blocks[min(len(blocks) - 1, 160 * len(blocks) // 164)]}
    for place, block in chosen.items():
        module = model.get_submodule(block.name)
        outputs: list[Tensor] = []
        with preserve_model(model, copy_parameters=False), torch.no_grad():
            module.register_forward_hook(lambda _m, _i, out, into=outputs: into.append(out))
            model(probe[0])
        weights = torch.cat([p.detach().flatten() for p in module.parameters() if p.ndim > 1])
        for what, tensor in (("activations", outputs[0]), ("weights", weights)):
            yield {"place": place, "block": block.name, "what": what} | histogram(tensor)


def histogram(tensor: Tensor, *, num_bins: int = _NUM_BINS) -> dict[str, object]:
    """Counts between the least and the greatest finite entry.

    Examples:
        >>> histogram(torch.tensor([0.0, 1.0, 1.0, float("inf")]), num_bins=2)
        {'low': 0.0, 'high': 1.0, 'counts': [1, 2], 'not_finite': 1}
    """
    flat = tensor.detach().double().flatten()
    finite = flat[torch.isfinite(flat)]
    low, high = (v.item() for v in finite.aminmax()) if len(finite) else (0.0, 0.0)
    counts = torch.histc(finite, bins=num_bins, min=low, max=high) if high > low else finite
    return {
        "low": low,
        "high": high,
        "counts": [int(c) for c in counts] if high > low else [len(finite)],
        "not_finite": len(flat) - len(finite),
    }


def deletion(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """The change of the loss when one block's branch is dropped, block by block."""
    found = measure.deletion(model, probe, loss=F.cross_entropy)
    for block, change in zip(found.blocks, found["loss_change"], strict=True):
        yield {
            "block": block.label,
            "index": block.index,
            "transition": block.changes_dimension,
            "loss_change": change,
            "loss": found.settings["loss"],
        }


def certificate(model: nn.Module, probe: Examples) -> Iterator[JsonObject]:
    """One row a feature v_0, …, v_L of a NEst, each with the risks of the whole network."""
    found = certify(model, probe, curvature=False)
    whole = {
        "risk": found.risk,
        "constant_risk": found.constant_risk,
        "linear_risk": found.linear_risk,
        "bound": found.bound,
        "attainable_risk": found.attainable_risk,
        "guaranteed": found.guaranteed,
        "width": found.width.width if found.width else None,
        "width_needed": found.width.needed if found.width else None,
    }
    for index, feature in enumerate(found.predictability):
        yield whole | {
            "feature": index,
            "size": feature.size,
            "new_directions": feature.new_directions,
            "unpredicted": feature.unpredicted,
            "block_risk": found.block_risks[index],
            "truncated_risk": found.truncated_risks[index],
        }


WATCHES: dict[Watch, Callable[[nn.Module, Examples], Iterator[dict[str, object]]]] = {
    "conditions": conditions,
    "ratios": ratios,
    "norms": norms,
    "values": values,
    "deletion": deletion,
    "spectrum": linear_spectrum,
    "certificate": certificate,
    "events": events,
}
