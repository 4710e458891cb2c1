"""The estimators against linear, ridge, MLP, random forest and gradient boosting."""

import warnings
from collections.abc import Iterator, Sequence, Set

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bathyscope.core.json_values import JsonObject
from bathyscope.papers.nests.studies.scikit_models import NAMES, OURS, models
from bathyscope.papers.nests.studies.scikit_sets import SETS, Task, Values
from bathyscope.studies.computation import Computation
from bathyscope.studies.drawing import panels
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store

_LOST = 0.05  # of the linear model's score
_MEANINGFUL = 0.1  # R² below which a fraction of it is not a measure


class EstimatorPreset(Preset):
    """Settings of the comparison; the paper has none.

    Attributes:
        data: stands for all sets that scikit-learn carries and generates.
        num_samples: largest number of samples of a set, training and test; all for None.
        sets: names of the sets that are taken; all for none.
    """

    data: str = "scikit-learn"
    num_samples: int | None = None
    sets: tuple[str, ...] = ()


class Scores(Computation):
    """Test scores of all models on one split of one set.

    Attributes:
        set: of `SETS`.
        num_samples: that are kept.
        seed: of the draw, the split and the models.
    """

    set: str
    num_samples: int | None
    seed: int

    def prefix(self) -> str:
        """`scores-wine-seed0`."""
        return f"scores-{self.set.replace(' ', '')}-seed{self.seed}"

    def samples(self) -> tuple[Task, Values, Values]:
        """What is predicted, inputs and targets."""
        return SETS[self.set].task, *SETS[self.set].load(self.seed)

    def rows(self) -> Iterator[JsonObject]:
        """One row a model; the training risks of ours from their certificates."""
        task, X, y = self.samples()
        kept = np.random.default_rng(self.seed).permutation(len(X))[: self.num_samples]
        X, y = X[kept], y[kept]
        X_train, X_test, y_train, y_test = train_test_split(
            X,
            y,
            test_size=1 / 3,
            random_state=self.seed,
            stratify=y if task == "classification" else None,
        )
        scaler = StandardScaler().fit(X_train)
        several = np.ndim(y) > 1
        for name, model in models(task, seed=self.seed, several=several).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the MLP's 200 epochs
                model.fit(scaler.transform(X_train), y_train)
            row = {"model": name, "score": float(model.score(scaler.transform(X_test), y_test))}
            if name in OURS:
                row["no_worse_than_linear"] = model.certificate_.no_worse_than_linear
            yield row


def tasks(preset: EstimatorPreset) -> list[Scores]:
    """One comparison a set and seed."""
    return [
        Scores(set=name, num_samples=preset.num_samples, seed=seed)
        for name in preset.sets or SETS
        for seed in range(preset.seeds)
    ]


def table(store: Store, preset: EstimatorPreset) -> pd.DataFrame:
    """One row a set, seed and model, with its rank on that set and seed."""
    return rank_scores(store, tasks(preset))


def rank_scores(store: Store, runs: Sequence[Scores]) -> pd.DataFrame:
    """The scores of all runs, with the ranks of the models on each set and seed."""
    frame = store.frame(runs, keys=("set", "seed"))
    ranks = frame.groupby(["set", "seed"])["score"].rank(ascending=False)
    return frame.assign(rank=ranks)


def mean_scores(table: pd.DataFrame) -> pd.DataFrame:
    """Mean test score over seeds, sets in rows as they come and models in columns."""
    means = table.groupby(["set", "model"], sort=False)["score"].mean().unstack("model")
    return means[list(NAMES)]


def checks(table: pd.DataFrame, preset: EstimatorPreset) -> tuple[Check, ...]:
    """Never worse than linear in training; what that is worth on new data."""
    means = mean_scores(table)
    about_new = (check for name in OURS for check in _on_new_data(means, name))
    return no_worse_in_training(table), *about_new, mean_ranks(table)


def no_worse_in_training(table: pd.DataFrame) -> Check:
    """What the paper promises."""
    kept = table[table["model"].isin(OURS)]["no_worse_than_linear"].astype(bool)
    return Check(
        "training risk at or below the best linear predictor's; fits in which it is",
        bool(kept.all()),
        f"{int(kept.sum())} of {len(kept)}",
    )


