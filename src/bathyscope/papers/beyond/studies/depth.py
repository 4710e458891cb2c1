"""Do plain networks of 50 to 164 layers train without shortcuts and without normalization?"""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure
from torch import nn

from bathyscope import data
from bathyscope.papers.beyond.studies.causes import CauseWatcher
from bathyscope.papers.beyond.studies.networks import LABELS, Form, Kind, deep_network
from bathyscope.studies.drawing import text_table
from bathyscope.studies.examples import images
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store
from bathyscope.studies.trial import TrainingTask
from bathyscope.training import Callback, Data

KINDS: tuple[Kind, ...] = ("plain", "tailored", "shortcut", "normalized")
CHOOSING = 100
"""Seeds from this one on choose learning rates and are not among those shown."""


class DeepPreset(Preset):
    """Settings of the comparison.

    Attributes:
        form: linear layers or convolutions.
        depth: weighted layers.
        width: units or channels.
        steps: of SGD with momentum 0.9.
        rates: a learning rate for each of `KINDS`, the best of `grid` by two seeds of their own.
        grid: the rates to choose from, run beside the others; empty to take the choice as it is.
        curvature: measure the Hessian too.
        wanted: training accuracy that the tailored network is to pass.
    """

    form: Form = "dense"
    depth: int
    width: int
    steps: int
    rates: tuple[float, float, float, float]
    grid: tuple[float, ...] = ()
    curvature: bool = False
    batch_size: int = 64
    num_train: int | None = None
    num_test: int | None = None
    wanted: float = 0.9
    seeds: int = 5


class DeepTrial(TrainingTask):
    """A run of one network.

    Attributes:
        kind: what keeps it trainable.
        form: linear layers or convolutions.
        depth: weighted layers.
        width: units or channels.
        curvature: measure the Hessian too.
    """

    kind: Kind
    form: Form
    depth: int
    width: int
    curvature: bool

    def prefix(self) -> str:
        """`dense-100-tailored-digits-lr0.003-seed0`."""
        return f"{self.form}-{self.depth}-{self.kind}-{self.data}-lr{self.lr:g}-seed{self.seed}"

    def build(self) -> nn.Module:
        """The network at its start, drawn from torch's generator."""
        result = images(self.data, self.num_train, self.num_test)
        return deep_network(
            self.kind,
            self.form,
            depth=self.depth,
            width=self.width,
            shape=tuple(result.shape),
            num_classes=result.num_classes,
        )

    def callbacks(self, data: Data) -> list[Callback]:
        """Measure the papers' quantities at the start and at the end."""
        result = images(self.data, self.num_train, self.num_test)
        train = (result.in_memory()[0], result.train_labels)
        return [CauseWatcher(train, probe_size=self.probe_size, curvature=self.curvature)]


