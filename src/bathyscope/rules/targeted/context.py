"""What a remedy is chosen for: the model, the optimizer meant for it, and what the diagnosis knows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.records import Finding
from bathyscope.remedies.recipe import AnyRemedy


@dataclass(frozen=True, slots=True)
class Context:
    """A model that is to be treated, with its findings."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batch: Batch
    blocks: Blocks
    findings: tuple[Finding, ...]
    loss: LossFn


Steps = tuple[AnyRemedy, ...]
TargetedRemedy = Callable[[Context, Sequence[Finding]], Iterator[Steps]]
