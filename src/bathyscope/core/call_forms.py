"""The forms in which people hand over what they train: x and y, a loader, a trainer, a Lightning module."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.core.batch import LossFn, check_parameters, own_loss, read_all
from bathyscope.core.errors import UsageError
from bathyscope.core.global_state import preserve_random_state
from bathyscope.core.losses import loss_named
from bathyscope.core.nested import tensors_in


@dataclass(frozen=True, slots=True)
class TrainingCall:
    """What is trained: a model, its data (a batch or several), a loss, and the optimizer if there is one.

    Attributes:
        model: a module, or one whose forward pass is the training step of a trainer.
        data: as it was given; of a trainer its first batch.
        loss: a scalar from output and targets.
        optimizer: the one meant for training.
        title: the model's name, where it is not its class's.
        batches: of a trainer all of its batches, in the form that `model` takes; else the data.
    """

    model: nn.Module
    data: object
    loss: LossFn
    optimizer: torch.optim.Optimizer | None
    title: str | None = None
    batches: object = None


class PreparedBatches:
    """The batches of a loader, each as the model takes it; they can be read again and again."""

    def __init__(self, loader: Iterable[object], prepare: Callable[[Any], object]) -> None:
        self.loader, self.prepare = loader, prepare

    def __iter__(self) -> Iterator[object]:
        return map(self.prepare, read_all(self.loader))


def is_trainer(model: object) -> bool:
    """Whether it is a `Trainer` of Hugging Face or a `LightningModule`, which have a loss and data."""
    return _is_a(model, "transformers", "Trainer") or (
        _is_a(model, "lightning", "LightningModule")
        and callable(getattr(model, "training_step", None))
    )


@contextmanager
def as_trained(model: object) -> Iterator[None]:
    """Within, the model of a Hugging Face `Trainer` is in train mode, as its `train()` has it.

    `from_pretrained` gives models in eval mode. Anything else is left in the mode in which it was given.
    """
    if not _is_a(model, "transformers", "Trainer"):
        yield
        return
    modes = {part: part.training for part in model.model.modules()}  # type: ignore[attr-defined]
    model.model.train()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def read_call(
    model: object,
    data: object = None,
    targets: object = None,
    *,
    loss: LossFn | str | None,
    optimizer: torch.optim.Optimizer | None = None,
) -> TrainingCall:
    """The model, data, loss and optimizer of a call, whichever form it has.

    Args:
        model: a module, a Hugging Face `Trainer`, or a `LightningModule`.
        data: inputs (with targets), a batch, several batches, or a data module of Lightning; a trainer
            has its own.
        targets: of the inputs.
        loss: a function, a name of `core.losses.LOSSES`, or None for the one that the model computes.
        optimizer: the one meant for training.

    Raises:
        UsageError: it is none of these.
    """
    if _is_a(model, "transformers", "Trainer"):
        return _of_trainer(model, data, optimizer)
    if is_trainer(model):
        return _of_lightning(model, data, optimizer)
    if isinstance(model, Mapping) and model and all(map(torch.is_tensor, model.values())):
        raise UsageError(
            "The model is a torch.nn.Module, but weights were given; load them into it with "
            "model.load_state_dict(weights), and pass the model."
        )
    check_parameters(model)  # raises where it is none
    assert isinstance(model, nn.Module)
    if isinstance(loss, str):
        loss = loss_named(loss)
    if targets is not None:
        data = (data, targets)
    return TrainingCall(model, data, own_loss if loss is None else loss, optimizer, batches=data)


def first_batch(data: object) -> object:
    """The batch itself, or the first of a list or a loader of batches.

    Raises:
        UsageError: there is none, or something else was given.

    Examples:
        >>> first_batch([(torch.ones(2), torch.zeros(2)), (torch.ones(3), torch.zeros(3))])[0]
        tensor([1., 1.])
    """
    if data is None:
        raise UsageError("There is no data; pass it: diagnose(model, x, y).")
    if isinstance(data, Tensor):
        raise UsageError(
            "Inputs were given without targets: call diagnose(model, x, y); of a model that computes its "
            "own loss pass the mapping of its inputs and loss=None."
        )
    if isinstance(data, torch.utils.data.Dataset) and not isinstance(
        data, torch.utils.data.IterableDataset
    ):
        raise UsageError(
            f"A {type(data).__name__} gives single samples; pass batches: "
            "DataLoader(dataset, batch_size=64)."
        )
    if is_batch(data) or not isinstance(data, Iterable) or isinstance(data, (str, bytes)):
        return data
    with preserve_random_state(data):  # a loader may draw random numbers
        first = next(iter(read_all(data)), None)
    if first is None:
        raise UsageError("The list or loader of batches is empty; pass at least one batch.")
    return first


def is_batch(data: object) -> bool:
    """Whether it is one batch: a mapping, or a tuple or list that is not one of batches.

    Examples:
        >>> x, y = torch.zeros(4, 3), torch.zeros(4, dtype=torch.long)
        >>> is_batch([x, y]), is_batch([(x, y), (x, y)]), is_batch([[x, y], [x, y]])
        (True, False, False)
    """
    if isinstance(data, Mapping):
        return True
    if not isinstance(data, (tuple, list)):
        return False
    if not data or not all(_is_pair(item) or isinstance(item, Mapping) for item in data):
        # an empty list is one of batches that has none
        return bool(data) or isinstance(data, tuple)
    if isinstance(data, tuple) and len(data) == 2:
        return True  # ((a, b), (t, u)): two inputs and two targets
    if len(data) == 2 and all(isinstance(item, Mapping) for item in data):
        return bool(data[0].keys() != data[1].keys())  # two of the same names are two batches
    if all(type(item) is tuple or isinstance(item, Mapping) for item in data):
        return False  # torch's loaders collate tuples into lists
    # lists of lists: two batches are alike item by item, and their inputs are unlike their targets
    forms = [[_form(part) for part in item] for item in data]
    return len(data) == 2 and (forms[0] != forms[1] or forms[0][0] == forms[0][1])


def _is_pair(item: object) -> bool:
    return (
        isinstance(item, (tuple, list))
        and len(item) == 2
        and all(next(tensors_in(part), None) is not None for part in item)
    )


def _form(value: object) -> list[tuple[torch.dtype, tuple[int, ...]]]:
    return [(t.dtype, tuple(t.shape[1:])) for t in tensors_in(value)]


class OwnStep(nn.Module):
    """A model whose forward pass is a training step of the user's own, which gives the loss.

    Its parts, their names and their hooks are the model's; `step` is called with what the loader gave.
    """

    def __init__(self, inner: nn.Module, step: "_Step") -> None:
        super().__init__()
        self._parameters, self._buffers = inner._parameters, inner._buffers
        self._modules = inner._modules
        self.__dict__["_inner"], self._step = inner, step  # not a part: the parts are shared
        self.training = inner.training

    def train(self, mode: bool = True) -> "OwnStep":
        """Set the mode of the parts and of the model itself."""
        super().train(mode)
        self.__dict__["_inner"].training = mode
        return self

    def forward(self, *args: object, **kwargs: object) -> object:
        """Call the step with the batch."""
        batch = kwargs or (args if len(args) != 1 else args[0])
        return self._step(self.__dict__["_inner"], batch)


class _Step:
    """A step that a copy of the model shares: what it belongs to is not copied."""

    def __deepcopy__(self, memo: dict[int, object]) -> "_Step":
        return self

    def __call__(self, inner: nn.Module, batch: object) -> object:
        raise NotImplementedError


class _LightningStep(_Step):
    def __call__(self, inner: Any, batch: object) -> object:
        result = inner.training_step(batch, 0)
        if result is None:
            raise UsageError("The training_step returned None; return the loss.")
        return result if isinstance(result, Mapping) else {"loss": result}


class _TrainerStep(_Step):
    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def __call__(self, inner: nn.Module, batch: Any) -> object:
        loss, output = self.trainer.compute_loss(inner, dict(batch), return_outputs=True)
        rest = dict(output) if isinstance(output, Mapping) else {"output": output}
        return {**rest, "loss": loss}


def _of_trainer(
    trainer: Any, data: object, optimizer: torch.optim.Optimizer | None
) -> TrainingCall:
    model: nn.Module = trainer.model
    if data is None:
        with preserve_random_state():
            data = trainer.get_train_dataloader()
    with preserve_random_state():
        batch = trainer._prepare_inputs(first_batch(data))
    every = PreparedBatches(_several(data), trainer._prepare_inputs)
    standard = next(k for k in type(trainer).__mro__ if k.__module__ == "transformers.trainer")
    changed = (
        type(trainer).compute_loss is not standard.compute_loss  # type: ignore[attr-defined]
        or getattr(trainer, "compute_loss_func", None) is not None
        or getattr(trainer, "label_smoother", None) is not None
    )
    if optimizer is None:
        optimizer = _trainer_optimizer(trainer)
    if changed:
        whole = OwnStep(model, _TrainerStep(trainer))
        return TrainingCall(whole, batch, own_loss, optimizer, type(model).__name__, every)
    return TrainingCall(model, batch, own_loss, optimizer, batches=every)


def _trainer_optimizer(trainer: Any) -> torch.optim.Optimizer | None:
    """The trainer's own, or the one that it will make; the trainer is left as it was."""
    if trainer.optimizer is not None:
        result: torch.optim.Optimizer = trainer.optimizer
        return result
    made = None
    with suppress(Exception):  # some need what only `train` sets up
        made = trainer.create_optimizer()
    trainer.optimizer = None
    return made if isinstance(made, torch.optim.Optimizer) else None


