"""From the words of a setup to a model, a batch, a loss and an optimizer."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn, optim

from bathyscope.cli.options import CommandOptions
from bathyscope.cli.resolve import call_user_code, factory_of, model_of, read_assignments
from bathyscope.cli.screen import echo
from bathyscope.core.batch import Batch, LossFn, check_parameters, own_loss
from bathyscope.core.devices import check_device, on_device
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.losses import LOSSES, loss_named, token_cross_entropy
from bathyscope.data import SEQUENCES

NEEDS = "bathyscope.recipe"
"""Key of a weights file for the recipe that its network must have and that weights do not hold."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A model with a batch, a loss and the optimizer meant for it.

    Attributes:
        name: what was named.
        model: in the mode its maker left it in.
        batch: the first one.
        loss: of an output and targets.
        optimizer: over the parameters that are trained.
        blocks: names or globs of the blocks to look at; None for all.
        data: the name of the data.
    """

    name: str
    model: nn.Module
    batch: object
    loss: LossFn
    optimizer: optim.Optimizer
    blocks: list[str] | None
    data: str

    def batches(self) -> Any:
        """All batches of a factory that gives a loader; of a data set, the batch that was drawn."""
        if not is_factory(self.data):
            return self.batch
        device = next(self.model.parameters()).device
        factory = factory_of(self.data)
        if isinstance(factory, Iterator):  # no function: it gave its first batch away
            return _placed(chain([self.batch], factory), device)
        return _placed(_make_batches(factory, name=self.data), device)


def build_case(text: CommandOptions, name: str) -> Setup:
    """Build the model, take a batch, load weights, make the optimizer.

    Raises:
        UsageError: a name is unknown, a factory fails, or weights do not fit.
    """
    if is_folder(name):
        return _case_of_run(text, Path(name))
    options = read_assignments(text.set_ or [])
    torch.manual_seed(text.seed)
    batch, shape, classes = batch_of(text.data, text.batch_size, text.seed)
    model = model_of(name, options=options, sample_shape=shape, num_classes=classes)
    if text.weights is not None:
        load_weights(model, text.weights)
    return _complete(text, name, model, batch)


def skeleton_case(text: CommandOptions) -> tuple[nn.Module, Any]:
    """The network of a setup without weights, on the meta device, and the inputs of a batch.

    Raises:
        UsageError: a name is unknown, the factory fails there, or a run was named.
    """
    name = text.model
    if is_folder(name):
        raise UsageError("A run has its weights already; plan with the name of its network.")
    options = read_assignments(text.set_ or [])
    batch, shape, classes = batch_of(text.data, text.batch_size, text.seed)
    with torch.device("meta"):
        if ":" in name:
            model = model_of(name, options=options, sample_shape=shape, num_classes=classes)
        else:
            from bathyscope import nets

            sizes = nets.options_for(name, shape, num_classes=classes)
            model = nets.skeleton(name, **sizes | options)
    inputs = batch if isinstance(batch, Mapping) else batch[0]
    return model, inputs


def _case_of_run(text: CommandOptions, folder: Path) -> Setup:
    """The network of a run with its newest weights, and its own training data unless others are given.

    Raises:
        UsageError: the folder is not a run by name, or has no weights yet.
    """
    from bathyscope.cli.named_run import NamedRun
    from bathyscope.runs import load_checkpoint, read_run

    if text.set_ or text.weights:
        raise UsageError(
            "A run has its own weights and options; --weights and --set go with a network's name."
        )
    values, _, _ = read_run(folder)
    config = NamedRun.parse(values, source=f"The configuration of {folder}")
    own = {key: getattr(config, key) for key in ("data", "optimizer", "lr", "momentum")}
    own |= {"weight_decay": config.weight_decay, "loss": config.loss}
    text = replace(text, **{k: v for k, v in own.items() if k not in text.given})
    batch, shape, classes = batch_of(text.data, text.batch_size, text.seed)
    model = model_of(
        config.model, options=config.model_options, sample_shape=shape, num_classes=classes
    )
    checkpoint = load_checkpoint(folder)
    if checkpoint is None:
        raise UsageError(f"The run {folder} has no weights yet; train it first.")
    try:
        model.load_state_dict(checkpoint.weights)
    except RuntimeError as error:
        raise UsageError(
            f"The weights of {folder} do not fit its network on {text.data}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    return _complete(text, config.model, model, batch)


def _complete(text: CommandOptions, name: str, model: nn.Module, batch: object) -> Setup:
    device = check_device(text.device)
    if any(p.is_meta for p in model.parameters()):
        check_parameters(model)  # says that they have no values
    model, batch = model.to(device), _placed(batch, device)
    trained = [p for p in model.parameters() if p.requires_grad] or list(model.parameters())
    if not trained:
        raise UsageError(f"{name} has no parameters; give a network with weights.")
    optimizer = optimizer_of(text, trained)
    blocks = list(text.blocks) if text.blocks else None
    loss = loss_of(text.loss)
    if loss is F.cross_entropy and text.data in SEQUENCES:
        loss = token_cross_entropy
    return Setup(name, model, batch, loss, optimizer, blocks, text.data)


def loss_of(name: str) -> LossFn:
    """A loss by name, with a hyphen or an underscore, or as `package.module:function`.

    Raises:
        UnknownName: there is no such loss. `none` is the one that the model computes itself.
    """
    if ":" in name:
        result: LossFn = factory_of(name)
        return result
    if name.lower() in ("none", "own"):
        return own_loss
    if name.replace("_", "-") not in LOSSES:
        raise UnknownName("loss", name, LOSSES, hint="Or give package.module:function.")
    return loss_named(name)


def optimizer_of(text: CommandOptions, parameters: list[nn.Parameter]) -> optim.Optimizer:
    """An optimizer by name, with the settings of `bathyscope train`."""
    lr, decay = text.lr, text.weight_decay
    if text.optimizer != "sgd" and not text.momentum < 1:
        raise UsageError(
            f"--momentum is {text.momentum:g}, the first beta of {text.optimizer}, which must be "
            "below 1."
        )
    betas = (text.momentum, 0.999)
    with _without_compiler():
        if text.optimizer == "sgd":
            return optim.SGD(parameters, lr=lr, momentum=text.momentum, weight_decay=decay)
        if text.optimizer == "adam":
            return optim.Adam(parameters, lr=lr, betas=betas, weight_decay=decay)
        if text.optimizer == "adamw":
            return optim.AdamW(parameters, lr=lr, betas=betas, weight_decay=decay)
    raise UnknownName("optimizer", text.optimizer, ["sgd", "adam", "adamw"])


@contextmanager
def _without_compiler() -> Iterator[None]:
    """Within, optimizers are built without importing torch's compiler, which takes two CPU seconds.

    `add_param_group` imports it at its first call to say that the compiler is to leave that function
    alone (`torch._compile._disable_dynamo`), and keeps what it was given for it on the function. Nothing
    is compiled within, so that the function can stand for itself, and nothing of it is left behind.
    """
    inner = getattr(optim.Optimizer.add_param_group, "__wrapped__", None)
    known = inner is None or "torch._dynamo" in sys.modules
    if known or hasattr(inner, "__dynamo_disable"):
        yield
        return
    vars(inner)["__dynamo_disable"] = inner
    try:
        yield
    finally:
        del vars(inner)["__dynamo_disable"]


def load_weights(model: nn.Module, path: Path) -> None:
    """Load a state dict from a safetensors or torch file, never running code from it.

    Weights that `treat --save` wrote bring the recipe that their network needs; it is applied.

    Raises:
        UsageError: the file cannot be read or does not fit the model.
    """
    state, recipe = read_weights(path)
    try:
        model.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        first = " ".join(line.strip() for line in str(error).splitlines()[:2])
        raise UsageError(f"The weights in {path} do not fit the model: {first}") from error
    if recipe is not None:
        from bathyscope.remedies import Recipe, apply_

        needed = Recipe.parse(recipe, source=f"The recipe in {path}")
        apply_(model, needed)
        echo(f"{path}: applied what these weights need: {needed.description}.", err=True)


def read_weights(path: Path) -> tuple[Any, str | None]:
    """The state dict in a file, and the recipe that the network needs with it, if any.

    Raises:
        UsageError: there is no such file, or it holds no weights.
    """
    state, recipe = _read_file(path)
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    return state, recipe


def _read_file(path: Path) -> tuple[object, str | None]:
    from safetensors import safe_open
    from safetensors.torch import load_file

    try:
        if path.suffix != ".safetensors":
            return torch.load(path, weights_only=True, map_location="cpu"), None
        with safe_open(path, framework="pt") as file:
            recipe = (file.metadata() or {}).get(NEEDS)
        return load_file(path), recipe
    except FileNotFoundError as error:
        raise UsageError(f"There are no weights at {path}; check the path.") from error
    except Exception as error:  # bytes that are not weights make the unpickler raise anything
        first = next(iter(str(error).strip().splitlines()), "")
        raise UsageError(
            f"The weights in {path} cannot be read ({type(error).__name__}: {first}); "
            "give a .safetensors file, or a state dict saved by torch."
        ) from error


def batch_of(data: str, size: int, seed: int) -> tuple[Any, tuple[int, ...], int]:
    """A batch, the shape of one input and the number of classes (10 where it is not known)."""
    if is_factory(data):
        batch = _first_batch(factory_of(data), name=data)
        inputs, labels = batch if isinstance(batch, tuple) and len(batch) == 2 else (None, None)
        shape = tuple(getattr(inputs, "shape", ()))[1:]
        return batch, shape, _num_classes(labels)
    from bathyscope import data as sets

    if data in sets.SEQUENCES:
        tokens = sets.sequences(data, seed=seed)
        generator = torch.Generator().manual_seed(seed)
        batch = tokens.batch(min(size, len(tokens.train_inputs)), generator=generator)
        return batch, tuple(batch[0].shape[1:]), tokens.vocabulary
    loaded = sets.load(data, normalize=True, seed=seed)
    part = loaded.subset(min(size, len(loaded.train_labels)), seed=seed)
    return (part.train_inputs[:], part.train_labels), part.shape, part.num_classes


def training_batches(text: CommandOptions, *, steps: int) -> list[Any]:
    """Batches for this many steps: of a data set in a random order, epoch after epoch.

    A factory's loader gives the batches it has, at most this many; a factory's one batch is taken over
    and over.
    """
    from bathyscope import data as sets

    device = check_device(text.device)
    if is_factory(text.data):
        made = _placed(_make_batches(factory_of(text.data), name=text.data), device)
        if isinstance(made, (tuple, Mapping)):
            return [made] * steps
        with call_user_code(f"The loader of {text.data} failed"):
            return list(islice(made, steps))
    generator = torch.Generator().manual_seed(text.seed)
    if text.data in sets.SEQUENCES:
        tokens = sets.sequences(text.data, seed=text.seed)
        size = min(text.batch_size, len(tokens.train_inputs))
        drawn = [tokens.batch(size, generator=generator) for _ in range(steps)]
        return [_placed(batch, device) for batch in drawn]
    loaded = sets.load(text.data, normalize=True, seed=text.seed)
    total = len(loaded.train_labels)
    size = min(text.batch_size, total)
    order: list[int] = []
    while len(order) < steps * size:
        whole = total - total % size
        order += torch.randperm(total, generator=generator)[:whole].tolist()
    rows = torch.tensor(order[: steps * size]).split(size)
    chosen = [(loaded.train_inputs[r], loaded.train_labels[r]) for r in rows]
    return [_placed(batch, device) for batch in chosen]


def fresh_batches(setup: Setup, text: CommandOptions) -> Iterable[Any]:
    """The batches of a factory's loader; of a data set random ones without end."""
    if not is_factory(text.data):
        drawn: Iterable[Any] = _placed(_drawn_batches(text), check_device(text.device))
        return drawn
    made = setup.batches()
    return [made] if isinstance(made, (tuple, dict)) else made


