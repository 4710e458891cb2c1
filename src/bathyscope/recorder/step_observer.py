"""What is observed in the pass of a sampled step: the blocks, and attention without disturbing it."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from torch import nn

from bathyscope.core.blocks import Blocks, blocks_of
from bathyscope.core.calls import UnbuiltModel
from bathyscope.core.errors import UsageError, in_a_line
from bathyscope.core.nested import first_samples
from bathyscope.core.probe import BlockHooks
from bathyscope.measure.attention_calls import AttentionCall, AttentionCalls
from bathyscope.recorder.samples import SampleObserver


def find_blocks(
    model: nn.Module,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    *,
    wanted: tuple[str, ...] | Blocks | None,
) -> Blocks:
    """The blocks, found on two samples: a pass over the whole batch would cost what a step costs."""
    inputs = kwargs if kwargs and not args else args
    try:
        return blocks_of(model, first_samples(inputs, 2), blocks=wanted)
    except UnbuiltModel:
        raise
    except UsageError:  # the model takes one size of batch only
        return blocks_of(model, inputs, blocks=wanted)


class StepObserver:
    """Observes the blocks of a model from its start to the end of the pass.

    Attributes:
        has_attention: whether the pass had attention that could be read; True until it has ended.
    """

    def __init__(
        self,
        model: nn.Module,
        blocks: Blocks,
        observer: SampleObserver,
        *,
        with_attention: bool,
        guard: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.has_attention = with_attention
        self._model = model
        self._blocks = blocks
        self._observer = observer
        self._hooks = BlockHooks((observer,), in_training=True, guard=guard)
        self._attention: WatchedAttention | None = None

    def start(self) -> None:
        """Observe what comes from here on."""
        self._hooks.attach_blocks(self._model, self._blocks)
        if self.has_attention:
            self._attention = WatchedAttention(self._observer.on_attention)
            self._attention.start()

    def end_of_pass(self) -> None:
        """The pass has ended; gradients still arrive, as their hooks are on the tensors."""
        if self._attention is not None:
            self.has_attention = (
                self._observer.num_attention_calls > 0 and not self._attention.failed
            )
        self.remove()
        self._hooks.end_of_forward()

    def remove(self) -> None:
        """Remove every hook, and the mode that sees attention, which must not outlive the pass."""
        self._hooks.remove()
        if self._attention is not None:
            self._attention.stop()
            self._attention = None


class WatchedAttention(AttentionCalls):
    """Reports attention as `AttentionCalls` does; what it cannot read costs a warning, not the pass.

    Attributes:
        failed: whether something could not be read; nothing is reported from then on.
    """

    def __init__(self, result: Callable[[AttentionCall], None]) -> None:
        super().__init__(result)
        self.failed = False
        self._entered = ExitStack()

    def start(self) -> None:
        """See every call from here on."""
        self._entered.enter_context(self)

    def stop(self) -> None:
        """See none any more."""
        self._entered.close()

    def look(
        self,
        func: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        output: object,
    ) -> None:
        """Look at a call, unless one could not be read before."""
        if self.failed:
            return
        try:
            super().look(func, args, kwargs, output)
        except Exception as error:  # the mode stands inside the user's own pass
            self.failed = True
            warnings.warn(
                f"bathyscope.watch cannot read the attention of this model: "
                f"{in_a_line(error)}. Its entropy is not recorded; everything else is.",
                stacklevel=2,
            )