def _of_lightning(
    module: Any, data: object, optimizer: torch.optim.Optimizer | None
) -> TrainingCall:
    if data is None or hasattr(data, "train_dataloader"):
        holder: Any = module if data is None else data
        with suppress(Exception):  # without a trainer some hooks raise
            if data is not None:
                holder.prepare_data()
                holder.setup("fit")
        try:
            data = holder.train_dataloader()
        except Exception as error:
            raise UsageError(
                "The LightningModule has no data of its own; pass its loader or data module: "
                "diagnose(module, loader)."
            ) from error
    batch = first_batch(data)
    if optimizer is None:
        with suppress(Exception):  # some need a trainer
            optimizer = _first_optimizer(module.configure_optimizers())
    whole = OwnStep(module, _LightningStep())
    every = PreparedBatches(_several(data), _as_inputs)
    return TrainingCall(whole, _as_inputs(batch), own_loss, optimizer, type(module).__name__, every)


def _as_inputs(batch: object) -> tuple[object, None]:
    """What a loader gave, as inputs of a step that knows the targets among them."""
    return (tuple(batch) if isinstance(batch, list) else batch), None


def _several(data: object) -> Iterable[object]:
    """The batches of a list or a loader; one batch alone is a list of one."""
    return [data] if is_batch(data) or not isinstance(data, Iterable) else data


def _first_optimizer(made: object) -> torch.optim.Optimizer | None:
    """Of the forms that `configure_optimizers` may return, the first optimizer."""
    if isinstance(made, Mapping):
        made = made.get("optimizer")
    if isinstance(made, (tuple, list)):
        return next(filter(None, map(_first_optimizer, made)), None)
    return made if isinstance(made, torch.optim.Optimizer) else None


def _is_a(value: object, package: str, name: str) -> bool:
    """Whether it is of a class of another package, which need not be installed."""
    roots = (package, f"pytorch_{package}")
    return any(
        kind.__name__ == name and kind.__module__.split(".")[0] in roots
        for kind in type(value).__mro__
    )
