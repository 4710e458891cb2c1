"""What a pass shows of a network's components: its norms, its tables, its layers one behind the other.

Modules are hooked only to see what goes into norms and comes out; all else is read off the functions that
the pass calls. Places are named by the weight that a function was given.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from bathyscope.core.fetch import fetch, near, to_host
from bathyscope.core.hooks import Hooks
from bathyscope.core.nested import main_tensor
from bathyscope.core.probe import aside
from bathyscope.core.walks import named_modules, named_parameters
from bathyscope.measure.dependence.input_roles import PADDING_INSIDE, padding_in_text

_NORM_NAME = re.compile(r"norm|^ln_", re.IGNORECASE)
_NOT_OVER_FEATURES = (
    nn.modules.batchnorm._NormBase,
    nn.GroupNorm,
    nn.LocalResponseNorm,
    nn.CrossMapLRN2d,
)
_POSITIONS = re.compile(r"pos(?!t)|wpe", re.IGNORECASE)
_FITS = 1e-3
"""Of the deviation of a norm's output: what a gain and an offset of its own leave unexplained."""
_FIT_ENTRIES = 1 << 11
_FIT_ROWS = 16
"""Entries of the tokens, spread evenly, to which a norm is fitted, and their fewest: the fit is exact."""
_RESHAPES = (Tensor.view, Tensor.reshape, torch.reshape)
_SAME_ROWS = (F.dropout, torch.dropout, Tensor.contiguous, Tensor.view, Tensor.reshape)


FOLLOWED = frozenset({F.linear, torch.addmm, *_RESHAPES, *_SAME_ROWS})
"""Functions that `ComponentWatch.look` wants to see."""


@dataclass(frozen=True, slots=True)
class NormUse:
    """What a norm over features does, fitted as y = gain · normalized(x) + offset for every feature.

    Attributes:
        name: of the module.
        gain: root mean square of the gains.
        offset: that of the offsets.
        epsilon_fraction: ε/(variance + ε), the median over tokens; None where the module names no ε.
    """

    name: str
    gain: float
    offset: float
    epsilon_fraction: float | None


@dataclass(frozen=True, slots=True)
class TableUse:
    """What a look-up in a table shows.

    Attributes:
        name: of the table.
        for_positions: whether it is one of positions.
        zero_rows: of the rows that were looked up, how many are zero throughout.
        equal_rows: how many of them equal one before; zero ones are not counted again.
        rows: how many different rows were asked for.
        zero_columns: fraction of the table's columns that are zero throughout.
        padding_in_text: fraction of all look-ups that ask for the row of padding, where that stands inside
            of sequences more often than at their ends.
    """

    name: str
    for_positions: bool
    zero_rows: int
    equal_rows: int
    rows: int
    zero_columns: float
    padding_in_text: float = 0.0


@dataclass(frozen=True, slots=True)
class Components:
    """What was seen.

    Attributes:
        norms: over features.
        tables: that were looked up.
        linear_pairs: a linear layer whose output another one reads as it is, though none of the two is a
            bottleneck: the two are one.
        merged_tokens: fraction of the tokens that the model takes for another one before it looks them up.
        constant_outputs: fraction of the output's units that are the same for all samples and positions.
        partly_frozen: frozen matrices of blocks most of whose matrices are trained.
        swapped_axes: shapes before and after a reshape that swaps axes as only a transposition can.
    """

    norms: tuple[NormUse, ...] = ()
    tables: tuple[TableUse, ...] = ()
    linear_pairs: tuple[str, ...] = ()
    merged_tokens: float = 0.0
    constant_outputs: float = 0.0
    partly_frozen: tuple[str, ...] = ()
    swapped_axes: tuple[str, ...] = ()


