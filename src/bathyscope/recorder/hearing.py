"""What is heard on the pass of a sampled step: the blocks, and attention without disturbing it."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from torch import nn

from bathyscope.core.blocks import Blocks
from bathyscope.core.errors import in_a_line
from bathyscope.core.one_pass import Ears
from bathyscope.measure.attention_calls import AttentionCall, AttentionCalls
from bathyscope.recorder.samples import SampleTap


class Hearing:
    """Hears the blocks of a model from its start to the end of the pass.

    Attributes:
        has_attention: whether the pass had attention that could be read; True until it has ended.
    """

    def __init__(
        self,
        model: nn.Module,
        blocks: Blocks,
        tap: SampleTap,
        *,
        with_attention: bool,
        guard: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.has_attention = with_attention
        self._model = model
        self._blocks = blocks
        self._tap = tap
        self._ears = Ears((tap,), in_training=True, guard=guard)
        self._attention: HeardAttention | None = None

    def start(self) -> None:
        """Hear what comes from here on."""
        self._ears.attach_blocks(self._model, self._blocks)
        if self.has_attention:
            self._attention = HeardAttention(self._tap.on_attention)
            self._attention.start()

    def end_of_pass(self) -> None:
        """Hear no more of this pass; gradients still arrive, as their hooks are on the tensors."""
        if self._attention is not None:
            self.has_attention = self._tap.num_attention_calls > 0 and not self._attention.failed
        self.remove()
        self._ears.end_of_forward()

    def remove(self) -> None:
        """Take every hook away, and the mode that hears of attention, which must not outlive the pass."""
        self._ears.remove()
        if self._attention is not None:
            self._attention.stop()
            self._attention = None


class HeardAttention(AttentionCalls):
    """Tells of attention as `AttentionCalls` does; what it cannot read costs a warning, not the pass.

    Attributes:
        failed: whether something could not be read; nothing is told from then on.
    """

    def __init__(self, told: Callable[[AttentionCall], None]) -> None:
        super().__init__(told)
        self.failed = False
        self._hearing = ExitStack()

    def start(self) -> None:
        """Hear of every call from here on."""
        self._hearing.enter_context(self)

    def stop(self) -> None:
        """Hear of none any more."""
        self._hearing.close()

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
