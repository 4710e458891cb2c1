"""`bathyscope nets`: the families of networks, or one network block by block."""

from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.listings import family_rows
from bathyscope.cli.options import JsonFile, answer
from bathyscope.cli.out import OutFiles, write_out
from bathyscope.core.json_values import JsonObject

if TYPE_CHECKING:
    from bathyscope.core import Blocks


def nets(
    name: Annotated[str | None, typer.Argument(help="A network to look at, as resnet-56.")] = None,
    size: Annotated[
        int | None,
        typer.Option(min=8, max=2**16, help="Side of the images (32; 224 for the ImageNet forms)."),
    ] = None,
    channels: Annotated[int, typer.Option(min=1, help="Channels of the images.")] = 3,
    classes: Annotated[
        int | None, typer.Option(min=1, help="Number of classes (the network's own default).")
    ] = None,
    out: OutFiles = None,
    as_json: JsonFile = None,
) -> None:
    """List the networks, or show one: its blocks, their shapes and parameters.

    Example: bathyscope nets

    Example: bathyscope nets procresnet-166 --classes 100
    """
    if name is None:
        rows = family_rows()
        answer(as_json, rows, lambda: _print_families(rows))
        write_out(out, title="networks", value=rows, say=lambda: _print_families(rows))
        return
    summary = _summary(name, size=size, channels=channels, classes=classes)
    answer(as_json, summary, lambda: _print_summary(summary))
    write_out(out, title=name, value=summary, say=lambda: _print_summary(summary))


def _summary(
    name: str, *, size: int | None, channels: int, classes: int | None
) -> dict[str, object]:
    import torch

    from bathyscope import nets as catalog
    from bathyscope.core import blocks_of
    from bathyscope.core.calls import num_parameters
    from bathyscope.diagnosis import plan_diagnosis

    family = catalog.family_of(name)
    options: JsonObject = {} if classes is None else {"num_classes": classes}
    if "in_channels" in family.options():
        options["in_channels"] = channels
        side = size or (224 if name.startswith("imagenet") else 32)
        shape: tuple[int, ...] = (channels, side, side)
        if "image_size" in family.options():
            options["image_size"] = side
    elif "vocabulary" in family.options():
        options = {} if classes is None else {"vocabulary": classes}
        shape = (family.options()["context"].default,)
    else:
        shape = (family.options()["width"].default,)
    network = catalog.skeleton(name, **options)
    dtype = torch.long if "vocabulary" in family.options() else torch.float32
    inputs = torch.zeros(64, *shape, dtype=dtype, device="meta")
    # on two samples: each pass over a deep skeleton takes seconds, however small the batch
    blocks = blocks_of(network, inputs[:2])
    return {
        "name": name,
        "summary": family.summary,
        "theme": family.theme,
        "input": list(shape),
        "parameters": num_parameters(network),
        "cost": str(plan_diagnosis(network, inputs, blocks=blocks)),
        "blocks": _block_rows(blocks),
        "transition_layers": list(network.transition_layers())
        if isinstance(network, catalog.Network)
        else [],
    }


def _block_rows(blocks: "Blocks") -> list[dict[str, object]]:
    return [
        {
            "name": block.name,
            "in": list(block.in_shape[1:]),
            "out": list(block.out_shape[1:]),
            "parameters": block.num_parameters,
            "changes_dimension": block.changes_dimension,
            "droppable": block.droppable,
        }
        for block in blocks
    ]


def _print_families(rows: list[JsonObject]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from bathyscope.core.terminal import guarded

    table = Table(box=SIMPLE_HEAD, caption=_CAPTION, caption_justify="left")
    for heading in ("name", "depth", "what it is"):
        limit = 10 if heading == "depth" else None
        table.add_column(heading, no_wrap=heading == "name", max_width=limit)
    for heading in ("parameters", "of"):
        table.add_column(heading, justify="right", no_wrap=True)
    for theme in dict.fromkeys(row["theme"] for row in rows):
        table.add_section()
        table.add_row(Text(theme, style="bold"))
        for row in (row for row in rows if row["theme"] == theme):
            table.add_row(
                row["pattern"] + (" *" if row["erased_form"] else ""),
                row["depths"].split(" = ")[-1],
                row["summary"],
                f"{row['parameters']:,}",
                row["example"].removeprefix(row["family"] + "-"),
            )
    guarded().print(table)


_CAPTION = (
    "Bold: the paper. *: also with -erased at the end, the last ReLU of each block left out.\n"
    "Parameters are those of the depth beside them; any depth of the formula can be built.\n"
    "bathyscope nets resnet-164 shows one network, block by block."
)


def _print_summary(summary: JsonObject) -> None:
    from rich.table import Table

    from bathyscope.core.terminal import guarded

    title = f"{summary['name']}: {summary['summary']} ({summary['theme']})"
    caption = f"{len(summary['blocks'])} blocks, {summary['parameters']:,} parameters"
    caption += f"\ndiagnose, on 64 samples: {summary['cost']}"
    if summary["transition_layers"]:
        caption += f"\ntransition layers: {', '.join(summary['transition_layers'])}"
    table = Table(title=title, caption=caption, caption_justify="left")
    for heading in ("block", "input", "output"):
        table.add_column(heading, no_wrap=True)
    table.add_column("parameters", justify="right")
    for heading in ("changes dimension", "droppable"):
        table.add_column(heading)
    for block in summary["blocks"]:
        table.add_row(
            block["name"],
            _by(block["in"]),
            _by(block["out"]),
            f"{block['parameters']:,}",
            "yes" if block["changes_dimension"] else "",
            "yes" if block["droppable"] else "no",
        )
    guarded().print(table)


def _by(shape: list[int]) -> str:
    return " × ".join(map(str, shape))
