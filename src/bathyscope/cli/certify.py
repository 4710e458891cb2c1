"""`bathyscope certify`: lower bound, guarantees and assumptions of a network on data."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bathyscope.cli.case import (
    JsonFile,
    ModelOptions,
    Seed,
    Weights,
    all_batches,
    batch_of,
    load_weights,
)
from bathyscope.cli.case import loss_of as named_loss
from bathyscope.cli.resolve import model_of
from bathyscope.cli.train import assignments
from bathyscope.core.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from bathyscope.certificates import Certificate


def certify(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="RUN|MODEL", help="A run folder, a network's name, or package.module:factory."
        ),
    ],
    weights: Weights = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="A data set's name, or package.module:factory of a batch or a loader "
            "(digits; of a run, its own)."
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Training samples of a data set.")] = 1000,
    loss: Annotated[
        str | None,
        typer.Option(
            help="cross-entropy, mse, bce, or package.module:function (by the targets' kind)."
        ),
    ] = None,
    blocks: Annotated[
        bool, typer.Option(help="Also the best risk after each block: one convex problem a block.")
    ] = True,
    as_json: JsonFile = None,
    seed: Seed = 0,
    set_: ModelOptions = None,
) -> None:
    """How far is a network from the best its features allow, and is that guaranteed?

    For a ResNEst, an augmented ResNEst or a DenseNEst: its risk, the best linear predictor's, the
    lower bound, the assumptions of the theorems with their numbers. Other networks get what
    applies to any network.

    Example: bathyscope certify aresnest-20 --data digits --samples 500

    Example: bathyscope certify runs/aresnest-20-digits-lr0.1-seed0-1a2b3c4d --json -
    """
    from bathyscope.certificates import certify as certificate
    from bathyscope.cli.waiting import waiting

    options = assignments(set_ or [])
    if Path(subject).is_dir():
        if options or weights:
            raise UsageError(
                "A run has its own weights and options; --weights and --set go with a network's "
                "name."
            )
        model, batch = _of_run(Path(subject), data, samples, seed)
    else:
        model, batch = _of_name(subject, options, weights, data or "digits", samples, seed)
    with waiting(f"certifying {subject}"):
        found = certificate(
            model, batch, loss=None if loss is None else named_loss(loss), blocks=blocks
        )
    _tell(found, as_json)


def _tell(found: "Certificate", as_json: Path | None) -> None:
    """As text, and as JSON to a file; or as JSON alone on standard output."""
    plain = json.dumps(found.as_dict(), allow_nan=False)
    if as_json is not None and str(as_json) != "-":
        as_json.write_text(plain, encoding="utf-8")
    typer.echo(plain if str(as_json) == "-" else str(found))


def _of_name(
    name: str, options: dict[str, Any], weights: Path | None, data: str, samples: int, seed: int
) -> tuple["nn.Module", Any]:
    """A network by its name, with the weights given or new ones, and all batches of the data."""
    import torch

    torch.manual_seed(seed)
    batch, shape, classes = batch_of(data, samples, seed)
    model = model_of(name, options=options, sample_shape=shape, num_classes=classes)
    if weights is not None:
        load_weights(model, weights)
    return model, all_batches(data, batch)


def _of_run(folder: Path, data: str | None, samples: int, seed: int) -> tuple["nn.Module", Any]:
    """The network of a run with its newest weights, and its own training data unless others are given.

    Raises:
        UsageError: the folder is no run by name, or has no weights yet.
    """
    from bathyscope.cli.named_run import NamedRun
    from bathyscope.runs import load_checkpoint, read_run

    values, _, _ = read_run(folder)
    config = NamedRun.parse(values, source=f"The configuration of {folder}")
    data = data or config.data
    batch, shape, classes = batch_of(data, samples, seed)
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
            f"The weights of {folder} do not fit its network on {data}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    return model, all_batches(data, batch)
