"""The parameters of a model by the place they belong to: a block, or a module outside all blocks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import unwrap
from bathyscope.core.members import modules_of
from bathyscope.core.processes import Processes

Norms = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class ParameterGroups:
    """Trainable parameters by place, in the order in which the model registered them.

    Attributes:
        labels: a block's label, or the name of a module outside all blocks.
        parameters: all of them, group after group.
        starts: where each group begins among them.
        ids: of the parameters, to know an optimizer that holds one.
        group: the processes among which the parameters are shared out, if any.
    """

    labels: tuple[str, ...]
    parameters: tuple[nn.Parameter, ...]
    starts: tuple[int, ...]
    ids: frozenset[int]
    group: Processes | None = None

    def weight_norms(self) -> Norms:
        """‖w‖₂ of every group."""
        return self._norms([p.detach() for p in self.parameters])

    def gradient_norms(self) -> Norms:
        """‖∂E/∂w‖₂ of every group; −1 where no parameter of the group has a gradient."""
        return self._norms([p.grad for p in self.parameters])

    def has_gradients(self) -> bool:
        """Whether any parameter has a gradient."""
        return any(p.grad is not None for p in self.parameters)

    def versions(self) -> tuple[int, ...]:
        """How often each parameter was written, and where it lies: equal if nobody wrote to any."""
        return tuple(n for p in self.parameters for n in (p._version, p.data_ptr()))

    def _norms(self, tensors: Sequence[Tensor | None]) -> Norms:
        present = [t if t is not None and not t.is_sparse else None for t in tensors]
        values = [t for t in present if t is not None]
        squares = np.zeros(len(tensors))
        if values:
            local = [t.to_local() if hasattr(t, "to_local") else t for t in values]
            norms = torch.stack([n.double() for n in torch._foreach_norm(local)]).square()
            if self.group is not None and any(hasattr(t, "to_local") for t in values):
                norms = self.group.sum(norms)  # each process has its own shards
            squares[[t is not None for t in present]] = norms.cpu().numpy()
        missing = np.logical_and.reduceat([t is None for t in present], self.starts)
        sums = np.add.reduceat(squares, self.starts)
        return np.where(missing, -1.0, np.sqrt(sums))


def parameter_groups(
    model: nn.Module, blocks: Blocks, *, group: Processes | None = None
) -> ParameterGroups:
    """The trainable parameters by block; those outside all blocks by the module that holds them.

    A shared parameter counts where it comes first.

    Examples:
        >>> from bathyscope.core import blocks_of
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> parameter_groups(net, blocks_of(net, torch.zeros(1, 4))).labels
        ('0', '2')
    """
    model = unwrap(model)
    home = {
        id(parameter): block.label
        for block in reversed(tuple(blocks))
        for module in modules_of(model, block).values()
        for parameter in module.parameters(recurse=False)
    }
    found: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            outside = name.rpartition(".")[0] or name
            found.setdefault(home.get(id(parameter), outside), []).append(parameter)
    starts = np.cumsum([0, *map(len, found.values())])[:-1]
    return ParameterGroups(
        tuple(found),
        tuple(p for parameters in found.values() for p in parameters),
        tuple(int(s) for s in starts),
        frozenset(id(p) for parameters in found.values() for p in parameters),
        group,
    )
