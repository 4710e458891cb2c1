"""The construction behind theorem 1: units that move one sample at a time along the sphere."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope import nets
from bathyscope.claims.reading import linear_layers
from bathyscope.nets import Network

_FINE = 4001  # points of a path before it is cut into steps


class Unit(NamedTuple):
    """W¹, b and W² of one unit x + W² ReLU(W¹ x + b)."""

    first: Float[Tensor, " d d"]
    bias: Float[Tensor, " d"]
    second: Float[Tensor, " d d"]


def minimum_distance(points: Float[Tensor, " m d"]) -> float:
    """The smallest distance of a pair (definition 3)."""
    return float(F.pdist(points).min())


def moving_unit(start: Float[Tensor, " d"], end: Float[Tensor, " d"], *, rho: float) -> Unit:
    """The unit that moves `start` to `end` and leaves unit vectors ρ/2 away from it (lemma 1).

    Only the first hidden coordinate is used: it is positive at `start` alone. The unit that does
    not move anything is zero.
    """
    length = float((end - start).norm())
    first, second = (start.new_zeros(len(start), len(start)) for _ in range(2))
    if length > 0:
        first[0] = math.sqrt(8 * length) / rho * start
        second[:, 0] = math.sqrt(8 / length) / rho * (end - start)
    level = math.sqrt(8 * length) / rho * (rho**2 / 8 - 1)
    return Unit(first, torch.full_like(start, level), second)


def path_on_sphere(
    start: Float[Tensor, " d"],
    end: Float[Tensor, " d"],
    *,
    obstacles: Float[Tensor, " k d"],
    radius: float,
) -> Float[Tensor, " p d"]:
    """The shorter arc from start to end, led around every obstacle at the given distance."""
    cosine = float((start @ end).clamp(-1, 1))
    aside = end - cosine * start
    if float(aside.norm()) < 1e-9:  # opposite or equal points: any direction will do
        aside = torch.eye(len(start), dtype=start.dtype)[int(start.abs().argmin())]
        aside = aside - (aside @ start) * start
    angles = torch.linspace(0, math.acos(cosine), _FINE, dtype=start.dtype)[:, None]
    arc = angles.cos() * start + angles.sin() * F.normalize(aside, dim=0)
    return _led_around(arc, obstacles, radius)


def steps_of(
    path: Float[Tensor, " p d"], count: int, *, obstacles: Float[Tensor, " k d"], radius: float
) -> Float[Tensor, " q d"]:
    """The path as `count` steps of equal length on the sphere; first and last point are its own."""
    traveled = F.pad(path.diff(dim=0).norm(dim=1).cumsum(0), (1, 0))
    wanted = torch.linspace(0, float(traveled[-1]), count + 1, dtype=path.dtype)
    after = torch.searchsorted(traveled, wanted).clamp(1, len(path) - 1)
    gap = (traveled[after] - traveled[after - 1]).clamp_min(1e-300)
    fraction = ((wanted - traveled[after - 1]) / gap)[:, None]
    points = F.normalize(torch.lerp(path[after - 1], path[after], fraction))
    points = _led_around(points, obstacles, radius)
    points[0], points[-1] = path[0], path[-1]
    return points


def carrying_network(
    x: Float[Tensor, " m d"], y: Float[Tensor, " m d"], *, num_units: int, rho: float
) -> Network:
    """A network of the form of equation 3 that maps every x to its y (theorem 1).

    The samples are moved one after the other, each by an equal fraction of the units; units that are
    left over move nothing.
    """
    width, each = x.shape[1], num_units // len(x)
    network = nets.build(f"nshortcut-{num_units}-2", width=width, mid="relu", bias=True).double()
    blocks = iter(network.blocks)
    locations = x.clone()
    with torch.no_grad():
        for i in range(len(x)):
            others = torch.cat([locations[:i], locations[i + 1 :]])
            path = path_on_sphere(locations[i], y[i], obstacles=others, radius=rho / 2)
            for goal in steps_of(path, each, obstacles=others, radius=rho / 2)[1:]:
                block = next(blocks)
                # From where the sample really is: a unit stretches rounding errors by up to 8/ρ².
                _fill(block, moving_unit(locations[i], goal, rho=rho))
                locations = block(locations)
        for block in blocks:
            _fill(block, moving_unit(x[0], x[0], rho=rho))
    assert isinstance(network, Network)
    return network


def _fill(block: nn.Module, unit: Unit) -> None:
    first, second = linear_layers(block)
    first.weight.copy_(unit.first)
    first.bias.copy_(unit.bias)
    second.weight.copy_(unit.second)


def _led_around(
    points: Float[Tensor, " p d"], obstacles: Float[Tensor, " k d"], radius: float
) -> Float[Tensor, " p d"]:
    """Points nearer to an obstacle than the radius are moved straight away from it to that distance."""
    angle = 2 * math.asin(min(1.0, radius / 2))
    for obstacle in obstacles:
        near = (points - obstacle).norm(dim=1) < radius
        if near.any():
            away = F.normalize(points[near] - (points[near] @ obstacle)[:, None] * obstacle)
            moved = math.cos(angle) * obstacle + math.sin(angle) * away
            points = points.clone()
            points[near] = moved
    return points
