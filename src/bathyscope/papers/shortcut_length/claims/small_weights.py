"""Lemmas 1 and 2 and theorem 1: a deep network with vanishing weights that fits every sample."""

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.core.records import Assumption
from bathyscope.papers.shortcut_length.claims.assumptions import APART, SAMPLES
from bathyscope.papers.shortcut_length.claims.construction import (
    carrying_network,
    minimum_distance,
    moving_unit,
    path_on_sphere,
    steps_of,
)

_EXACT = 1e-9
_CONSTANT = math.sqrt(8 * math.pi)  # √(8d)/ρ with d = πm(ρ(m − 1)/2 + 1)/R


def measure_lemma_1(seed: int, *, spread: float = 1.0) -> Measured:
    """Twenty units that each move one of six random unit vectors in five dimensions.

    `spread` multiplies the ρ that the vectors allow: above one it breaks the assumption.
    """
    generator = torch.Generator().manual_seed(seed)
    moved, others, norms, margin = 0.0, 0.0, 0.0, math.inf
    for _ in range(20):
        a = F.normalize(torch.randn(6, 5, generator=generator, dtype=torch.float64))
        target = F.normalize(
            a[0] + 0.3 * torch.randn(5, generator=generator, dtype=torch.float64), dim=0
        )
        after = torch.cat([target[None], a[1:]])
        rho = 2 * spread * min(minimum_distance(a), minimum_distance(after))
        margin = min(margin, min(minimum_distance(a), minimum_distance(after)) - rho / 2)
        unit = moving_unit(a[0], target, rho=rho)
        out = a + F.linear(torch.relu(F.linear(a, unit.first, unit.bias)), unit.second)
        wanted = math.sqrt(8 * float((target - a[0]).norm())) / rho
        moved = max(moved, float((out[0] - target).norm()))
        others = max(others, float((out[1:] - a[1:]).abs().max()))
        norms = max(norms, *(abs(float(w.norm()) / wanted - 1) for w in (unit.first, unit.second)))
    return Measured(
        numbers={"moved_to": moved, "others_moved": others, "norm_error": norms},
        assumptions=(
            Assumption(
                statement="all distances are at least ρ/2", holds=margin >= -1e-12, value=margin
            ),
        ),
    )


def lemma_1(numbers: Numbers) -> list[Relation]:
    """The vector arrives, the others stay, and the norms are √(8d)/ρ."""
    return [
        at_most("distance of the moved vector from its goal", numbers["moved_to"], _EXACT),
        at_most("movement of the others", numbers["others_moved"], _EXACT),
        at_most("relative error of the norms", numbers["norm_error"], _EXACT),
    ]


LEMMA_1 = Claim(
    name="shortcut_length.lemma_1",
    statement="One unit with bias and ReLU can move one of m unit vectors by d and leave the "
    "others where they are, with ‖W¹‖_F = ‖W²‖_F = √(8d)/ρ.",
    assumptions=("the vectors have unit length", "all distances, before and after, are ≥ ρ/2"),
    tested="The unit is built and applied to random vectors; moved vector, unmoved vectors and "
    "norms are compared.",
    measure=measure_lemma_1,
    law=lemma_1,
    takes=("spread",),
)


def samples(
    data: Iterable[object] | None, seed: int
) -> tuple[Tensor, Tensor, tuple[Assumption, ...]]:
    """Inputs, one-hot labels, and assumptions 1 and 2 as they are found."""
    if data is None:
        generator = torch.Generator().manual_seed(seed)
        x = F.normalize(torch.randn(4, 5, generator=generator, dtype=torch.float64))
        y = torch.eye(5, dtype=torch.float64)[torch.randperm(5, generator=generator)[:4]]
    else:
        x, y = (torch.as_tensor(part) for part in data)
        x = x.flatten(1).double()
        labels = y.is_floating_point()
        y = (
            y.double()
            if labels
            else F.one_hot(y.long(), max(x.shape[1], int(y.max()) + 1)).double()
        )
    length = float((x.norm(dim=1) - 1).abs().max())
    one_hot = bool(((y == 1).sum(dim=1) == 1).all() and ((y == 0) | (y == 1)).all())
    rho = minimum_distance(torch.cat([x, y])) if x.shape[1] == y.shape[1] else 0.0
    return (
        x,
        y,
        (
            Assumption(statement="inputs have unit length", holds=length < 1e-9, value=length),
            Assumption(statement="labels are one-hot", holds=one_hot),
            Assumption(
                statement="inputs and labels have one dimension, 3 at least",
                holds=3 <= x.shape[1] == y.shape[1],
                value=x.shape[1],
            ),
            Assumption(
                statement="m ≤ d_y: distinct one-hot labels are no more than the dimension",
                holds=len(y) <= y.shape[1],
                value=len(y),
            ),
            Assumption(
                statement="no two of all inputs and labels coincide (ρ > 0)",
                holds=rho > 1e-9,
                value=rho,
            ),
        ),
    )


