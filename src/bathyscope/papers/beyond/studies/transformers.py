"""What of "why skips" carries over to transformers: with and without skips, norms before or after."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import pandas as pd
from matplotlib.figure import Figure
from torch import Tensor, nn

from bathyscope import data, nets
from bathyscope.core.calls import num_parameters
from bathyscope.papers.beyond.studies.token_causes import KIND, BlockWatcher
from bathyscope.studies.drawing import label_axes, legend_below, mean_lines, panels
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store
from bathyscope.studies.trial import TrainingTask
from bathyscope.training import Callback, Data

Form = Literal["pre", "post", "pre without skips", "bare without skips"]
FORMS: dict[Form, dict[str, object]] = {
    "pre": {"norm": "pre"},
    "post": {"norm": "post"},
    "pre without skips": {"norm": "pre", "skip": False},
    "bare without skips": {"norm": "none", "skip": False},
}
_SKIPS, _NO_SKIPS = ("pre", "post"), ("pre without skips", "bare without skips")
_KEYS = ("form", "depth", "seed")


class TransformerPreset(Preset):
    """Settings of the comparison.

    Attributes:
        depths: blocks of attention and feed-forward.
        width: of the tokens.
        context: tokens of a sequence.
        steps: of Adam.
        lr: its rate, the same for every form.
        curvature: blocks at which the ends of the Hessian's spectrum are measured.
        trains: accuracy from which on a run counts as trained.
    """

    data: str = "sorting"
    depths: tuple[int, ...]
    width: int
    context: int
    steps: int
    lr: float = 1e-3
    batch_size: int = 32
    curvature: int = 3
    trains: float = 0.9

    def data_names(self) -> set[str]:
        """None: sequences need no download."""
        return set()


class TransformerTrial(TrainingTask):
    """A run of one transformer.

    Attributes:
        form: where skips and norms are.
        depth: blocks.
        context: tokens of a sequence.
        curvature: blocks at which the Hessian is measured.
    """

    form: Form
    depth: int
    context: int
    curvature: int

    def prefix(self) -> str:
        """`gpt-12-post-sorting-lr0.001-seed0`."""
        form = self.form.replace(" ", "-")
        return f"{self.model}-{form}-{self.data}-lr{self.lr:g}-seed{self.seed}"

    def data_sets(self) -> tuple[str, ...]:
        """None that would have to be fetched."""
        return ()

    def examples(self) -> tuple[Data, Data | None]:
        """Training and test sequences."""
        result = data.sequences(self.data, context=self.context)
        return (result.train_inputs, result.train_targets), (
            result.test_inputs,
            result.test_targets,
        )

    def build(self) -> nn.Module:
        """The network at its start, drawn from torch's generator."""
        return nets.build(self.model, **self._options())

    def num_parameters(self) -> int:
        """Parameters of the network."""
        return num_parameters(nets.skeleton(self.model, **self._options()))

    def _options(self) -> dict[str, Any]:
        vocabulary = next(e.vocabulary for e in data.sequence_entries() if e.name == self.data)
        sizes: dict[str, object] = {"vocabulary": vocabulary, "context": self.context}
        return sizes | FORMS[self.form] | self.model_options

    def callbacks(self, data: Data) -> list[Callback]:
        """Measure the papers' quantities at the start and at the end."""
        inputs, targets = (part[: self.probe_size] for part in data)
        assert isinstance(inputs, Tensor)
        assert isinstance(targets, Tensor)
        return [BlockWatcher((inputs, targets), curvature=self.curvature)]


def tasks(preset: TransformerPreset) -> list[TransformerTrial]:
    """A run for every form, depth and seed."""
    per_epoch = math.ceil(2000 / preset.batch_size)
    return [
        preset.task(
            TransformerTrial,
            model=f"gpt-{depth}",
            model_options={"width": preset.width},
            form=form,
            depth=depth,
            loss="token_cross_entropy",
            optimizer="adam",
            weight_decay=0.0,
            schedule="constant",
            epochs=math.ceil(preset.steps / per_epoch),
            max_steps=preset.steps,
            evaluate_every=1000,
            log_every=10,
            probe_size=64,
            seed=seed,
        )
        for depth in preset.depths
        for form in FORMS
        for seed in range(preset.seeds)
    ]


def table(store: Store, preset: TransformerPreset) -> pd.DataFrame:
    """A row for every block of every run, before the first step and after the last."""
    rows = store.frame(tasks(preset), kind=KIND, keys=_KEYS)
    ends = rows[rows["moment"] == "end"].groupby(list(_KEYS))["accuracy"].first()
    rows = rows.drop(columns="accuracy").merge(ends.reset_index(), on=list(_KEYS), how="left")
    return rows.assign(accuracy=rows["accuracy"].astype(float).fillna(0.0))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """A row for every run: its accuracy; at the start the last block's tokens and two ranges."""
    rows = []
    for keys, part in table[table["moment"] == "start"].groupby(list(_KEYS), sort=False):
        part = part.sort_values("block")
        norms = part["gradient_norm"].astype(float)
        bent = part[["largest", "smallest"]].astype(float).abs().max(axis=1).dropna()
        rows.append(
            dict(zip(_KEYS, keys, strict=True))
            | {
                "accuracy": part["accuracy"].iloc[0],
                "rank": part["stable_rank"].iloc[-1],
                "condition": part["condition"].iloc[-1],
                "cosine similarity": part["cosine similarity"].iloc[-1],
                "gradient_range": norms.max() / norms.min() if norms.min() > 0 else math.inf,
                "curvature_range": bent.max() / bent.min() if bent.min() > 0 else math.inf,
            }
        )
    return pd.DataFrame(rows)


