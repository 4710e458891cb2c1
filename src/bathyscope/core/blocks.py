"""Finding the blocks of any module: the steps x_{l+1} = block_l(x_l) of its body."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

from torch import nn

from bathyscope.core.arguments import check_names, matches_glob
from bathyscope.core.batch import check_parameters
from bathyscope.core.calls import Call, calls_of_few, unwrap
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.nested import tensors_in
from bathyscope.core.protocol import ChangesDimension, DeclaresBlocks, Droppable
from bathyscope.core.records import Block, BlockSource, Part
from bathyscope.core.walks import FSDP, own_class

# A finer kind of block is preferred to the one around it when it holds this fraction of its weighted
# layers: the stages of a network hold little beside their blocks, a block much beside its convolutions.
_FINER_FRACTION = 0.9
_ACTIVATIONS = tuple(
    kind
    for kind in vars(nn.modules.activation).values()
    if isinstance(kind, type) and issubclass(kind, nn.Module) and kind is not nn.MultiheadAttention
    if kind not in (nn.Module, nn.PReLU)
)
_RESHAPES = (nn.Flatten, nn.Unflatten, nn.Identity)
_PARAMETRIZED = "parametrizations"
_FEWEST_LISTED = 3  # two alike may be the two halves of anything
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


@dataclass(frozen=True, slots=True)
class Blocks(Sequence[Block]):
    """The blocks in the order of the forward pass, how they were found, and what to know of it.

    `around` are the stem and the head: weighted modules that are called before the first block and
    after the last, such as an embedding, a first convolution or a classifier.
    """

    blocks: tuple[Block, ...]
    how: BlockSource
    note: str = ""
    around: tuple[Block, ...] = ()

    @property
    def rows(self) -> "Blocks":
        """Stem, body and head one after the other."""
        stem = tuple(b for b in self.around if b.part == "stem")
        head = tuple(b for b in self.around if b.part == "head")
        return Blocks((*stem, *self.blocks, *head), self.how, self.note)

    def __len__(self) -> int:
        return len(self.blocks)

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> "Blocks": ...
    def __getitem__(self, index: int | slice) -> "Block | Blocks":
        if isinstance(index, slice):
            return Blocks(self.blocks[index], self.how, self.note)
        return self.blocks[index]

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)


def blocks_of(
    model: nn.Module, example: object, *, blocks: Iterable[str] | Blocks | None = None
) -> Blocks:
    """The blocks of a model, found from one forward pass of an example.

    In this order: the blocks given; those that the model declares (`block_names()`); the body: the
    modules of the repeated kind that holds most of the weighted layers, with whatever weighted
    modules lie between them; the layers of a chain, each with the activations that follow it; at
    last every weighted leaf module, with the norms and activations after it in the same
    `nn.Sequential`, and the note says so.

    Args:
        model: any module; wrappers (DataParallel, `torch.compile`) are looked through.
        example: inputs: a tensor, a tuple of positional or a mapping of named inputs.
        blocks: names or globs as in `named_modules()` (`"layer*.?"`; a `*` stops at dots, `**` does
            not), or blocks found before.

    Raises:
        UsageError: the model has no parameters, cannot take the example, or nothing matches.

    Examples:
        >>> import torch
        >>> mlp = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> [(b.name, b.end) for b in blocks_of(mlp, torch.zeros(3, 4))]
        [('0', '1'), ('2', '2')]
    """
    if isinstance(blocks, Blocks):
        return blocks
    is_meta = all(t.is_meta for t in tensors_in(example))  # shapes alone, as for a plan
    check_parameters(model, with_values=not is_meta)
    model = unwrap(model)
    names = () if blocks is None else check_names("blocks", blocks, minimum=1)
    # the modules that make a parametrized weight (spectral or weight norm) are parts of its layer
    calls = [c for c in calls_of_few(model, example) if _PARAMETRIZED not in c.name.split(".")]
    if blocks is not None:
        return _with_around(calls, _given(calls, names), "given")
    if isinstance(model, DeclaresBlocks):
        wanted = set(model.block_names())
        return _with_around(calls, [(c, c) for c in calls if c.name in wanted], "declared")
    if body := _body(calls):
        return _with_around(calls, [(c, c) for c in body], "body")
    if chain := _chain(calls):
        return _numbered(chain, "body")
    leaves = _leaves(calls)
    if not leaves:
        raise UsageError(
            f"No blocks were found in {type(model).__name__}: no module with weights maps a tensor "
            "to a tensor; name them with blocks=[...]."
        )
    note = (
        "Every layer with weights counts as a block, with the norms and activations after it in the "
        "same nn.Sequential: no module of several layers is repeated. "
        "Where your blocks are larger, name them with blocks=[...]."
    )
    return _numbered(leaves, "leaves", note)


def _given(calls: list[Call], patterns: Sequence[str]) -> list[tuple[Call, Call]]:
    for pattern in patterns:
        if not any(matches_glob(c.name, pattern) for c in calls):
            raise UnknownName("module called in the forward pass", pattern, {c.name for c in calls})
    chosen = [c for c in calls if any(matches_glob(c.name, p) for p in patterns)]
    for call in chosen:
        if not call.maps_a_tensor:
            raise UsageError(
                f"{call.name!r} cannot be a block: a block takes one floating tensor and gives one."
            )
    return [(c, c) for c in chosen]


def _body(calls: list[Call]) -> list[Call]:
    """The calls of the repeated kind of module that holds most weighted layers, gaps filled."""
    kinds: dict[object, list[Call]] = {}
    for call in calls:
        if call.parent is None or _is_leaf(call):
            continue
        if type(call.module) not in _CONTAINERS:
            kinds.setdefault(type(call.module), []).append(call)
        elif listed := _list_of_equals(calls[0].module, call):
            kinds.setdefault(listed, []).append(call)
    best: list[Call] = []
    for kind, of_kind in kinds.items():
        outermost = [
            c
            for c in of_kind
            if kind is not type(c.module)
            or not any(type(a.module) is type(c.module) for a in _ancestors(c))
        ]
        usable = [c for c in outermost if c.maps_a_tensor and _num_weighted(c)]
        if len(usable) >= 2 and not _are_branches(usable) and _is_better(usable, best):
            best = usable
    return _with_gaps_filled(calls, best) if best else []


def _list_of_equals(root: nn.Module, call: Call) -> str:
    """The `nn.ModuleList` of `nn.Sequential`s built alike in which a module stands; empty for none."""
    name = call.name.rpartition(".")[0]
    if not name or not isinstance(call.module, nn.Sequential):
        return ""
    listed = root.get_submodule(name)
    if not isinstance(listed, nn.ModuleList) or len(listed) < _FEWEST_LISTED:
        return ""
    forms = {
        tuple(type(part) for part in item.modules()) if isinstance(item, nn.Sequential) else ()
        for item in listed
    }
    return name if len(forms) == 1 else ""


def _are_branches(calls: list[Call]) -> bool:
    """Whether calls beside one another read the same tensor: they are parts of the block around them."""
    read = [(id(c.parent), c.reads) for c in calls if c.reads is not None]
    return len(set(read)) < len(read)


def _is_better(candidate: list[Call], best: list[Call]) -> bool:
    ours, theirs = sum(map(_num_weighted, candidate)), sum(map(_num_weighted, best))
    if best and {id(c) for c in best} & {id(a) for c in candidate for a in _ancestors(c)}:
        # finer than the best so far: take it if little lies beside it and there are several in each,
        # one after the other: two with sums or transpositions between or after them are the parts of
        # a block
        several = (len(candidate) >= 3 * len(best) and not _are_parts(candidate, best)) or (
            len(candidate) >= 2 * len(best)
            and any(c.follows in candidate for c in candidate)
            and not all(_ends_in_a_function(c) for c in best)
        )
        return several and ours >= _FINER_FRACTION * theirs
    if best and {id(c) for c in candidate} & {id(a) for b in best for a in _ancestors(b)}:
        return not _is_better(best, candidate)
    return ours > theirs


def _are_parts(candidate: list[Call], best: list[Call]) -> bool:
    """Whether finer modules are layers of residual blocks: each block sums them up, and none of them sums.

    A stage of residual blocks may end in a function too, but so do the blocks in it; and a pooling at
    the end of a stage changes the shape, which a sum does not.
    """
    outer = {id(c) for c in best}
    inner = [c for c in candidate if any(id(a) in outer for a in _ancestors(c))]
    return all(_ends_in_a_function(c) and _keeps_the_last_shape(c) for c in best) and not any(
        _ends_in_a_function(c) for c in inner
    )


def _keeps_the_last_shape(call: Call) -> bool:
    shapes = [c.out_shape for c in call.children if _num_weighted(c)]
    return bool(shapes) and shapes[-1] == call.out_shape


def _ends_in_a_function(call: Call) -> bool:
    """Whether what a module gives is made after its last layer: a sum, and maybe an activation of it."""
    last = call.returns
    while last is not None and isinstance(last.module, _ACTIVATIONS):
        last = last.follows
    return last is None


def _with_gaps_filled(calls: list[Call], body: list[Call]) -> list[Call]:
    """Weighted modules between the first and the last block that hold no block, outermost first."""
    chosen = {id(c) for c in body}
    holding = {id(a) for c in body for a in _ancestors(c)}
    first, last = body[0].order, body[-1].order
    gaps = [
        c
        for c in calls
        if first < c.order < last
        and id(c) not in chosen | holding
        and c.parent is not None
        and id(c.parent) in holding
        and c.maps_a_tensor
        and _num_weighted(c)
    ]
    return sorted([*body, *gaps], key=lambda c: c.order)


def _chain(calls: list[Call]) -> list[tuple[Call, Call]]:
    """Layers that follow one another in nested `nn.Sequential`s, each with what comes after it.

    An activation shared by several layers ends the block of the first one alone: by the number of
    its call a block finds both its ends.
    """
    leaves = [c for c in calls if _is_leaf(c)]
    inner = [c for c in calls if not _is_leaf(c) and c.parent is not None]
    root_is_chain = bool(calls) and isinstance(calls[0].module, nn.Sequential)
    if not all(isinstance(c.module, nn.Sequential) for c in inner) or not (root_is_chain or inner):
        return []
    if not root_is_chain and any(c.parent is calls[0] and _is_layer(c) for c in leaves[:-1]):
        return []  # layers called by the model's own forward: what lies between them is unknown
    segments: list[tuple[Call, Call]] = []
    at_end = {id(c) for c in _end_activation(leaves)}
    for leaf in leaves:
        if not leaf.maps_a_tensor or id(leaf) in at_end:
            continue
        if _is_layer(leaf):
            segments.append((leaf, leaf))
        elif segments and leaf.number == segments[-1][0].number:
            segments[-1] = (segments[-1][0], leaf)
    return segments


def _leaves(calls: list[Call]) -> list[tuple[Call, Call]]:
    """Every layer, with what comes after it in the same `nn.Sequential` before the next layer."""
    at_end = {id(c) for c in _end_activation([c for c in calls if _is_leaf(c)])}
    return [
        (c, _last_before_a_layer(c, at_end))
        for c in calls
        if _is_weighted_leaf(c) and c.maps_a_tensor
    ]


def _end_activation(leaves: list[Call]) -> list[Call]:
    """The activation with which a network ends, and the reshapes after it: they belong to the loss."""
    tail: list[Call] = []
    for call in reversed(leaves):
        tail.append(call)
        if isinstance(call.module, _ACTIVATIONS):
            return tail
        if not isinstance(call.module, _RESHAPES):
            break
    return []


def _last_before_a_layer(layer: Call, at_end: set[int]) -> Call:
    last = layer
    if layer.parent is None or not isinstance(layer.parent.module, nn.Sequential):
        return last  # called by a forward of its own: what lies between is unknown
    for call in layer.parent.children:
        if call.order <= layer.order:
            continue
        if not _is_leaf(call) or _is_layer(call) or call.number != layer.number:
            break
        if id(call) in at_end:
            break
        last = call if call.maps_a_tensor else last
    return last


def _with_around(calls: list[Call], pairs: list[tuple[Call, Call]], how: BlockSource) -> Blocks:
    """The blocks, with the outermost weighted modules before the first and after the last of them.

    A plain container is looked into: its layers stand for themselves, with what follows them in it.
    """
    result = _numbered(pairs, how)
    if not pairs:
        return result
    holding = {id(a) for c, _ in pairs for a in _ancestors(c)}
    first, last = pairs[0][0].order, pairs[-1][1].order
    inside = {id(c) for c, _ in pairs}
    at_end = {id(c) for c in _end_activation([c for c in calls if _is_leaf(c)])}
    stem: list[tuple[Call, Call]] = []
    head: list[tuple[Call, Call]] = []
    for call in calls:
        if call.parent is None or id(call.parent) not in holding or id(call) in holding | inside:
            continue
        if type(call.module) in _CONTAINERS:
            holding.add(id(call))
        elif call.out_shape is not None and _num_weighted(call):
            pair = (call, _last_before_a_layer(call, at_end) if _is_leaf(call) else call)
            if call.order < first:
                stem.append(pair)
            elif call.order > last:
                head.append(pair)
    around = [_around(i - len(stem), "stem", *pair) for i, pair in enumerate(stem)]
    around += [_around(len(pairs) + i, "head", *pair) for i, pair in enumerate(head)]
    return replace(result, around=tuple(around))


def _around(index: int, part: Part, first: Call, last: Call) -> Block:
    return replace(_block(index, first, last), part=part, droppable=False)


def _numbered(pairs: list[tuple[Call, Call]], how: BlockSource, note: str = "") -> Blocks:
    return Blocks(tuple(_block(i, first, last) for i, (first, last) in enumerate(pairs)), how, note)


def _block(index: int, first: Call, last: Call) -> Block:
    module = first.module
    in_shape, out_shape = first.in_shape or (), last.out_shape or ()
    changes = in_shape[1:] != out_shape[1:]
    # asked first: of a protocol each question takes a hundred times as long
    if hasattr(module, "changes_dimension") and isinstance(module, ChangesDimension):
        changes = bool(module.changes_dimension)
    return Block(
        index=index,
        name=first.name,
        end=last.name,
        kind=(own_class(module) if FSDP in sys.modules else type(module)).__name__,
        call=first.number,
        in_shape=in_shape,
        out_shape=out_shape,
        num_parameters=sum(p.numel() for p in module.parameters())
        + (sum(p.numel() for p in last.module.parameters()) if last is not first else 0),
        changes_dimension=changes,
        droppable=in_shape == out_shape or isinstance(module, Droppable),
    )


def _ancestors(call: Call) -> Iterator[Call]:
    while call.parent is not None:
        call = call.parent
        yield call


def _is_leaf(call: Call) -> bool:
    children = call.module._modules
    return not children or all(n == _PARAMETRIZED for n, m in children.items() if m is not None)


def _is_layer(call: Call) -> bool:
    """A layer has a weight matrix or kernel; norms and activations belong to the layer before."""
    return _has_weight(call.module)


def _has_weight(module: nn.Module) -> bool:
    """Whether it has a matrix or kernel of its own, be it parametrized."""
    if any(p.ndim >= 2 for p in module._parameters.values() if p is not None):
        return True
    made = module._modules.get(_PARAMETRIZED)
    return isinstance(made, nn.ModuleDict) and "weight" in made


def _is_weighted_leaf(call: Call) -> bool:
    return _is_leaf(call) and _is_layer(call)


def _num_weighted(call: Call) -> int:
    return sum(_has_weight(module) for module in call.module.modules())