def measure_lemma_2(
    seed: int, *, data: Iterable[object] | None = None, step: float = 0.02
) -> Measured:
    """Paths of all samples, one after the other: steps, their length, and the room they keep."""
    x, y, assumptions = samples(data, seed)
    if not all(a.holds for a in assumptions):
        return Measured(numbers={}, assumptions=assumptions)
    rho, m = minimum_distance(torch.cat([x, y])), len(x)
    bound = (rho * (m - 1) / 2 + 1) * math.pi
    count = math.ceil(bound / step)
    locations, longest, room, lengths = x.clone(), 0.0, math.inf, []
    for i in range(m):
        others = torch.cat([locations[:i], locations[i + 1 :]])
        path = path_on_sphere(locations[i], y[i], obstacles=others, radius=rho / 2)
        lengths.append(float(path.diff(dim=0).norm(dim=1).sum()))
        points = steps_of(path, count, obstacles=others, radius=rho / 2)
        longest = max(longest, float(points.diff(dim=0).norm(dim=1).max()))
        room = min(room, float(torch.cdist(points, others).min()))
        locations[i] = points[-1]
    return Measured(
        numbers={
            "arrived": float((locations - y).abs().max()),
            "longest_step": longest,
            "step": step,
            "smallest_distance": room,
            "rho": rho,
            "path_lengths": lengths,
            "length_bound": bound,
            "num_steps": m * count,
        },
        assumptions=assumptions,
    )


def lemma_2(numbers: Numbers) -> list[Relation]:
    """The steps suffice, are short, and keep the distance."""
    return [
        at_most("distance from the labels at the end", numbers["arrived"], _EXACT),
        at_most("longest step", numbers["longest_step"], numbers["step"]),
        at_most("longest path", max(numbers["path_lengths"]), numbers["length_bound"]),
        at_least(
            "smallest distance kept", numbers["smallest_distance"], numbers["rho"] / 2, slack=1e-9
        ),
    ]


LEMMA_2 = Claim(
    name="shortcut_length.lemma_2",
    statement="Inputs can be carried to labels in m⌈(ρ(m − 1)/2 + 1)π/d⌉ such moves of length "
    "below d, always keeping a distance of ρ/2.",
    assumptions=(SAMPLES, APART),
    tested="The paths, arcs that go around the other vectors, are built, and their "
    "length, steps and distances measured.",
    measure=measure_lemma_2,
    law=lemma_2,
    takes=("data", "step"),
)


def measure_theorem_1(
    seed: int, *, data: Iterable[object] | None = None, units: tuple[int, ...] = (100, 400, 1600)
) -> Measured:
    """Networks of R units that carry the samples to their labels, and the size of their weights."""
    x, y, assumptions = samples(data, seed)
    if not all(a.holds for a in assumptions):
        return Measured(numbers={}, assumptions=assumptions)
    rho, m = minimum_distance(torch.cat([x, y])), len(x)
    errors, sizes = [], []
    for num_units in units:
        network = carrying_network(x, y, num_units=num_units, rho=rho)
        with torch.no_grad():
            errors.append(float((network(x) - y).abs().max()))
        norms = [
            float(w.detach().norm()) for k, w in network.named_parameters() if k.endswith("weight")
        ]
        sizes.append(max(norms) * math.sqrt(num_units))
    return Measured(
        numbers={
            "units": units,
            "errors": errors,
            "largest_norm_times_root": sizes,
            "rho": rho,
            "length_of_shortcuts": 2,
            "bound_times_root": _CONSTANT * math.sqrt(m / rho) * (m + 1 / rho),
        },
        assumptions=assumptions,
        settings={"samples": m, "width": x.shape[1]},
    )


def theorem_1(numbers: Numbers) -> list[Relation]:
    """With n the length of the shortcuts, as everywhere else in the paper: assumption 1 wants 3."""
    length = numbers["length_of_shortcuts"]
    return [
        at_least("n, the length of the shortcuts of equation 3", length, 3),
        *theorem_1_in_units(numbers),
    ]


def theorem_1_in_units(numbers: Numbers) -> list[Relation]:
    """Exact outputs, ‖W‖√R the same at every depth, and below the bound."""
    sizes = numbers["largest_norm_times_root"]
    return [
        at_most("error of the outputs", max(numbers["errors"]), _EXACT),
        at_most("‖W‖√R, largest over smallest", max(sizes) / min(sizes), 1.05),
        at_most("‖W‖√R", max(sizes), numbers["bound_times_root"]),
    ]


THEOREM_1 = Claim(
    name="shortcut_length.theorem_1",
    formula=r"\|W^{r,l}\|_F \le O\Bigl(\sqrt{\tfrac{m}{n\rho}}\,\bigl(m + \tfrac1\rho\bigr)\Bigr)",
    statement="Networks of R units with bias and ReLU exist that carry every input to its "
    "label and whose weights are small: ‖W‖_F ≤ O(√(m/(nρ)) (m + 1/ρ)) (equations 6 and 7), which "
    "goes to zero with depth.",
    assumptions=(SAMPLES, APART, "n ≥ 3 and m ≫ 1"),
    tested="The network is built, unit by unit, for growing R; its outputs are compared with "
    "the labels, and ‖W‖·√R must stay constant, below √(8π) √(m/ρ) (m + 1/ρ).",
    links=(
        Link(to="shortcut_length.figure_10"),
        Link(
            to="shortcut_length.figure_2",
            check="the deeper",
            difference="the theorem says that such a network exists; the figure asks whether "
            "training finds it, and a few epochs do not move far from the start",
        ),
    ),
    measure=measure_theorem_1,
    law=theorem_1,
    under="n is the number of units R, as the proof has it: the shortcuts of equation 3 have length "
    "2, "
    "and a bound in their length would not fall with depth. Labels that differ are at most d_y, so "
    "that m ≤ d_y and m ≫ 1 asks for many classes",
    law_under=theorem_1_in_units,
    takes=("data", "units"),
)
