"""Watching a training loop from inside: hooks on the user's own passes, every k steps."""

import math
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from bathyscope.core.arguments import check_count
from bathyscope.core.batch import check_parameters, first_samples
from bathyscope.core.blocks import Blocks, blocks_of
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import UsageError
from bathyscope.core.files import make_folder
from bathyscope.core.one_pass import Ears
from bathyscope.core.records import Block
from bathyscope.diagnosis.block_choice import wanted_blocks
from bathyscope.linalg import conditioning_of
from bathyscope.runs import MetricsWriter

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]


class Watch:
    """Records norms, ratios and moments of every block on the passes of a training loop.

    Made by `watch`. It listens on the forward passes that run in train mode with gradients enabled,
    and counts them as steps. It never raises into the loop: if it fails, it warns once and stops.

    Attributes:
        rows: what was recorded, one row a step and block.
        seconds: time spent inside the hooks.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        every: int,
        log: Path | None,
        tensorboard: Any | None,
        conditioning: bool,
        blocks: tuple[str, ...] | Blocks | None,
    ) -> None:
        self.model = unwrap(model)
        self.every = every
        self.log = log
        self.tensorboard = tensorboard
        self.conditioning = conditioning
        self.blocks = blocks if isinstance(blocks, Blocks) else None
        self._named = None if isinstance(blocks, Blocks) else blocks
        self.rows: list[Row] = []
        self.seconds = 0.0
        self.steps = 0
        self._writer: MetricsWriter | None = None
        self._handles: list[RemovableHandle] = []
        self._ears: Ears | None = None
        self._open: dict[int, Row] = {}
        self._busy = False

    def __enter__(self) -> "Watch":
        if self.log is not None:
            make_folder(self.log)
            self._writer = MetricsWriter(self.log / "watch.jsonl")
        self._handles = [
            self.model.register_forward_pre_hook(self._before, with_kwargs=True),
            self.model.register_forward_hook(self._after),
        ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Stop at once: write what is open and take every hook away."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._close_step()
        if self._writer is not None:
            self._writer.abandon()  # everything is flushed
            self._writer = None

    @property
    def table(self) -> "pd.DataFrame":
        """Everything recorded, one row a step and block."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self._busy or not module.training or not torch.is_grad_enabled():
            return
        began = time.perf_counter()
        self._close_step()
        try:
            if self.steps % self.every == 0:
                self._listen(args, kwargs)
        except Exception as error:  # whatever it is, the user's training goes on
            self._give_up(error)
        self.steps += 1
        self.seconds += time.perf_counter() - began

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._ears is not None:
            self._ears.remove()  # gradients still arrive: their hooks are on the tensors
            self._ears.end_of_forward()

    def _listen(self, args: Any, kwargs: Any) -> None:
        if self.blocks is None:
            self._busy = True
            try:
                self.blocks = _found(
                    self.model, kwargs if kwargs and not args else args, named=self._named
                )
            finally:
                self._busy = False
        self._open = {b.index: {"step": self.steps, "block": b.label} for b in self.blocks}
        self._ears = Ears((self,))
        for name in {b.name for b in self.blocks} | {b.end for b in self.blocks}:
            self._ears.attach(
                self.model.get_submodule(name),
                starting={b.call: b for b in self.blocks if b.name == name},
                ending={b.call: b for b in self.blocks if b.end == name},
            )

    def _close_step(self) -> None:
        """Turn the open step into rows and write them."""
        if self._ears is not None:
            self._ears.remove()
            self._ears = None
        rows = [_finished(row) for row in self._open.values() if len(row) > 2]
        self._open = {}
        self.rows += rows
        try:
            for row in rows:
                if self._writer is not None:
                    self._writer.append(row)
                if self.tensorboard is not None:
                    for key, value in row.items():
                        if key not in ("step", "block") and value is not None:
                            self.tensorboard.add_scalar(f"{key}/{row['block']}", value, row["step"])
            if self._writer is not None and rows:
                self._writer.flush()
        except Exception as error:  # a full disk must not end the training either
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._writer = None
        self.tensorboard = None
        for handle in self._handles:
            handle.remove()
        self._handles = []
        warnings.warn(
            f"bathyscope.watch stopped: {type(error).__name__}: {error}. The training goes on.",
            stacklevel=3,
        )

    def on_input(self, block: Block, x: Tensor) -> None:
        """Nothing: the input is the output of the block before."""

    def on_output(self, block: Block, x: Tensor) -> None:
        """Moments of the output, and its conditioning where asked."""
        began = time.perf_counter()
        row = self._open[block.index]
        values = x.float()
        row["mean"] = mean = values.mean()
        # var_mean runs along the values one by one: the centred norm is five times as fast
        row["std"] = torch.linalg.vector_norm(values - mean) / math.sqrt(max(1, x.numel()))
        if self.conditioning and x.ndim >= 2:
            found = conditioning_of(x, mode=0)
            row["condition"], row["rank"] = found.condition_number, found.rank
        self.seconds += time.perf_counter() - began

    def on_input_gradient(self, block: Block, gradient: Tensor) -> None:
        """Norm at the input."""
        self._norm(block, "gradient_in", gradient)

    def on_output_gradient(self, block: Block, gradient: Tensor) -> None:
        """Norm at the output."""
        self._norm(block, "gradient_out", gradient)

    def _norm(self, block: Block, key: str, gradient: Tensor) -> None:
        began = time.perf_counter()
        if block.index in self._open:
            self._open[block.index][key] = torch.linalg.vector_norm(gradient.float())
        self.seconds += time.perf_counter() - began


