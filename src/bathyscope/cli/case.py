"""What the verbs work on, from words on the command line."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bathyscope.cli.resolve import factory_of, model_of
from bathyscope.core.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from torch import nn, optim

ModelName = Annotated[str, typer.Argument(help="A network's name, or package.module:factory.")]
Weights = Annotated[
    Path | None, typer.Option(help="A .safetensors file or a torch file of weights to load.")
]
DataName = Annotated[
    str, typer.Option("--data", help="A data set's name, or package.module:factory of a batch.")
]
BatchSize = Annotated[int, typer.Option(min=1, help="Samples of a data set in the batch.")]
LossName = Annotated[
    str, typer.Option("--loss", help="cross-entropy, mse, bce, or package.module:function.")
]
OptimizerName = Annotated[str, typer.Option("--optimizer", help="sgd, adam or adamw.")]
Rate = Annotated[float, typer.Option("--lr", min=0.0, help="Learning rate you mean to use.")]
Seed = Annotated[int, typer.Option(help="Of the weights and of the batch.")]
ModelOptions = Annotated[
    list[str] | None, typer.Option("--set", help="An option of the network: KEY=VALUE.")
]


def _writable(path: Path | None) -> Path | None:
    """The file, unless it cannot be written: known before the work, not after it."""
    if path is not None and str(path) != "-":
        from bathyscope.core.files import check_place

        check_place(path)
    return path


JsonFile = Annotated[
    Path | None,
    typer.Option("--json", callback=_writable, help="Write JSON to a file; - for standard output."),
]

NEEDS = "bathyscope.needs"
"""Key of a weights file for the remedy that its network must have and that weights do not hold."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model with a batch, a loss and the optimizer meant for it."""

    name: str
    model: "nn.Module"
    batch: Any
    loss: Any
    optimizer: "optim.Optimizer"


def case_of(
    name: str,
    *,
    weights: Path | None = None,
    data: str = "digits",
    batch_size: int = 64,
    loss: str = "cross-entropy",
    optimizer: str = "sgd",
    lr: float = 0.1,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> Case:
    """Build the model, take a batch, load weights, make the optimizer.

    Raises:
        UsageError: a name is unknown, a factory fails, or weights do not fit.
    """
    import torch

    torch.manual_seed(seed)
    batch, shape, classes = batch_of(data, batch_size, seed)
    model = model_of(name, options=options or {}, sample_shape=shape, num_classes=classes)
    if weights is not None:
        load_weights(model, weights)
    trained = [p for p in model.parameters() if p.requires_grad] or list(model.parameters())
    if not trained:
        raise UsageError(f"{name} has no parameters; give a network with weights.")
    return Case(name, model, batch, loss_of(loss), optimizer_of(optimizer, trained, lr=lr))


def loss_of(name: str) -> Any:
    """A loss by name or as `package.module:function`."""
    import torch.nn.functional as F

    known = {
        "cross-entropy": F.cross_entropy,
        "mse": F.mse_loss,
        "bce": F.binary_cross_entropy_with_logits,
    }
    if ":" in name:
        return factory_of(name)
    if name not in known:
        raise UnknownName("loss", name, known, hint="Or give package.module:function.")
    return known[name]


def optimizer_of(name: str, parameters: list[Any], *, lr: float) -> "optim.Optimizer":
    """An optimizer by name, with the settings of the papers: momentum 0.9, weight decay 1e-4."""
    from torch import optim

    if name == "sgd":
        return optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=1e-4)
    if name == "adam":
        return optim.Adam(parameters, lr=lr)
    if name == "adamw":
        return optim.AdamW(parameters, lr=lr)
    raise UnknownName("optimizer", name, ["sgd", "adam", "adamw"])


def load_weights(model: "nn.Module", path: Path) -> None:
    """Load a state dict from a safetensors or torch file, never running code from it.

    Raises:
        UsageError: the file cannot be read or does not fit the model.
    """
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file

    state: Any
    remedy = None
    try:
        if path.suffix == ".safetensors":
            state = load_file(path)
            with safe_open(path, framework="pt") as file:
                remedy = (file.metadata() or {}).get(NEEDS)
        else:
            state = torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError as error:
        raise UsageError(f"There are no weights at {path}; check the path.") from error
    except Exception as error:  # bytes that are no weights make the unpickler raise anything
        first = next(iter(str(error).strip().splitlines()), "")
        raise UsageError(
            f"The weights in {path} cannot be read ({type(error).__name__}: {first}); "
            "give a .safetensors file, or a state dict saved by torch."
        ) from error
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    try:
        model.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        first = " ".join(line.strip() for line in str(error).splitlines()[:2])
        raise UsageError(f"The weights in {path} do not fit the model: {first}") from error
    if remedy is not None:
        typer.echo(f"{path}: {needs(remedy)}", err=True)


def needs(remedy: str) -> str:
    """The sentence on weights whose network was changed too."""
    return (
        f"these weights need {remedy!r} in the network; loaded without it, it is the untreated one."
    )


def batch_of(data: str, size: int, seed: int) -> tuple[Any, tuple[int, ...], int]:
    """A batch, the shape of one input and the number of classes (0 where it is not known)."""
    if is_factory(data):
        batch = _first(factory_of(data), name=data)
        inputs, labels = batch if isinstance(batch, tuple) and len(batch) == 2 else (None, None)
        shape = tuple(getattr(inputs, "shape", ()))[1:]
        return batch, shape, _num_classes(labels)
    from bathyscope import data as sets

    loaded = sets.load(data, normalise=True, seed=seed)
    part = loaded.subset(min(size, len(loaded.train_labels)), seed=seed)
    return (part.train_inputs, part.train_labels), part.shape, part.num_classes


def _num_classes(labels: Any) -> int:
    """One more than the largest whole-number label; 10 where the targets are no labels."""
    import torch

    labels = torch.as_tensor(labels) if hasattr(labels, "ndim") else torch.zeros(())
    if labels.ndim != 1 or labels.is_floating_point() or not labels.numel():
        return 10
    return int(labels.max()) + 1


def is_factory(data: str) -> bool:
    """Whether the name is `package.module:factory` and not a data set's."""
    return ":" in data and not data.startswith(("folder:", "npz:", "synthetic:"))


def all_batches(data: str, first: Any) -> Any:
    """All batches of a factory that gives a loader; of a data set, the batch that was drawn.

    Args:
        data: what was named.
        first: the batch that `batch_of` gave.
    """
    if not is_factory(data):
        return first
    factory = factory_of(data)
    if isinstance(factory, Iterator):  # no function: it gave its first batch away
        return chain([first], factory)
    return _made(factory, name=data)


def _made(factory: Any, *, name: str) -> Any:
    """What a factory of batches gives: a batch or a loader."""
    try:
        return factory() if callable(factory) else factory
    except Exception as error:  # a user's own code may raise anything
        raise UsageError(f"The factory {name} failed: {type(error).__name__}: {error}") from error


def _first(factory: Any, *, name: str) -> Any:
    """The batch that a factory gives, or the first one of its loader."""
    made = _made(factory, name=name)
    try:
        batch = made if isinstance(made, (tuple, list, Mapping)) else next(iter(made), ())
    except Exception as error:  # so may a user's own loader
        raise UsageError(f"The loader of {name} failed: {type(error).__name__}: {error}") from error
    if isinstance(batch, (tuple, list, Mapping)) and not batch:
        raise UsageError(f"The factory {name} gave no batch; what it returns is empty.")
    return tuple(batch) if isinstance(batch, list) else batch