class ComponentWatch:
    """Follows the functions of a pass; `norm_rows` is filled by `watch_norms`."""

    def __init__(self, model: nn.Module) -> None:
        self.names = {id(p): name for name, p in model.named_parameters(remove_duplicate=False)}
        self.norm_rows: dict[str, NormRows] = {}
        self.linear: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.linear_pairs: dict[str, None] = {}
        self.swapped_axes: dict[str, None] = {}
        self.look_ups: list[tuple[Tensor, Tensor, int | None]] = []

    def look(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        """Follow linear layers and what leaves their output as it is."""
        if not isinstance(output, Tensor) or not args:
            return
        if func in _RESHAPES and isinstance(args[0], Tensor) and _swaps_axes(args[0], output):
            self.swapped_axes[f"{tuple(args[0].shape)} to {tuple(output.shape)}"] = None
        if func is F.linear and len(args) > 1:
            self._linear(args[0], args[1], args[1].shape[::-1], output)
        elif func is torch.addmm and len(args) > 2 and id(args[2]) in self.names:
            self._linear(args[1], args[2], args[2].shape, output)
        elif (
            func in _SAME_ROWS
            and (known := self.linear.get(args[0])) is not None
            and args[0] is not output
            and args[0].shape[-1] == output.shape[-1]
        ):
            self.linear[output] = known

    def _linear(self, x: Any, weight: Tensor, sizes: Sequence[int], output: Tensor) -> None:
        name = self.names.get(id(weight))
        if name is None or not isinstance(x, Tensor) or len(sizes) != 2:
            return
        before = self.linear.get(x)
        if before is not None:
            first, inputs = before
            # a pair with a bottleneck (LoRA, a factorized table) is not a detour
            if sizes[0] >= min(inputs, sizes[1]) and _block_of(first) == _block_of(name):
                self.linear_pairs[f"{first} and {name}"] = None
        self.linear[output] = (name, sizes[0])

    def look_up(self, table: Tensor, index: Tensor, padding_idx: int | None) -> None:
        """A table was indexed."""
        if table.ndim == 2 and id(table) in self.names:
            self.look_ups.append((table, index, padding_idx))

    def tables(self, tokens: Iterable[Tensor], *, has_padding: bool) -> tuple[TableUse, ...]:
        """Each table once: with the rows that the tokens of a whole batch ask of it, or those looked up."""
        result: dict[str, TableUse] = {}
        looked_up = [index for _, index, _ in self.look_ups]
        fetched = to_host([*looked_up, *tokens])
        batch = fetched[len(looked_up) :]
        for (table, _, padding_idx), index in zip(self.look_ups, fetched, strict=False):
            name = self.names[id(table)].removesuffix(".weight")
            for_positions = bool(_POSITIONS.search(name.rsplit(".", 1)[-1])) or any(
                _stands_still(index, t, table) for t in batch
            )
            if name in result or (for_positions and (has_padding or index.shape[-1] > len(table))):
                continue
            wanted = index[:1] if for_positions and index.ndim == 2 else index
            if not for_positions:
                whole = next((t for t in batch if torch.isin(index, t).all()), index)
                wanted = whole if int(whole.max()) < len(table) else index
            result[name] = _table_use(name, table.detach(), wanted, padding_idx, for_positions)
        return tuple(result.values())


def _swaps_axes(before: Tensor, after: Tensor) -> bool:
    """Whether (n, a, b) became (n, b, a), or (n, a, b, c) became (n, c, a, b), without a transposition.

    Examples:
        >>> x = torch.zeros(2, 3, 4)
        >>> _swaps_axes(x, x.view(2, 4, 3)), _swaps_axes(x, x.view(2, 3, 4)), _swaps_axes(x, x.view(2, 12))
        (True, False, False)
    """
    old, new = tuple(before.shape), tuple(after.shape)
    if old == new or len(old) != len(new) or len(old) not in (3, 4) or min(old[1:]) < 2:
        return False
    return new == (old[0], old[-1], *old[1:-1])


def _stands_still(index: Tensor, tokens: Tensor, table: Tensor) -> bool:
    """Whether one row of a table with room for all positions is looked up at every position."""
    length = tokens.shape[-1]
    if tokens.ndim != 2 or index.shape[-1] != length or not 4 <= length <= len(table):
        return False
    alone = index.ndim == 1 and length != len(tokens)  # else one index to each sample
    return (alone or index.ndim == 2) and bool((index == index.flatten()[0]).all())


def _block_of(name: str) -> str:
    """The numbered block of a parameter; that of a whole network without any is empty."""
    parts = name.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    return "" if number is None else ".".join(parts[: number + 1])


def _table_use(
    name: str, table: Tensor, wanted: Tensor, padding_idx: int | None, for_positions: bool
) -> TableUse:
    ids = wanted.unique()
    in_text = 0.0
    if padding_idx is not None:
        ids = ids[ids != padding_idx]
        if wanted.ndim == 2 and padding_in_text(wanted, padding_idx) > PADDING_INSIDE:
            in_text = float((wanted == padding_idx).float().mean())
    table = near(table)
    rows, columns_in_use = to_host([table[ids.to(table.device)], table.any(0)])
    zero = int((~rows.any(1)).sum())
    # two rows with one product with random numbers are the same row, but for chance
    mix = torch.randn(
        rows.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64, device="cpu"
    )
    living = rows[rows.any(1)].double()
    different = len((living @ mix).unique()) if len(living) else 0
    asked = int(wanted.numel()) if for_positions else len(ids)
    equal = (asked - zero if for_positions else len(living)) - different
    columns = float((~columns_in_use).double().mean())
    return TableUse(name, for_positions, zero, max(0, equal), asked, columns, in_text)


@contextmanager
def watch_norms(model: nn.Module, watch: ComponentWatch) -> Iterator[None]:
    """Within, every norm over features leaves some rows of its first call."""

    def hook(name: str) -> Callable[[nn.Module, tuple[object, ...], object], None]:
        def after(module: nn.Module, args: tuple[object, ...], output: object) -> None:
            x, y = main_tensor(args), main_tensor(output)
            if name in watch.norm_rows or x is None or y is None or x.shape != y.shape:
                return
            with aside():
                rows = rows_of_norm(module, x.detach(), y.detach())
            if rows is not None:
                watch.norm_rows[name] = rows

        return after

    with Hooks() as hooks:
        for name, module in named_modules(model).items():
            own = name.rpartition(".")[2]
            named = _NORM_NAME.search(type(module).__name__) or _NORM_NAME.search(own)
            if named and not isinstance(module, _NOT_OVER_FEATURES) and not any(module.children()):
                hooks.after_forward(module, hook(name))
        yield


def norm_use(name: str, module: nn.Module, x: Tensor, y: Tensor) -> NormUse | None:
    """What a norm over the last axis does, with or without centering; None where it is neither.

    Examples:
        >>> norm = nn.LayerNorm(4)
        >>> with torch.no_grad():
        ...     _ = norm.weight.fill_(3.0), norm.bias.fill_(0.5)
        >>> x = torch.randn(50, 4)
        >>> use = norm_use("n", norm, x, norm(x).detach())
        >>> round(use.gain, 3), round(use.offset, 3)
        (3.0, 0.5)
    """
    rows = rows_of_norm(module, x, y)
    return None if rows is None else next(iter(norm_uses({name: rows})), None)


@dataclass(frozen=True, slots=True, eq=False)
class NormRows:
    """Some tokens before and behind a norm (rows, features), and its ε where it names one."""

    before: Tensor
    behind: Tensor
    epsilon: float | None


def rows_of_norm(module: nn.Module, x: Tensor, y: Tensor) -> NormRows | None:
    """A few tokens, spread evenly, in float64; None where there are not enough for a fit."""
    if x.ndim < 2 or x.shape[-1] < 2 or x.numel() < 4 * x.shape[-1]:
        return None
    wanted = max(_FIT_ROWS, _FIT_ENTRIES // x.shape[-1])
    every = max(1, x.numel() // x.shape[-1] // wanted)
    before, behind = (t.flatten(0, -2)[::every].double() for t in (x, y))
    known = (getattr(module, n, None) for n in ("eps", "variance_epsilon", "epsilon"))
    return NormRows(before, behind, next((v for v in known if isinstance(v, float)), None))


def norm_uses(norms: Mapping[str, NormRows]) -> tuple[NormUse, ...]:
    """What norms do, by their names, in one transfer; those that fit neither way are left out."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for name, rows in norms.items():
        alike.setdefault((rows.before.shape, rows.before.device), []).append(name)
    groups = list(alike.values())
    fits = fetch([fit_norms([norms[name] for name in group]) for group in groups])
    numbers = {
        name: fit[10 * i : 10 * (i + 1)]
        for group, fit in zip(groups, fits, strict=True)
        for i, name in enumerate(group)
    }
    result = []
    for name, rows in norms.items():
        for left, size, gain, offset, fraction in (numbers[name][:5], numbers[name][5:]):
            if left <= _FITS * size or not size:  # neither holds of NaN
                known = None if rows.epsilon is None else fraction
                result.append(NormUse(name, gain, offset, known))
                break
    return tuple(result)


def fit_norms(norms: Sequence[NormRows]) -> Tensor:
    """Gain, offset and ε of norms of one shape, fitted with centering and without.

    y = a ⊙ z + b with z = (x − μ)/√(σ² + ε) or z = x/√(mean x² + ε): a is the regression of y on z over
    tokens, feature by feature, and b what is left of the mean.

    Returns:
        (norms, 2, 5): what the fit leaves, the size of what it explains, gain, offset, ε/(variance + ε).
    """
    x = torch.stack([one.before for one in norms]).unsqueeze(1)
    y = torch.stack([one.behind for one in norms]).unsqueeze(1)
    epsilon = x.new_tensor([one.epsilon or 0.0 for one in norms]).reshape(-1, 1, 1, 1)
    moved = torch.cat([x - x.mean(-1, keepdim=True), x], 1)
    variance = moved.square().mean(-1, keepdim=True) + epsilon
    z = moved / variance.clamp_min(1e-300).sqrt()
    z_mean, y_mean = z.mean(2, keepdim=True), y.mean(2, keepdim=True)
    about, apart = z - z_mean, y - y_mean
    total = about.square().sum(2, keepdim=True).clamp_min(1e-300)
    gain = (about * apart).sum(2, keepdim=True) / total
    left = _size(apart - gain * about)
    size = torch.maximum(_size(apart), _FITS * _size(y)).expand_as(left)
    width = math.sqrt(x.shape[-1])
    offset = _size(y_mean - gain * z_mean) / width
    fraction = (epsilon / variance).flatten(2).median(2).values
    return torch.stack([left, size, _size(gain) / width, offset, fraction], dim=-1)


def _size(values: Tensor) -> Tensor:
    """(norms, fits) of (norms, fits, rows, features)."""
    result: Tensor = torch.linalg.vector_norm(values, dim=(2, 3))
    return result


def constant_outputs(output: Tensor) -> float:
    """Fraction of the last axis that is the same for every sample and position, and hides nothing.

    Zero where no output differs by more than rounding does: which of them are the same is chance then.

    Examples:
        >>> constant_outputs(torch.tensor([[1.0, 2.0, 0.0], [1.0, 3.0, 0.5]]))
        0.3333333333333333
    """
    if output.ndim < 2 or not output.is_floating_point():
        return 0.0
    rows = output.detach().flatten(0, -2)
    if len(rows) < 2 or rows.shape[1] < 2:
        return 0.0
    low, high = rows.amin(0), rows.amax(0)
    rounding = 100 * torch.finfo(rows.dtype).eps * rows.abs().amax()
    if not bool((high - low > rounding).any()):
        return 0.0
    # a class that is ruled out has a large negative number; behind a ReLU it rests at zero for a while
    is_meant = (high <= -1e4) | ((high == 0) & (low.amin() == 0))
    return float(((low == high) & ~is_meant).double().mean())


def partly_frozen(model: nn.Module) -> tuple[str, ...]:
    """Frozen matrices of numbered blocks that are trained by more than half, as `layers.0.query.weight`.

    Blocks that are frozen as a whole are meant so, and so are frozen ones beside small adapters.

    Examples:
        >>> net = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)))
        >>> _ = net[0][1].weight.requires_grad_(False)
        >>> partly_frozen(net)
        ('0.1.weight',)
    """
    blocks: dict[str, list[tuple[str, nn.Parameter]]] = {}
    for name, parameter in named_parameters(model).items():
        if parameter.ndim >= 2 and (block := _block_of(name)):
            blocks.setdefault(block, []).append((name, parameter))
    result: list[str] = []
    for members in blocks.values():
        frozen = [name for name, p in members if not p.requires_grad]
        entries = sum(p.numel() for _, p in members)
        still = sum(p.numel() for _, p in members if not p.requires_grad)
        if frozen and 2 * still < entries:
            result += frozen
    return tuple(result)
