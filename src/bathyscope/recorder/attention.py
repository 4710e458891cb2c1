"""Attention in the passes of a training, heard without any chance of disturbing them."""

import warnings
from collections.abc import Callable
from contextlib import ExitStack

from bathyscope.measure.attention_calls import AttentionCall, AttentionCalls


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
                f"bathyscope.watch cannot read the attention of this model: {type(error).__name__}: "
                f"{error}. Its entropy is not recorded; everything else is.",
                stacklevel=2,
            )
