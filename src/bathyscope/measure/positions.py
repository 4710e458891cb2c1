"""Whether the order of the tokens makes any difference, and the tables that embed them."""

import re
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bathyscope.core.batch import run_forward
from bathyscope.core.calls import unwrap
from bathyscope.core.fetch import fetch, near
from bathyscope.core.nested import copy_tensors, first_samples, map_tensors
from bathyscope.core.preserve import preserve_model
from bathyscope.core.walks import named_modules, named_parameters
from bathyscope.measure.dependence.input_roles import NamedInput, named_inputs
from bathyscope.measure.dependence.padding import padding_of
from bathyscope.measure.logits import logits_in

_SAMPLES = 2
_OF_POSITIONS = re.compile(r"pos(?!t)|wpe")


def position_effect(model: nn.Module, inputs: object) -> float | None:
    """Relative change of the output when tokens between the first and the last real one change places.

    Tokens are whole numbers (samples, tokens); padding, and the first token, which may stand for the whole
    sequence, stay where they are. Of images the patches change places, where the model has a convolution that
    cuts them. Compared is what the last real token gives out, or the sample.

    Returns:
        ‖f(x) − f(permuted x)‖/‖f(x)‖ with rows centered, or None where the inputs are neither, or carry
        positions or documents of their own.

    Examples:
        >>> from bathyscope import nets
        >>> small = {"vocabulary": 9, "context": 8, "width": 8, "heads": 2}
        >>> tokens = torch.arange(8)[None]
        >>> position_effect(nets.build("bert-2", seed=0, positions="none", **small), tokens) < 1e-5
        True
        >>> position_effect(nets.build("bert-2", seed=0, **small), tokens) > 1e-3
        True
    """
    model = unwrap(model)
    few = first_samples(inputs, _SAMPLES)
    changed, last = _permuted(model, few)
    if changed is None:
        return None
    with preserve_model(model, copy_parameters=False), torch.no_grad():
        model.eval()
        before, after = (logits_in(run_forward(model, copy_tensors(x))) for x in (few, changed))
    if before is None or after is None or before.shape != after.shape:
        return None
    if before.ndim == 3:
        rows = (
            last if len(last) == len(before) and max(last) < before.shape[1] else [-1] * len(before)
        )
        before, after = (
            torch.stack([s[r] for s, r in zip(y, rows, strict=True)]) for y in (before, after)
        )
    # a softmax does not see a common offset of the logits, however large
    before, after = (y.double() - y.double().mean(-1, keepdim=True) for y in (before, after))
    (size,), (moved,) = fetch([before.norm(), (before - after).norm()])
    return moved / size if size else None


def tables_of(model: nn.Module) -> dict[str, str | float | bool | None]:
    """The largest embedding table, its size, whether the output shares it, and the positions' table."""
    model = unwrap(model)
    named = named_modules(model)
    tables = {n: m for n, m in named.items() if isinstance(m, nn.Embedding)}
    every = [*named, *named_parameters(model)]
    positions = [name for name in every if _OF_POSITIONS.search(name.rsplit(".", 1)[-1].lower())]
    result: dict[str, str | float | bool | None] = {"position_table": next(iter(positions), None)}
    text = {n: m for n, m in tables.items() if n not in positions}
    if not text:
        return result
    name, table = max(text.items(), key=lambda item: item[1].weight.numel())
    shared = any(
        getattr(m, "weight", None) is table.weight for n, m in named.items() if m is not table
    )
    rms = float(near(table.weight.detach()).double().square().mean().sqrt())
    return {**result, "table": name, "table_rms": rms, "is_tied": shared}


def head_of(model: nn.Module, num_classes: int) -> str | None:
    """The last module whose weight gives as many outputs as there are classes."""
    fits = [
        name
        for name, module in named_modules(unwrap(model)).items()
        if isinstance(weight := getattr(module, "weight", None), Tensor)
        and not isinstance(module, nn.Embedding)
        and weight.ndim == 2
        and weight.shape[0] == num_classes
    ]
    return fits[-1] if fits else None


def _permuted(model: nn.Module, inputs: object) -> tuple[object, list[int]]:
    """The inputs with inner tokens or patches in another order, and the last real position of each sample."""
    known = named_inputs(inputs)
    images = known[0].tensor if known and known[0].role == "values" else None
    if images is not None and images.ndim == 4:
        mixed = _with_shuffled_patches(model, images)
        if mixed is None:
            return None, []
        return map_tensors(inputs, lambda t: mixed if t is images else t), []
    main = next((one.tensor for one in known if one.role == "tokens"), None)
    roles = {one.role for one in known}
    if (
        main is None
        or main.ndim != 2
        or main.is_floating_point()
        or roles & {"positions", "documents"}
    ):
        return None, []
    if sum(one.role == "tokens" for one in known) > 1 and not _only_types(known):
        return None, []
    padding = padding_of(known)
    everywhere = torch.ones(main.shape, dtype=torch.bool, device="cpu")
    is_real = everywhere if padding is None else ~padding.where.cpu()
    places = [row.nonzero().flatten() for row in is_real]
    if min(len(p) for p in places) < _FEWEST_REAL:
        return None, []
    changed = main.clone()
    for sample, where in enumerate(places):
        inner = where[1:-1]
        others = inner[_other_order(len(inner))].to(main.device)
        changed[sample, inner.to(main.device)] = main[sample, others]
    replaced = map_tensors(inputs, lambda t: changed if t is main else t)
    return replaced, [int(p[-1]) for p in places]


_FEWEST_REAL = 4
"""Tokens that are needed to put two inner ones in another order."""


def _only_types(known: Sequence[NamedInput]) -> bool:
    return all(one.name in ("input_ids", "token_type_ids") for one in known if one.role == "tokens")


def _other_order(length: int) -> Tensor:
    order = torch.randperm(length, generator=torch.Generator().manual_seed(0), device="cpu")
    return order.flip(0) if bool((order == torch.arange(length, device="cpu")).all()) else order


def _shuffled(tokens: Tensor, *, dim: int) -> Tensor:
    """The entries before the last one in another order, the same for every sample."""
    length = tokens.shape[dim]
    order = torch.cat([_other_order(length - 1), torch.tensor([length - 1], device="cpu")])
    return tokens.index_select(dim, order.to(tokens.device))


def _with_shuffled_patches(model: nn.Module, images: Tensor) -> Tensor | None:
    cutting = (
        m.kernel_size
        for m in model.modules()
        if isinstance(m, nn.Conv2d) and m.kernel_size == m.stride and max(m.kernel_size) > 1
    )
    size = next(cutting, None)
    n, c, height, width = images.shape
    if size is None or height % size[0] or width % size[1]:
        return None
    rows, columns = height // size[0], width // size[1]
    if rows * columns < 3:
        return None
    grid = images.reshape(n, c, rows, size[0], columns, size[1]).permute(0, 2, 4, 1, 3, 5)
    mixed: Tensor = _shuffled(grid.flatten(1, 2), dim=1).unflatten(1, (rows, columns))
    return mixed.permute(0, 3, 1, 4, 2, 5).reshape(images.shape)
