"""Remedies of attention: queries and keys normalized; norms moved before the branches; branches scaled."""

from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from bathyscope.core.errors import UsageError
from bathyscope.remedies.change import Change
from bathyscope.remedies.remedy import (
    ChangeLevel,
    Edit,
    Remedy,
    StructureRemedy,
    python_list,
    python_string,
    submodule,
)


class QkNorm:
    """Normalizes the heads of queries or keys in a layer's output; of a fused layer its first two parts."""

    def __init__(self, heads: int, parts: int, normed: int) -> None:
        self.heads = heads
        self.parts = parts
        self.normed = normed

    def __call__(self, module: nn.Module, args: object, output: Tensor) -> Tensor:
        """The output with a root mean square of one in every head that is normalized."""
        pieces = list(output.chunk(self.parts, dim=-1))
        for i in range(self.normed):
            heads = pieces[i].unflatten(-1, (self.heads, -1))
            pieces[i] = F.rms_norm(heads, heads.shape[-1:]).flatten(-2)
        return torch.cat(pieces, dim=-1) if self.parts > 1 else pieces[0]


class NormalizeQueries(StructureRemedy):
    """QK-norm: queries and keys of every head with a root mean square of one, so that |q·k|/√d ≤ √d.

    It is a hook on the layers that make queries and keys, or on the one that makes them with the values
    (`fused`, in the order query, key, value): no parameters are added, names and optimizer stay valid.
    """

    name: Literal["normalize-queries"] = "normalize-queries"
    layers: Annotated[tuple[str, ...], Field(min_length=1)]
    heads: PositiveInt
    fused: bool = False
    helpers: ClassVar = (QkNorm,)

    @property
    def description(self) -> str:
        """For instance `queries and keys normalized in 24 layers`."""
        return f"queries and keys normalized in {len(self.layers)} layers"

    @property
    def num_added(self) -> int:
        """One norm a layer."""
        return len(self.layers)

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Hook the layers."""
        layers = [submodule(model, name) for name in self.layers]
        for name, layer in zip(self.layers, layers, strict=True):
            width = getattr(layer, "out_features", getattr(layer, "nf", None))
            parts = 3 if self.fused else 1
            if not isinstance(width, int) or width % (parts * self.heads):
                raise UsageError(
                    f"The output of {name!r} ({type(layer).__name__}) cannot be split into "
                    f"{self.heads} heads{' of queries, keys and values' if self.fused else ''}."
                )
        change = Change(self.description, self.layers)
        for layer in layers:
            change.add_hooks().after_forward(layer, self._hook())
        return change

    def _hook(self) -> QkNorm:
        return QkNorm(self.heads, 3, 2) if self.fused else QkNorm(self.heads, 1, 1)

    def code(self) -> str:
        """A loop over the layers."""
        hook = f"QkNorm({self.heads}, {'3, 2' if self.fused else '1, 1'})"
        return (
            f"for name in {python_list(self.layers)}:\n"
            f"    model.get_submodule(name).register_forward_hook({hook})\n"
        )


class NormFirst(StructureRemedy):
    """Pre-norm in place of post-norm: x + f(norm(x)) where it was norm(x + f(x)).

    For blocks that have a switch `norm_first`: those of `nn.TransformerEncoder` and of the catalog.
    """

    name: Literal["norm-first"] = "norm-first"
    blocks: Annotated[tuple[str, ...], Field(min_length=1)]

    @property
    def description(self) -> str:
        """For instance `norms before the branches of 24 blocks`."""
        return f"norms before the branches of {len(self.blocks)} blocks"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Turn the switches."""
        blocks = [submodule(model, name) for name in self.blocks]
        for name, block in zip(self.blocks, blocks, strict=True):
            if getattr(block, "norm_first", None) is not False:
                raise UsageError(
                    f"The norms of {name!r} ({type(block).__name__}) cannot be moved: it has no "
                    "switch norm_first, or it is on."
                )
        change = Change(self.description, self.blocks)
        for block in blocks:
            change.undone_by(partial(setattr, block, "norm_first", False))
            setattr(block, "norm_first", True)  # noqa: B010 (a module's attribute is not a static one)
        return change

    def code(self) -> str:
        """A loop over the blocks."""
        return (
            f"for name in {python_list(self.blocks)}:\n"
            "    model.get_submodule(name).norm_first = True\n"
        )


