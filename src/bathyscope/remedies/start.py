"""Remedies of the second level that re-initialize weights: the same architecture from another start."""

from typing import ClassVar, Literal

import torch
from pydantic import NonNegativeInt, PositiveFloat
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.remedies.change import Change
from bathyscope.remedies.drawing import draw_, draw_recurrence_, reinitialize_
from bathyscope.remedies.remedy import ChangeLevel, Remedy, python_list, submodule

_MAPS = (nn.Linear, nn.modules.conv._ConvNd, nn.MultiheadAttention)


class DrawWeights(Remedy):
    """Linear maps, convolutions and tables re-initialized, biases zero, norms at one and zero.

    Tables of embeddings, positions among them, get GPT-2's deviation of 0.02: one far larger drowns
    what is added to it.

    Frozen parameters, and weights that are computed from others, are left as they are.

    Attributes:
        scheme: `normal` with deviation gain/√(fan in); `orthogonal` matrices out × (in · taps);
            `delta-orthogonal`: an orthogonal matrix at a kernel's middle tap, zeros elsewhere.
        gain: √2 before a ReLU or GELU, else 1; the singular value of an orthogonal one.
        layers: modules of which everything inside is drawn; all by default.
    """

    name: Literal["draw-weights"] = "draw-weights"
    scheme: Literal["normal", "orthogonal", "delta-orthogonal"] = "normal"
    gain: PositiveFloat = 1.0
    seed: NonNegativeInt = 0
    layers: tuple[str, ...] | None = None
    level: ClassVar[ChangeLevel] = "weights"

    @property
    def description(self) -> str:
        """For instance `weights re-initialized (normal, gain 1.41)`."""
        where = "" if self.layers is None else f" in {_few(self.layers)}"
        return f"weights re-initialized{where} ({self.scheme}, gain {self.gain:.3g})"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Draw them."""
        chosen = list(model.modules())
        if self.layers is not None:
            inside = [m for name in self.layers for m in submodule(model, name).modules()]
            chosen = list(dict.fromkeys(inside))
        if not any(
            p.requires_grad and p.ndim > 1
            for m in chosen
            if isinstance(m, _MAPS)
            for p in m.parameters(recurse=False)
        ):
            raise UsageError(
                "There is no weight of a linear map or a convolution to draw: each is frozen or "
                "computed from others."
            )
        change = Change(self.description, self.layers or ())
        for module in chosen:
            change.keep(*module.parameters(recurse=False), *module.buffers(recurse=False))
        reinitialize_(chosen, self.scheme, self.gain, torch.Generator().manual_seed(self.seed))
        return change

    def code(self) -> str:
        """A loop over the layers of any network."""
        return drawing_code(self, None)


class StartRecurrence(Remedy):
    """Recurrent layers with orthogonal recurrence and, in an LSTM, a forget gate that is open.

    Each gate's recurrent matrix is orthogonal, its input matrix normal with deviation 1/√(fan in), its
    bias zero, but for the forget gate's.
    """

    name: Literal["start-recurrence"] = "start-recurrence"
    forget_bias: float = 1.0
    seed: NonNegativeInt = 0
    level: ClassVar[ChangeLevel] = "weights"
    helpers: ClassVar = (draw_, draw_recurrence_)

    @property
    def description(self) -> str:
        """In words."""
        return f"orthogonal recurrence, forget gates open ({self.forget_bias:g})"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Re-initialize the recurrent layers."""
        layers = [m for m in model.modules() if isinstance(m, (nn.RNNBase, nn.RNNCellBase))]
        if not layers:
            raise UsageError("The network has no recurrent layer (RNN, LSTM, GRU or their cells).")
        change = Change(self.description)
        change.keep(*(p for layer in layers for p in layer.parameters(recurse=False)))
        draw_recurrence_(model, self.forget_bias, torch.Generator().manual_seed(self.seed))
        return change

    def code(self) -> str:
        """A call of the helper."""
        return (
            f"generator = torch.Generator().manual_seed({self.seed})\n"
            f"draw_recurrence_(model, {self.forget_bias!r}, generator)\n"
        )


_BY_SCHEME = {
    "normal": (
        'values = torch.empty(p.shape, device="cpu")',
        "p.copy_(values.normal_(std={gain!r} / p[0].numel() ** 0.5, generator=generator))",
    ),
    "orthogonal": (
        'values = torch.empty(p.shape, device="cpu")',
        "p.copy_(nn.init.orthogonal_(values, {gain!r}, generator=generator))",
    ),
    "delta-orthogonal": (
        'values = torch.zeros(p.shape, device="cpu")',
        "middle = values[(..., *(size // 2 for size in p.shape[2:]))]  # the tap of a kernel",
        "nn.init.orthogonal_(middle, {gain!r}, generator=generator)",
        "p.copy_(values)",
    ),
}

_EMBEDDINGS = """\
            elif isinstance(module, nn.Embedding):
                values = torch.empty(p.shape, device="cpu")
                p.copy_(values.normal_(std=0.02, generator=generator))  # as GPT-2's
                if module.padding_idx is not None:
                    p[module.padding_idx] = 0
"""

_NORMS = """\
            elif "Norm" in type(module).__name__ and name in ("weight", "bias"):
                p.fill_(float(name == "weight"))
"""

_RUNNING = """\
        if isinstance(module, nn.modules.batchnorm._NormBase):
            module.reset_running_stats()
"""


def drawing_code(remedy: DrawWeights, model: nn.Module | None) -> str:
    """What `reinitialize_` does as code of its own, for the kinds of modules that a model has."""
    modules = None if model is None else list(model.modules())
    parameters = None if model is None else list(model.parameters())

    def has(*kinds: type[nn.Module]) -> bool:
        return modules is None or any(isinstance(m, kinds) for m in modules)

    named: dict[str, type[nn.Module]] = {
        "nn.modules.conv._ConvNd": nn.modules.conv._ConvNd,
        "nn.MultiheadAttention": nn.MultiheadAttention,
    }
    maps = ["nn.Linear", *(name for name, kind in named.items() if has(kind))]
    lines = [f"generator = torch.Generator().manual_seed({remedy.seed})"]
    inside = "model.modules()"
    if remedy.layers is not None:
        lines.append(f"drawn = {python_list(remedy.layers)}")
        each = "m for name in drawn for m in model.get_submodule(name).modules()"
        inside = f"dict.fromkeys({each})"
    if len(maps) > 1:
        lines.append(f"maps = ({', '.join(maps)})")
    kind = "maps" if len(maps) > 1 else maps[0]
    lines += [
        "with torch.no_grad():",
        f"    for module in {inside}:",
        "        for name, p in module.named_parameters(recurse=False):",
    ]
    if parameters is None or not all(p.requires_grad for p in parameters):
        lines += ["            if not p.requires_grad:", "                continue"]
    guard = " and p.numel()" * (parameters is None or not all(p.numel() for p in parameters))
    lines.append(f"            if isinstance(module, {kind}) and p.ndim > 1{guard}:")
    lines += [" " * 16 + text.format(gain=remedy.gain) for text in _BY_SCHEME[remedy.scheme]]
    lines += [f"            elif isinstance(module, {kind}):", "                p.zero_()"]
    text = "\n".join(lines) + "\n"
    text += _EMBEDDINGS * has(nn.Embedding)
    text += _NORMS * (modules is None or any("Norm" in type(m).__name__ for m in modules))
    return text + _RUNNING * has(nn.modules.batchnorm._NormBase)


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
