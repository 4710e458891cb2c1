"""`bathyscope certify`: lower bound, guarantees and assumptions of a network on data."""

from typing import Annotated

import typer

from bathyscope.cli.options import CommandOptions, with_options
from bathyscope.cli.out import OutFiles, write_out
from bathyscope.cli.screen import echo


@with_options(batch_size=1000)
def certify(
    text: CommandOptions,
    each_block: Annotated[
        bool, typer.Option(help="Also the best risk after each block: one convex problem a block.")
    ] = True,
    out: OutFiles = None,
) -> None:
    """How far is a network from the best its features allow, and is that guaranteed?

    For a ResNEst, an augmented ResNEst or a DenseNEst: its risk, the best linear predictor's, the
    lower bound, the assumptions of the theorems with their numbers. Other networks get what
    applies to any network.

    Example: bathyscope certify aresnest-20 --data digits --samples 500

    Example: bathyscope certify runs/aresnest-20-digits-lr0.1-seed0-1a2b3c4d --json -
    """
    from bathyscope.certificates import certify as certificate
    from bathyscope.cli.screen import spinner

    setup = text.setup()
    # the loss is chosen by the kind of the targets unless one was given
    loss = setup.loss if "loss" in text.given else None
    with spinner(f"certifying {text.model}"):
        result = certificate(setup.model, setup.batches(), loss=loss, blocks=each_block)
    value = result.as_dict()
    text.answer(value, lambda: echo(result))
    title = f"certificate of {text.model}"
    write_out(out, title=title, value=value, say=lambda: echo(result))
