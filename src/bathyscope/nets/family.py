"""A family of networks: how its names look, which exist, what builds them."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from importlib import import_module
from numbers import Integral
from typing import Literal, get_args, get_origin, get_type_hints

from bathyscope.core.errors import UsageError, shorten
from bathyscope.core.json_values import JsonMapping
from bathyscope.nets.depth import Depths
from bathyscope.nets.nest import NEst
from bathyscope.nets.network import Network
from bathyscope.nets.samples import Images, Vectors
from bathyscope.nets.transformer_block import Options

AnyNetwork = Network | NEst
"""Stem, blocks and head; or a nonlinear estimator, whose output is linear in its features."""

_SHARED = {"samples", "options"}
"""The arguments of builders that take `Family.shared`."""

Theme = Literal["singularity", "shortcut_length", "nests", "norm_preservation", "beyond"]


@dataclass(frozen=True, slots=True)
class Family:
    """One entry of the catalog.

    Attributes:
        pattern: what the numbers in a name stand for, as in `wrn-D-K`.
        depths: which values the first number may have.
        source: file of this folder and function in it that builds one.
        example: a name that is small enough to try.
        summary: what it is, in a line.
        theme: the paper it is for; `beyond` for what none of the four has.
        init: the scheme that fills it unless another is asked for.
        shared: what its builder has in common with others, as sizes of images; its fields are options.
        long_shortcuts: the second number of the name multiplies the step between depths.
    """

    pattern: str
    depths: Depths
    source: str
    example: str
    summary: str
    _: KW_ONLY
    theme: Theme = "beyond"
    init: str = "he"
    shared: Images | Vectors | Options = field(default_factory=Images)
    long_shortcuts: bool = False

    @property
    def name(self) -> str:
        """The pattern without its numbers."""
        return "-".join(part for part in self.pattern.split("-") if len(part) > 1)

    @property
    def builder(self) -> Callable[..., AnyNetwork]:
        """Takes n (or the depth, where depths are listed), then the other numbers of a name, then options."""
        file, _, function = self.source.partition(".")
        builder: Callable[..., AnyNetwork] = getattr(
            import_module(f"bathyscope.nets.{file}"), function
        )
        return builder

    @property
    def num_numbers(self) -> int:
        """How many numbers a name of the family carries."""
        return sum(len(part) == 1 for part in self.pattern.split("-"))

    @property
    def formula(self) -> str:
        """The depths that exist, as a formula in n, or as a list."""
        letter = next(part for part in self.pattern.split("-") if len(part) == 1)
        if self.long_shortcuts:
            return f"{letter} = 3kn + 2"
        return (
            f"any {letter}" if self.depths.formula == "n" else f"{letter} = {self.depths.formula}"
        )

    @property
    def erasable(self) -> bool:
        """Whether the family has an EraseReLU form."""
        return "erased" in inspect.signature(self.builder).parameters

    def options(self) -> dict[str, inspect.Parameter]:
        """The options `build` accepts, with their defaults; `erased` is part of the name."""
        kind = inspect.Parameter.KEYWORD_ONLY
        result: dict[str, inspect.Parameter] = {}
        for name, parameter in inspect.signature(self.builder).parameters.items():
            if name in _SHARED:
                result |= {
                    each.name: inspect.Parameter(
                        each.name, kind, default=getattr(self.shared, each.name)
                    )
                    for each in fields(self.shared)
                }
            elif parameter.kind is kind and name != "erased":
                result[name] = parameter
        return result

    def build(self, numbers: Sequence[int], options: JsonMapping, *, erased: bool) -> AnyNetwork:
        """The network of these numbers, with whatever weights its layers are made with."""
        own = dict(options) | ({"erased": True} if erased else {})
        for name in _SHARED & set(inspect.signature(self.builder).parameters):
            given = {f.name: own.pop(f.name) for f in fields(self.shared) if f.name in own}
            own[name] = replace(self.shared, **given)
        return self.builder(*numbers, **own)

    def check(self, name: str, options: dict[str, object]) -> None:
        """Raise `UsageError` for an option that is unknown or has an impossible value."""
        accepted = self.options()
        hints = get_type_hints(type(self.shared)) | get_type_hints(self.builder)
        for option, value in options.items():
            if option not in accepted:
                raise UsageError(
                    f"{name} has no option {option!r}; it accepts {', '.join(accepted)}."
                )
            if (wanted := _mismatch(hints[option], value)) is not None:
                raise UsageError(f"{option} of {name} must be {wanted}, not {shorten(value)}.")


def _mismatch(hint: object, value: object) -> str | None:
    """What an option must be, if the value is not that; only plain types are checked here."""
    if hint is bool:
        return None if isinstance(value, bool) else "True or False"
    if hint is int:
        whole = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
        return None if whole else "a whole number of at least 1"
    if hint == int | None:
        return None if value is None else _mismatch(int, value)
    if get_origin(hint) is Literal:
        return None if value in get_args(hint) else _either(get_args(hint))
    return None


def _either(choices: Sequence[object]) -> str:
    *others, last = map(repr, choices)
    return f"{', '.join(others)} or {last}" if others else last