def mean_ranks(table: pd.DataFrame) -> Check:
    """Of all models, the best first."""
    ranks = table.groupby("model")["rank"].mean().sort_values()
    return Check(
        f"mean rank of all {len(NAMES)} models",
        None,
        ", ".join(f"{name} {rank:.2f}" for name, rank in ranks.items()),
    )


def _on_new_data(means: pd.DataFrame, name: str) -> tuple[Check, ...]:
    ours, linear, mlp = means[name], means["linear"], means["MLP"]
    rank = float((1 + (ours < mlp) + 0.5 * (ours == mlp)).mean())
    nonlinear = [key for key in means.index if SETS[key].nonlinear]
    better = int((ours > linear)[nonlinear].sum())
    lost = (1 - ours / linear)[linear > _MEANINGFUL]
    return (
        Check(
            f"{name}: mean rank against the MLP alone over {len(means)} sets, at most 1.5 wanted",
            rank <= 1.5,
            rank,
        ),
        Check(
            f"{name}: better than linear on the sets of a nonlinear law; sets on which it is",
            better == len(nonlinear),
            f"{better} of {len(nonlinear)}",
        ),
        Check(
            f"{name}: largest fraction of the linear model's score lost, at most {_LOST:.0%} wanted "
            f"(on {lost.idxmax()})",
            bool(lost.max() <= _LOST),
            float(lost.max()),
        ),
    )


def draw(table: pd.DataFrame, preset: EstimatorPreset) -> Figure:
    """Scores as numbers, shaded by rank on their set."""
    return heat_map(mean_scores(table), {name for name in SETS if SETS[name].task == "regression"})


def heat_map(means: pd.DataFrame, regression: Set[str]) -> Figure:
    """Mean scores of all models, a row a set; those with numbers to predict are marked."""
    order = means.rank(axis=1, ascending=False)
    figure, (ax,) = panels(width=8.2, height=0.9 + 0.29 * len(means))
    ax.grid(visible=False)
    image = ax.imshow(order.to_numpy(), cmap="viridis", aspect="auto", vmin=1, vmax=len(NAMES))
    for row, name in enumerate(means.index):
        for column, model in enumerate(NAMES):
            dark = order.loc[name, model] < 0.55 * len(NAMES)
            ax.text(
                column,
                row,
                f"{means.loc[name, model]:.3f}",
                ha="center",
                va="center",
                size=8,
                color="white" if dark else "black",
            )
    labels = [f"{key}{' (R²)' if key in regression else ''}" for key in means.index]
    ax.set_yticks(range(len(means)), labels)
    ax.set_xticks(range(len(NAMES)), [name.replace(" ", "\n") for name in NAMES])
    ax.tick_params(length=0, top=False, labeltop=True, labelbottom=False)
    ax.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=ax, label="rank on the set", shrink=0.5)
    bar.ax.invert_yaxis()
    return figure


STUDY = Study(
    name="nests.estimators",
    title="The estimators against linear, ridge, MLP, random forest and gradient boosting",
    shows=(
        "The paper promises that a linear estimator can be replaced without loss on the training "
        "data. Here that is measured, and beside it what nothing promises: the score on new data."
    ),
    presets={"quick": EstimatorPreset(num_samples=600), "full": EstimatorPreset(seeds=3)},
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "training risk": "proposition 3 and corollary 2: no worse than the best linear predictor",
        "DenseNEst": "broader impact: linear estimators can be replaced without harm, and performance "
        "should be much better",
        "A-ResNEst": "broader impact: linear estimators can be replaced without harm, and performance "
        "should be much better",
        "ResNEst": "broader impact: linear estimators can be replaced without harm, and performance should "
        "be much better",
    },
    draw=draw,
    notes=(
        "The paper has no such experiment: sets, sizes and splits are ours. All models have their "
        "default settings and stand behind one StandardScaler; scores are R² and accuracy on a third "
        "of the samples. The defaults of our estimators were chosen while looking at most of these "
        "sets, so the comparison favors them; `nests.held_out` has sets that they were not chosen on. "
        "quick keeps 600 samples of a set.",
    ),
)