def _drawn_batches(text: CommandOptions) -> Iterator[Batch]:
    from bathyscope import data as sets

    generator = torch.Generator().manual_seed(text.seed)
    if text.data in sets.SEQUENCES:
        tokens = sets.sequences(text.data, seed=text.seed)
        size = min(text.batch_size, len(tokens.train_inputs))
        while True:
            yield tokens.batch(size, generator=generator)
    loaded = sets.load(text.data, normalize=True, seed=text.seed)
    inputs, labels = loaded.train_inputs, loaded.train_labels
    while True:
        rows = torch.randint(len(inputs), (text.batch_size,), generator=generator)
        yield inputs[rows], labels[rows]


def _num_classes(labels: object) -> int:
    """One more than the largest whole-number label; 10 where the targets are not labels."""
    labels = torch.as_tensor(labels) if hasattr(labels, "ndim") else torch.zeros(())
    if labels.ndim != 1 or labels.is_floating_point() or not labels.numel():
        return 10
    return int(labels.max()) + 1


def _placed(batches: Any, device: torch.device) -> Any:
    """Batches on a device; those for the CPU as the user's factory gives them."""
    return batches if device.type == "cpu" else on_device(batches, device)


def is_factory(data: str) -> bool:
    """Whether the name is `package.module:factory` and not a data set's."""
    return ":" in data and not data.startswith(("folder:", "npz:", "synthetic:"))


def _make_batches(factory: object, *, name: str) -> Any:
    """What a factory of batches gives: a batch or a loader."""
    with call_user_code(f"The factory {name} failed"):
        return factory() if callable(factory) else factory


def _first_batch(factory: object, *, name: str) -> Any:
    """The batch that a factory gives, or the first one of its loader."""
    made = _make_batches(factory, name=name)
    with call_user_code(f"The loader of {name} failed"):
        batch = made if isinstance(made, (tuple, list, Mapping)) else next(iter(made), ())
    if isinstance(batch, (tuple, list, Mapping)) and not batch:
        raise UsageError(f"The factory {name} gave no batch; what it returns is empty.")
    return tuple(batch) if isinstance(batch, list) else batch


def is_folder(name: str) -> bool:
    """Whether there is a folder of that name; a name that no file can have is none."""
    try:
        return Path(name).is_dir()
    except (OSError, ValueError):
        return False