class ScaleOutput:
    """Multiplies what a module gives out."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(
        self, module: nn.Module, args: object, output: Tensor | tuple[Tensor, ...]
    ) -> Tensor | tuple[Tensor, ...]:
        """The output, its first tensor multiplied."""
        if isinstance(output, tuple):
            return (self.factor * output[0], *output[1:])
        return self.factor * output


class ScaleBranches(StructureRemedy):
    """What some modules at the end of branches give out times a factor, at every step of training.

    norm(αx + f(x)) = norm(x + f(x)/α): with 1/α it is the stream's scale of DeepNorm; with a small
    factor the branches start small as LayerScale's do. No parameters are added.
    """

    name: Literal["scale-branches"] = "scale-branches"
    layers: Annotated[tuple[str, ...], Field(min_length=1)]
    factor: PositiveFloat
    helpers: ClassVar = (ScaleOutput,)

    @property
    def description(self) -> str:
        """For instance `48 branches × 0.38`."""
        return f"{len(self.layers)} branches × {self.factor:.3g}"

    @property
    def num_added(self) -> int:
        """One product a branch."""
        return len(self.layers)

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Hook the modules."""
        layers = [submodule(model, name) for name in self.layers]
        change = Change(self.description, self.layers)
        for layer in layers:
            change.add_hooks().after_forward(layer, ScaleOutput(self.factor))
        return change

    def code(self) -> str:
        """A loop over the modules."""
        return (
            f"for name in {python_list(self.layers)}:\n"
            f"    model.get_submodule(name).register_forward_hook(ScaleOutput({self.factor!r}))\n"
        )

    def edits(self, model: nn.Module) -> dict[str, Edit]:
        """The factor before what each module gives out."""
        return dict.fromkeys(self.layers, Edit("Scaled", after=f"{self.factor!r} * {{}}"))


class PullLogZ:
    """Adds the gradient of weight·mean (log Z)² to that of the logits which a module gives out."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def __call__(self, module: nn.Module, args: object, output: Tensor) -> Tensor:
        """The output itself, with a hook on its gradient."""
        if not output.requires_grad:
            return output
        output = output.view_as(output)
        logits = output.detach()
        rows = logits.numel() // logits.shape[-1]

        def pull(gradient: Tensor) -> Tensor:
            log_z = torch.logsumexp(logits, dim=-1, keepdim=True)
            return gradient + 2 * self.weight / rows * log_z * torch.softmax(logits, dim=-1)

        output.register_hook(pull)
        return output


class PenalizeLogZ(Remedy):
    """z-loss: the gradient of weight·mean (log Z)² added at the logits, whatever the loss is.

    The loss that is shown stays as it was; only its gradient is that of the sum.
    """

    name: Literal["penalize-log-z"] = "penalize-log-z"
    layer: str
    weight: PositiveFloat = 1e-4
    level: ClassVar[ChangeLevel] = "settings"
    in_weights: ClassVar[bool] = False
    helpers: ClassVar = (PullLogZ,)

    @property
    def description(self) -> str:
        """For instance `z-loss of 0.0001`."""
        return f"z-loss of {self.weight:g}"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Hook the layer that makes the logits."""
        layer = submodule(model, self.layer)
        change = Change(self.description, (self.layer,))
        change.add_hooks().after_forward(layer, PullLogZ(self.weight))
        return change

    def code(self) -> str:
        """A call."""
        layer = f"model.get_submodule({python_string(self.layer)})"
        return f"{layer}.register_forward_hook(PullLogZ({self.weight!r}))\n"
