"""What every listener of a pass shares: silence where it has nothing to measure."""

from torch import Tensor

from bathyscope.core.records import Block


class Silent:
    """A tap that ignores what it is told. Listeners override what they measure."""

    def on_input(self, block: Block, x: Tensor) -> None:
        """The block is about to read its input."""

    def on_output(self, block: Block, x: Tensor) -> None:
        """The block has given its output."""

    def on_input_gradient(self, block: Block, gradient: Tensor) -> None:
        """The gradient of the loss with respect to the block's input."""

    def on_output_gradient(self, block: Block, gradient: Tensor) -> None:
        """The gradient of the loss with respect to the block's output."""
