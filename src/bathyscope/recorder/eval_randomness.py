"""Random numbers that a model uses in eval mode, and whether a dropout uses them."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from bathyscope.core.caller import user_line
from bathyscope.core.loop_record import ModelUse

_MOST_CHECKS = 8


class EvalRandomness:
    """Compares the state of the generator around calls in eval mode; names the dropout at the second."""

    def __init__(self) -> None:
        self._checks = 0
        self._state: torch.Tensor | None = None
        self._mode: _DropoutFinder | None = None

    def before(self, use: ModelUse) -> None:
        """A model is to be called in eval mode."""
        if self._checks >= _MOST_CHECKS or self._state is not None:
            return
        self._checks += 1
        self._state = torch.default_generator.get_state()
        if use.random_in_eval and use.dropout_in_eval is None:
            self._mode = _DropoutFinder(use)
            self._mode.__enter__()  # type: ignore[no-untyped-call]

    def after(self, use: ModelUse) -> None:
        """The call has ended, also by an exception."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            self._mode = None
        if self._state is not None:
            changed = not torch.equal(self._state, torch.default_generator.get_state())
            use.random_in_eval += changed
            self._state = None


class _DropoutFinder(TorchFunctionMode):
    """Notes the first function that drops values; changes nothing."""

    def __init__(self, use: ModelUse) -> None:
        super().__init__()
        self.use = use

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        is_attention = name == "scaled_dot_product_attention"
        probability = kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0)
        if is_attention and probability and self.use.dropout_in_eval is None:
            self.use.dropout_in_eval = name
            self.use.dropout_at = user_line()
        if "dropout" in name and self.use.dropout_in_eval is None:
            training = kwargs.get("training", args[2] if len(args) > 2 else True)
            p = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
            if training and p:
                self.use.dropout_in_eval = name
                self.use.dropout_at = user_line()
        return func(*args, **kwargs)
