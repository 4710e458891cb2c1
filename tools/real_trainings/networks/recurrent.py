"""Recurrent networks over tokens or vectors, with outputs at every step or at the last."""

from collections.abc import Callable

from torch import Tensor, nn

CELLS: dict[str, Callable[..., nn.Module]] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class Recurrent(nn.Module):
    """An embedding (for tokens) or the vectors themselves, a recurrent stack and a head."""

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        *,
        is_token: bool,
        is_last_only: bool,
        cell: str,
        width: int,
        depth: int,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        self.is_last_only = is_last_only
        self.embedding = nn.Embedding(num_inputs, width) if is_token else nn.Identity()
        inputs = width if is_token else num_inputs
        self.cells = CELLS[cell](
            inputs, width, num_layers=depth, batch_first=True, bidirectional=bidirectional
        )
        self.head = nn.Linear(width * (2 if bidirectional else 1), num_outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs at every step, or of the last step alone."""
        states, _ = self.cells(self.embedding(x))
        return self.head(states[:, -1] if self.is_last_only else states)