def tasks(preset: DeepPreset) -> list[DeepTrial]:
    """A run for every kind and seed at its rate, and those that choose the rate."""
    shown = [
        (kind, rate, seed)
        for kind, rate in zip(KINDS, preset.rates, strict=True)
        for seed in range(preset.seeds)
    ]
    choosing = [
        (kind, rate, seed)
        for kind in KINDS
        for rate in preset.grid
        for seed in (CHOOSING, CHOOSING + 1)
    ]
    size = preset.num_train or data.entry(preset.data).num_train
    return [
        preset.task(
            DeepTrial,
            model=preset.form,
            kind=kind,
            curvature=preset.curvature and seed < CHOOSING,
            epochs=-(-preset.steps // -(-size // preset.batch_size)),
            max_steps=preset.steps,
            lr=rate,
            weight_decay=0.0,
            schedule="constant",
            evaluate_every=1000,
            log_every=10,
            seed=seed,
        )
        for kind, rate, seed in [*shown, *choosing]
    ]


def table(store: Store, preset: DeepPreset) -> pd.DataFrame:
    """A row for every run: accuracy of the trained network on all of its training images."""
    keys = ("kind", "form", "depth", "data", "lr", "seed")
    ends = store.endings(tasks(preset), keys=keys)
    causes = store.frame(tasks(preset), kind="cause", keys=("kind", "lr", "seed"))
    last = causes[causes["moment"] == "end"][["kind", "lr", "seed", "accuracy"]]
    result = ends[[*keys, "status"]].merge(last, on=["kind", "lr", "seed"], how="left")
    return result.assign(accuracy=result["accuracy"].astype(float).fillna(0.0))


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """The runs that are shown, without those that chose the rates."""
    return table[table["seed"] < CHOOSING]


def tried(table: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy of the runs that chose the rates: a row for each kind, a column for each rate."""
    runs = table[table["seed"] >= CHOOSING]
    return runs.pivot_table(index="kind", columns="lr", values="accuracy").reindex(KINDS)


def checks(table: pd.DataFrame, preset: DeepPreset) -> tuple[Check, ...]:
    """The tailored network trains with every seed, the plain one with none."""
    by_seed = {str(kind): list(part["accuracy"]) for kind, part in shown(table).groupby("kind")}

    def count(kind: str, *, above: float) -> int:
        return sum(value > above for value in by_seed[kind])

    def spread(kind: str) -> str:
        return f"{min(by_seed[kind]):.3f} to {max(by_seed[kind]):.3f}"

    tailored, plain = count("tailored", above=preset.wanted), count("plain", above=preset.wanted)
    others = ", ".join(
        f"{LABELS[k]} {count(k, above=preset.wanted)} of {preset.seeds} ({spread(k)})"
        for k in ("shortcut", "normalized")
    )
    result = [
        Check(
            f"tailored: above {preset.wanted:.0%} of the training images; seeds",
            tailored == preset.seeds,
            f"{tailored} of {preset.seeds} ({spread('tailored')})",
        ),
        Check(
            f"He and ReLU: not above {preset.wanted:.0%}; seeds that are",
            plain == 0,
            f"{plain} of {preset.seeds} ({spread('plain')})",
        ),
        Check(f"the others: seeds above {preset.wanted:.0%}", None, others),
    ]
    if preset.grid:
        best = tried(table).idxmax(axis=1)
        right = sum(
            float(best[kind]) == rate for kind, rate in zip(KINDS, preset.rates, strict=True)
        )
        text = (
            "every network is shown at the rate that is best for it on two further seeds; networks"
        )
        result.append(Check(text, right == len(KINDS), f"{right} of {len(KINDS)}"))
    return tuple(result)


def draw(table: pd.DataFrame, preset: DeepPreset) -> Figure:
    """Mean and range over the seeds; beside them the accuracies that chose the rate."""
    rows = []
    for kind in KINDS:
        part = shown(table)
        part = part[part["kind"] == kind]
        row: dict[str, object] = {
            "network": LABELS[kind],
            "learning rate": f"{part['lr'].iloc[0]:g}",
            "training accuracy": f"{part['accuracy'].mean():.3f}",
            "smallest": f"{part['accuracy'].min():.3f}",
            "largest": f"{part['accuracy'].max():.3f}",
            "seeds": len(part),
        }
        if preset.grid:
            row |= {f"at {rate:g}": f"{mean:.2f}" for rate, mean in tried(table).loc[kind].items()}
        rows.append(row)
    title = (
        f"{preset.depth} layers of width {preset.width} ({preset.form}) on {preset.data}, "
        f"{preset.steps} steps" + ("; on the right the choice of the rate" if preset.grid else "")
    )
    return text_table(pd.DataFrame(rows), title=title, width=8.6 + 0.8 * len(preset.grid))


_GRID = (0.0003, 0.001, 0.003, 0.01)
_DENSE = partial(
    DeepPreset, depth=100, width=64, steps=300, rates=(0.001, 0.0003, 0.01, 0.01), num_test=64
)
_CONVOLUTIONAL = partial(
    DeepPreset,
    form="convolutional",
    depth=60,
    width=16,
    steps=150,
    rates=(0.001, 0.003, 0.01, 0.001),
    wanted=0.85,
    num_test=64,
)


def _study(name: str, what: str, presets: dict[str, DeepPreset]) -> Study:
    return Study(
        name=f"beyond.{name}",
        title=f"Depth without shortcuts: {what}",
        shows=(
            "Rectifiers whose slope is tailored to the depth, with an orthogonal start, make a plain "
            "network trainable that He and ReLU leave at a few classes: no shortcut, no norm."
        ),
        presets=presets,
        tasks=tasks,
        table=table,
        checks=checks,
        draw=draw,
        notes=(
            "Shortcuts are x + W ρ(x)/√L. SGD with momentum 0.9, no weight decay, a constant rate: the best "
            "for each network by its mean accuracy over two seeds that are not among those shown (at quick "
            "the choice of full).",
        ),
    )


STUDIES = (
    _study(
        "dense_digits",
        "100 linear layers on digits",
        {"quick": _DENSE(seeds=2), "full": _DENSE(grid=_GRID, curvature=True)},
    ),
    _study(
        "dense_mnist",
        "100 linear layers on MNIST",
        {
            "quick": _DENSE(seeds=1, steps=100, wanted=0.5),
            "full": _DENSE(
                data="mnist",
                num_train=6000,
                steps=600,
                rates=(0.001, 0.001, 0.01, 0.01),
                grid=_GRID,
            ),
        },
    ),
    _study(
        "convolutional_digits",
        "60 convolutions on digits",
        {
            "quick": _CONVOLUTIONAL(seeds=1, steps=80, wanted=0.5),
            "full": _CONVOLUTIONAL(grid=_GRID),
        },
    ),
)
