"""The papers' explanations across the catalog: which of them separates networks that train?"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from bathyscope import nets
from bathyscope.papers.beyond.studies.causes import accuracy, causes
from bathyscope.papers.beyond.studies.common_cause import QUANTITIES, out_of_order
from bathyscope.studies.computation import Computation
from bathyscope.studies.drawing import label_axes, panels
from bathyscope.studies.examples import images
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store
from bathyscope.training import Examples

MEASURED = tuple(name for name in QUANTITIES if name not in ("sharpness", "spread", "negative"))
"""Quantities that one forward and one backward pass give; of each, less should train better."""
CHOOSING = 100
"""The seed that chooses learning rates; it is not among those that are scored."""
_ENOUGH = 10


class CatalogPreset(Preset):
    """Settings of the comparison.

    Attributes:
        networks: names of the catalog; each is also taken without its batch normalizations.
        rates: learning rates of SGD with momentum 0.9 to choose from, with a seed of its own.
        steps: of every training.
        wanted: training accuracy from which on a network counts as trained.
    """

    networks: tuple[str, ...]
    rates: tuple[float, ...]
    steps: int
    batch_size: int = 64
    probe_size: int = 256
    wanted: float = 0.8


class CatalogTrial(Computation):
    """One network: its learning rate is chosen, then it is measured and trained with other seeds."""

    network: str
    normalization: bool
    data: str
    rates: tuple[float, ...]
    steps: int
    batch_size: int
    probe_size: int
    seeds: int

    def prefix(self) -> str:
        """`catalog-resnet-20-digits`."""
        bare = "" if self.normalization else "-bare"
        return f"catalog-{self.network}{bare}-{self.data}"

    def seeds_used(self) -> tuple[int, ...]:
        """Of weights and batches."""
        return (*range(self.seeds), CHOOSING)

    def rows(self) -> Iterator[dict[str, object]]:
        """One row a seed: the chosen rate, the accuracy at the end, the quantities at the start."""
        source = images(self.data, None, None)
        train = (source.in_memory()[0], source.train_labels)
        probe = (train[0][: self.probe_size], train[1][: self.probe_size])
        tried = {rate: self._end(train, rate, CHOOSING) for rate in self.rates}
        best = max(tried, key=lambda rate: tried[rate])
        for seed in range(self.seeds):
            start = causes(self._build(seed), probe)
            end = self._end(train, best, seed)
            yield {"seed": seed, "rate": best, "accuracy": end, **start}

    def _build(self, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        source = images(self.data, None, None)
        model = nets.build_for(
            self.network, source.shape, num_classes=source.num_classes, **_width(self.network)
        )
        if not self.normalization:
            nets.without_normalization_(model)
        return model

    def _end(self, train: Examples, rate: float, seed: int) -> float:
        """Training accuracy after the last step; 0 where the loss has become NaN or infinite."""
        model = self._build(seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(self.steps):
            chosen = torch.randint(len(train[1]), (self.batch_size,), generator=generator)
            loss: Tensor = F.cross_entropy(model(train[0][chosen]), train[1][chosen])
            if not torch.isfinite(loss):
                return 0.0
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return accuracy(model, train)


def _width(network: str) -> dict[str, Any]:
    """Narrow networks: eight channels in the first stage, 16 for tokens, a growth of 6."""
    family = network.partition("-")[0]
    return {"growth": 6} if family == "densenet" else {"width": 16 if family == "vit" else 8}


def tasks(preset: CatalogPreset) -> list[CatalogTrial]:
    """One a network, with its normalizations and without; transformers have none to take out."""
    return [
        preset.task(CatalogTrial, network=network, normalization=normalization)
        for network in preset.networks
        for normalization in (True, False)
        if normalization or not network.startswith("vit")
    ]


def table(store: Store, preset: CatalogPreset) -> pd.DataFrame:
    """A row for every network and seed, and whether it trains."""
    rows = store.frame(tasks(preset), keys=("network", "normalization"))
    numbers = rows[list(MEASURED)].astype(float)
    return rows.assign(**numbers, trains=rows["accuracy"].astype(float) >= preset.wanted)


def in_order(values: pd.Series, trains: pd.Series) -> tuple[float, float]:
    """Of pairs of one that trains and one that does not: the fraction where the former has less; its error.

    Ties count one half. The standard error is that of Hanley and McNeil for the area under a ROC curve.

    Examples:
        >>> in_order(pd.Series([1.0, 2.0, 3.0]), pd.Series([True, True, False]))
        (1.0, 0.0)
    """
    numbers = values.replace(-np.inf, np.nan).fillna(np.inf)
    good, bad = numbers[trains].to_numpy(), numbers[~trains].to_numpy()
    if not len(good) or not len(bad):
        return math.nan, math.nan
    less, ties = good[:, None] < bad[None, :], good[:, None] == bad[None, :]
    area = float((less + 0.5 * ties).mean())
    one, two = area / (2 - area), 2 * area**2 / (1 + area)
    spread = (
        area * (1 - area) + (len(good) - 1) * (one - area**2) + (len(bad) - 1) * (two - area**2)
    )
    return area, math.sqrt(max(0.0, spread) / (len(good) * len(bad)))


def checks(table: pd.DataFrame, preset: CatalogPreset) -> tuple[Check, ...]:
    """Which quantity before the first step puts networks that train before those that do not."""
    enough = len(table) >= _ENOUGH and 0 < table["trains"].sum() < len(table)
    result = []
    for name in MEASURED:
        theme, text = QUANTITIES[name]
        area, error = in_order(table[name], table["trains"])
        wrong = out_of_order(table[name], table["trains"])
        result.append(
            Check(
                f"{theme}: {text}, at the start, is less in networks that train, beyond two standard errors; "
                "pairs in that order above one half, and runs on the wrong side of the best threshold",
                bool(area - 0.5 > 2 * error) if enough else None,
                f"{area - 0.5:.2f} ± {error:.2f}, {wrong} of {len(table)}",
            )
        )
    trained = int(table["trains"].sum())
    ends = {min(preset.rates), max(preset.rates)}
    at_ends = int(table["rate"].isin(ends).sum())
    return (
        *result,
        Check(f"runs above {preset.wanted:.0%}", None, f"{trained} of {len(table)}"),
        Check(
            "runs whose best learning rate is an end of the grid",
            None,
            f"{at_ends} of {len(table)}",
        ),
        *_by_normalization(table),
    )


def _by_normalization(table: pd.DataFrame) -> Iterator[Check]:
    """The same fractions among networks with batch normalization and among those without."""
    for with_norms, part in table.groupby("normalization", sort=False):
        word = "with their normalizations" if with_norms else "without batch normalization"
        value = f"{int(part['trains'].sum())} of {len(part)} train"
        if part["trains"].nunique() > 1:  # else there is no pair
            value += "".join(f"; {n} {in_order(part[n], part['trains'])[0]:.2f}" for n in MEASURED)
        yield Check(f"{word}: pairs in order by each quantity", None, value)


def draw(table: pd.DataFrame, preset: CatalogPreset) -> Figure:
    """Accuracy over each quantity, a point a run."""
    figure, axes = panels(2, 2)
    for ax, name in zip(axes, MEASURED, strict=True):
        label_axes(ax, title=QUANTITIES[name][0], x=QUANTITIES[name][1], y="training accuracy")
        finite = table[name].replace([np.inf, -np.inf], np.nan)
        beyond = finite.max() + 0.1 * (
            finite.max() - finite.min()
        )  # what is infinite stands at the right
        for with_norms, marker in ((True, "o"), (False, "x")):
            part = table["normalization"] == with_norms
            label = "with normalization" if with_norms else "without batch normalization"
            ax.scatter(
                finite[part].fillna(beyond),
                table["accuracy"][part],
                s=14,
                marker=marker,
                label=label,
            )
        ax.axhline(preset.wanted, linewidth=0.8, color="gray")
        ax.xaxis.label.set_fontsize(8)
    axes[0].legend(fontsize=8, loc="center left")
    return figure


_DEPTHS = {
    "plain": (20, 56),
    "resnet": (20, 56),
    "preplain": (20, 56),
    "preresnet": (20, 56),
    "prebasic": (20, 56),
    "resnext": (20, 56),
    "highway": (20, 56),
    "diracnet": (20, 56),
    "procresnet": (22, 58),
    "resnest": (20, 56),
    "densenet": (22, 58),
    "vit": (4, 12),
}
_ALL = (*(f"{kind}-{depth}" for kind, depths in _DEPTHS.items() for depth in depths),)
STUDY = Study(
    name="beyond.catalog",
    title="Which explanation separates networks that train, across the architectures of the catalog",
    shows=(
        "Each paper explains by one quantity why a network trains. Measured before the first step on "
        "networks of twelve families, with batch normalization and without, each at the best of three "
        "learning rates, an explanation should put those that train before those that do not."
    ),
    presets={
        "quick": CatalogPreset(networks=("plain-20", "resnet-20"), rates=(0.01, 0.1), steps=30),
        "full": CatalogPreset(networks=_ALL, rates=(0.003, 0.03, 0.3), steps=100),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    draw=draw,
    notes=(
        "Narrow networks, 100 steps on 8 × 8 digits: one that does not train here may train when it is given "
        "longer. Widths differ between families, and with them how much of the labels the last features can "
        "explain by their number alone.",
        "The accuracy from which on a network counts as trained, the rates and the steps were set before the "
        "first run of the study.",
        "Of the sixteen runs of the longer preset that do not train, eleven have their best rate at an end "
        "of the grid. These and one more were tried once at rates beyond it: resnest-56 without "
        "normalization came to 82 % at 0.0003, preresnet-56 without to 78 %, the others stayed below 55 %.",
    ),
)