def checks(table: pd.DataFrame, preset: TransformerPreset) -> tuple[Check, ...]:
    """What the papers say of skips, asked of the deepest transformers, and who trains."""
    runs = summary(table)
    runs["trains"] = runs["accuracy"] >= preset.trains
    deepest = runs[runs["depth"] == runs["depth"].max()]
    skips = deepest[deepest["form"].isin(_SKIPS)]
    without = deepest[deepest["form"].isin(_NO_SKIPS)]
    depth = int(deepest["depth"].iloc[0])

    def span(values: pd.Series) -> str:
        return f"{values.min():.3g} to {values.max():.3g}"

    def compare(column: str) -> str:
        return f"{span(skips[column])} against {span(without[column])}"

    pre = runs[runs["form"] == "pre"]
    return (
        Check(
            f"with skips and norms before the branches: above {preset.trains:.0%} at every depth; runs",
            bool(pre["trains"].all()),
            f"{int(pre['trains'].sum())} of {len(pre)}",
        ),
        Check(
            f"without skips, {depth} blocks: not above {preset.trains:.0%}; runs that are",
            not without["trains"].any(),
            f"{int(without['trains'].sum())} of {len(without)}",
        ),
        Check(
            f"singularity: stable rank of the tokens after {depth} blocks, at the start: higher with "
            "skips than without, in every run",
            bool(skips["rank"].min() > without["rank"].max()),
            compare("rank"),
        ),
        Check(
            f"norm_preservation: largest over smallest ‖∂E/∂x‖ over {depth} blocks, at the start: less "
            "with skips than without, in every run",
            bool(skips["gradient_range"].max() < without["gradient_range"].min()),
            compare("gradient_range"),
        ),
        Check(
            f"shortcut_length: largest over smallest |λ| of the blocks' Hessians, {depth} blocks, at the "
            "start: less with skips than without, in every run",
            bool(skips["curvature_range"].max() < without["curvature_range"].min()),
            compare("curvature_range"),
        ),
        *_who_trains(runs),
    )


def _who_trains(runs: pd.DataFrame) -> Iterator[Check]:
    for form, part in runs.groupby("form", sort=False):
        by_depth = ", ".join(
            f"{depth}: {of['accuracy'].mean():.2f}" for depth, of in part.groupby("depth")
        )
        yield Check(f"{form}: accuracy by blocks", None, by_depth)


_PANELS = (
    ("stable_rank", "tokens: stable rank", ""),
    ("condition", "tokens: condition", "y"),
    ("gradient_norm", "‖∂E/∂x‖", "y"),
    ("largest", "λ max of the block's Hessian", "y"),
)


def draw(table: pd.DataFrame, preset: TransformerPreset) -> Figure:
    """The deepest networks block by block before the first step, and who trains at which depth."""
    figure, axes = panels(3, 2, width=3.9)
    start = table[(table["moment"] == "start") & (table["depth"] == table["depth"].max())]
    for ax, (column, title, log) in zip(axes, _PANELS, strict=False):
        label_axes(ax, title=title, x="block", y="", log=log)
        shown = start[start[column].notna()]
        mean_lines(ax, shown, x="block", y=column, by="form", order=list(FORMS), marker=None)
    ends = (
        ("accuracy", f"accuracy after {preset.steps} steps"),
        ("cosine similarity", "cosine of tokens"),
    )
    for ax, (column, title) in zip(axes[4:], ends, strict=True):
        label_axes(ax, title=title, x="blocks", y="", log="x")
        mean_lines(ax, summary(table), x="depth", y=column, by="form", order=list(FORMS))
        ax.set_xticks(preset.depths, labels=[str(depth) for depth in preset.depths])
    legend_below(figure, axes[4])
    return figure


_SMALL = partial(TransformerPreset, width=16, context=12, steps=150, lr=3e-3)
STUDY = Study(
    name="beyond.transformers",
    title="What of why skips carries over to transformers",
    shows=(
        "A transformer is a residual network of two branches per block. Asked of it: do its tokens lose rank "
        "without skips (singularity), do gradients keep their size with them (norm_preservation), is the "
        "Hessian as steep at every block (shortcut_length), and who trains, with the norms before the "
        "branches or after the sums?"
    ),
    presets={
        "quick": _SMALL(depths=(6, 12)),
        "full": _SMALL(
            depths=(6, 12, 24, 48, 96), width=32, steps=600, lr=1e-3, curvature=6, seeds=3
        ),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    draw=draw,
    notes=(
        "Every form has the same rate of Adam, no warm-up and no weight decay: it is the design that "
        "differs. A stable rate for each form may be another.",
        "Curvature is that of a few blocks of each network on 8 sequences, Lanczos to 1 %.",
    ),
)
