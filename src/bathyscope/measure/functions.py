"""Torch's functions as a pass calls them, for several listeners through one mode."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch.overrides import TorchFunctionMode


class FunctionWatch(TorchFunctionMode, ABC):
    """Within, hears of every function that is called; what it calls itself it does not hear."""

    def before(self, func: Callable[..., object], args: tuple[object, ...]) -> object:
        """The function is about to be called; what is returned comes back in `after`."""
        return None

    @abstractmethod
    def after(
        self,
        func: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        output: object,
        kept: object,
    ) -> None:
        """The function has given its output."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Call the function between the two."""
        kwargs = kwargs or {}
        kept = self.before(func, args)
        output = func(*args, **kwargs)
        self.after(func, args, kwargs, output, kept)
        return output


class Together(FunctionWatch):
    """Several watches as one: each mode of its own would cost every function another call in Python.

    They hear in the order given, as if each had been entered inside the one before.
    """

    def __init__(self, *watches: FunctionWatch) -> None:
        super().__init__()
        self.watches = watches

    def before(self, func: Callable[..., object], args: tuple[object, ...]) -> object:
        """What each of them keeps."""
        return [watch.before(func, args) for watch in self.watches]

    def after(
        self,
        func: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        output: object,
        kept: object,
    ) -> None:
        """One after the other."""
        assert isinstance(kept, list), "what `before` gave"
        for watch, own in zip(self.watches, kept, strict=True):
            watch.after(func, args, kwargs, output, own)