def watch(
    model: nn.Module,
    *,
    every: int = 50,
    log: str | Path | None = None,
    tensorboard: Any | None = None,
    conditioning: bool = False,
    blocks: str | Iterable[str] | Blocks | None = None,
) -> Watch:
    """Watch the blocks of a model while a loop of one's own trains it.

    Use it as a context. Every k-th training pass is recorded: mean and deviation of every block's
    output, the gradient's norm at its input and output, their ratio, and what is not finite.

    Args:
        model: being trained; nothing about it is changed.
        every: how many steps lie between two records.
        log: a folder for `watch.jsonl`; kept in memory only by default.
        tensorboard: a `SummaryWriter` to write to.
        conditioning: record condition number and rank of every output too, which costs more.
        blocks: names or globs, or blocks found before; found on the first pass by default.

    Returns:
        The watch; `watch.table` holds what was recorded.

    Raises:
        UsageError: an argument is of another kind, or the folder cannot be written.

    Examples:
        >>> net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        >>> with watch(net, every=2) as seen:
        ...     for _ in range(4):
        ...         net(torch.randn(8, 4)).sum().backward()
        >>> sorted(set(seen.table.step)), len(seen.table)
        ([0, 2], 4)
    """
    check_parameters(model)
    return Watch(
        model,
        every=check_count("every", every, least=1),
        log=None if log is None else Path(log),
        tensorboard=tensorboard,
        conditioning=conditioning,
        blocks=wanted_blocks(blocks),
    )


def _found(model: nn.Module, inputs: Any, *, named: tuple[str, ...] | None) -> Blocks:
    """The blocks, found on two samples: a pass over the whole batch would cost what a step costs."""
    try:
        return blocks_of(model, first_samples(inputs, 2), blocks=named)
    except UsageError:  # the model takes one size of batch only
        return blocks_of(model, inputs, blocks=named)


def _finished(row: Row) -> Row:
    """The row with tensors turned into numbers and the derived columns added."""
    plain = {k: float(v) if isinstance(v, Tensor) else v for k, v in row.items()}
    before, after = plain.get("gradient_out"), plain.get("gradient_in")
    plain["ratio"] = before / after if before is not None and after else None
    numbers = [v for v in plain.values() if isinstance(v, float)]
    plain["finite"] = all(math.isfinite(v) for v in numbers)
    return plain
