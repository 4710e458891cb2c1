"""From a name to a network."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from bathyscope import inits
from bathyscope.core.arguments import check_count, check_name, check_seed
from bathyscope.core.devices import check_device
from bathyscope.core.errors import UnknownName, UsageError, shorten
from bathyscope.core.global_state import preserve_random_state
from bathyscope.nets.catalog import CATALOG
from bathyscope.nets.depth import Arithmetic
from bathyscope.nets.embedding import PatchEmbedding, TokenEmbedding
from bathyscope.nets.family import AnyNetwork, Family

_NAME = re.compile(r"(?P<family>[a-z][a-z-]*[a-z])(?P<numbers>(?:-\d+)+)(?P<erased>-erased)?")
_JOINED = re.compile(r"(?P<family>[a-z][a-z-]*[a-z])(?P<depth>\d+)")  # as torchvision's resnet18
_ERASED = "-erased"


def build(
    name: str,
    *,
    init: str | None = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    device: str | torch.device | None = None,
    **options: object,
) -> AnyNetwork:
    """Build the network of that name, with its weights drawn.

    Args:
        name: family and depth, such as `resnet-56`; `-erased` at the end leaves out the last ReLU
            of each block. `names()` gives examples, `families()` what the numbers mean.
        init: initialization scheme, one of `bathyscope.inits.SCHEMES`; the family's own if left
            out (He for convolutional networks, Xavier for the others).
        seed: the same seed gives the same network.
        generator: source of the random numbers, in place of a seed; torch's global one without both.
        device: where it goes, as `"cuda"`; torch's default device if left out. A seed gives the same
            weights on each.
        options: those of the family, as `num_classes`, `in_channels`, `width`.

    Returns:
        The network, in training mode.

    Raises:
        UnknownName: there is no such family.
        UsageError: the family has no such depth, or no such option.

    Examples:
        >>> net = build("resnet-20", num_classes=10, seed=0)
        >>> net(torch.zeros(2, 3, 8, 8)).shape
        torch.Size([2, 10])
    """
    if seed is not None:
        if generator is not None:
            raise UsageError("Both a seed and a generator were given; give one of them.")
        generator = torch.Generator().manual_seed(check_seed(seed))
    family = family_of(name)
    if init is not None:
        check_name("init", init)
    # The layers' own start is overwritten at once, so it must not advance the caller's generator.
    with preserve_random_state():
        network = _make_network(name, options)
    for module in network.modules():
        if isinstance(module, (TokenEmbedding, PatchEmbedding)):
            module.draw_(generator)
    inits.apply_(init or family.init, network, generator=generator)
    return network if device is None else network.to(check_device(device))


def skeleton(name: str, **options: object) -> AnyNetwork:
    """The network of that name without weights, on the `meta` device: to count and to look at.

    Args:
        name: as for `build`.
        options: those of the family.

    Examples:
        >>> sum(p.numel() for p in skeleton("imagenet-resnet-101").parameters())
        44549160
    """
    with torch.device("meta"):
        return _make_network(name, options)


def build_for(
    name: str, sample_shape: Sequence[int], *, num_classes: int, **options: Any
) -> AnyNetwork:
    """Build a network that takes samples of that shape, images, vectors or sequences of tokens.

    A convolutional network gets the number of channels; a network on vectors the number of
    entries (an image is flattened) and a linear head; one on tokens the length of the sequences,
    and as many tokens as there are classes.

    Args:
        name: as for `build`.
        sample_shape: (channels, height, width), (features,) or (tokens,).
        num_classes: outputs of the network.
        options: as for `build`; they go before what the shape says.

    Raises:
        UsageError: the network takes samples of another kind.

    Examples:
        >>> build_for("linear-residual-8", (1, 8, 8), num_classes=10)(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """
    return build(name, **options_for(name, sample_shape, num_classes=num_classes) | options)


def options_for(name: str, sample_shape: Sequence[int], *, num_classes: int) -> dict[str, int]:
    """The options with which a network takes samples of that shape.

    Raises:
        UsageError: the network takes samples of another kind.

    Examples:
        >>> options_for("resnet-20", (1, 8, 8), num_classes=10)
        {'in_channels': 1, 'num_classes': 10}
    """
    accepted = family_of(name).options()
    if isinstance(sample_shape, str) or not isinstance(sample_shape, Sequence):
        raise UsageError(
            f"A sample's shape is a tuple of sizes, but {shorten(sample_shape)} was given."
        )
    sample_shape = [check_count("A sample's size", size, minimum=1) for size in sample_shape]
    if "vocabulary" in accepted:
        if len(sample_shape) != 1:
            raise UsageError(
                f"{name} takes sequences of tokens, but the samples have the shape "
                f"{tuple(sample_shape)}; use data such as text, or a network on images."
            )
        return {"context": sample_shape[0], "vocabulary": num_classes}
    if "in_channels" not in accepted:
        num_features = torch.Size(sample_shape).numel()
        return {"in_features": num_features, "num_classes": num_classes}
    if len(sample_shape) != 3:
        raise UsageError(
            f"{name} takes images (channels, height, width), but the samples have the shape "
            f"{tuple(sample_shape)}; use a network on vectors, such as nshortcut-5-2."
        )
    fitting = {"in_channels": sample_shape[0], "num_classes": num_classes}
    if "image_size" in accepted:
        fitting["image_size"] = sample_shape[1]
    return fitting


def names() -> list[str]:
    """Names that can be built as they stand, at least one from each family.

    Every other depth that the family's formula allows can be built as well: see `families()`.

    Examples:
        >>> names()[:3]
        ['plain-20', 'plain-20-erased', 'resnet-20']
    """
    result = []
    for family in CATALOG.values():
        result.append(family.example)
        if family.erasable:
            result.append(family.example + _ERASED)
    return result


def families() -> dict[str, Family]:
    """The catalog: each family by its name, in the order in which they are listed.

    Examples:
        >>> families()["wrn"].pattern
        'wrn-D-K'
    """
    return dict(CATALOG)


def family_of(name: str) -> Family:
    """The family a name belongs to.

    Raises:
        UnknownName: there is no such family.
        UsageError: the family has no such depth.
    """
    return _parse(name).family


@dataclass(frozen=True, slots=True)
class _Parsed:
    family: Family
    arguments: tuple[int, ...]
    erased: bool


def _make_network(name: str, options: dict[str, object]) -> AnyNetwork:
    """The network with whatever weights its layers are made with."""
    parsed = _parse(name)
    parsed.family.check(name, options)
    try:
        return parsed.family.build(parsed.arguments, options, erased=parsed.erased)
    except (RuntimeError, TypeError) as error:
        # torch's words for a size beyond the memory, and for one beyond 64 bits
        if not any(word in str(error) for word in ("allocate", "Overflow", "overflow")):
            raise
        raise UsageError(
            f"{name} with these options does not fit into the memory; make it smaller."
        ) from error


def _parse(name: str) -> _Parsed:
    match = _NAME.fullmatch(check_name("The name of the network", name))
    family = CATALOG.get(match["family"]) if match else None
    if match is None or family is None:
        raise _unknown(name)
    numbers = tuple(int(number) for number in match["numbers"].split("-")[1:])
    if len(numbers) != family.num_numbers:
        raise UsageError(
            f"{name} does not fit the pattern {family.pattern}; an example is {family.example}."
        )
    if match["erased"] and not family.erasable:
        raise UsageError(f"There is no EraseReLU form of {family.pattern}; leave out {_ERASED!r}.")
    if min(numbers) < 1:
        raise UsageError(f"The numbers in {name} must be at least 1.")
    return _Parsed(family, _arguments(name, family, numbers), bool(match["erased"]))


def _arguments(name: str, family: Family, numbers: tuple[int, ...]) -> tuple[int, ...]:
    depth, *others = numbers
    depths, formula = family.depths, family.depths.formula
    if family.long_shortcuts:
        assert isinstance(depths, Arithmetic)
        depths = replace(depths, per=depths.per * others[0])
        formula = depths.formula.replace("n", "k")  # n is the length of the shortcuts here
    argument = depths.argument(depth)
    if argument is None:
        near = " and ".join(name.replace(f"-{depth}", f"-{d}", 1) for d in depths.nearest(depth))
        raise UsageError(
            f"There is no {name}: the depth of {family.pattern} is {formula}; the nearest: {near}."
        )
    return (argument, *others)


def _unknown(name: str) -> UnknownName:
    """An error that suggests names of the depth that was asked for, where such exist."""
    known = names()
    if digits := re.search(r"\d+", name):
        asked = int(digits[0])
        for key, family in CATALOG.items():
            exists = family.depths.argument(asked) is not None
            depth = asked if exists else family.depths.nearest(asked)[0]
            if family.num_numbers == 1:
                known.append(f"{key}-{depth}")
    hint = "`bathyscope nets` lists the families; a name carries its depth, as in resnet-56."
    if (joined := _JOINED.fullmatch(name)) and (meant := CATALOG.get(joined["family"])) is not None:
        hint = f"The name is {meant.pattern}, of depth {meant.depths.formula}; `bathyscope nets` lists all."
    return UnknownName("network", name, known, hint=hint)
