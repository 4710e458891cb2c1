"""ε over the width M around the bottleneck condition: the sharp edge of theorem 1."""

from collections.abc import Iterator
from typing import Literal

import pandas as pd
import torch
from matplotlib.figure import Figure

from bathyscope.certificates import certify
from bathyscope.nets import ResNEst
from bathyscope.papers.nests.claims.problems import (
    Pair,
    estimator,
    learn_features_,
    local_minimum,
    problem,
)
from bathyscope.studies.computation import Computation
from bathyscope.studies.drawing import colour, label_axes, legend_below, mean_lines, panels
from bathyscope.studies.examples import whitened_examples
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store

GENERATED = "generated"
"""Six inputs, two numbers to predict, 60 samples: the data of the claims of this theme."""
Basis = Literal["drawn", "learnt"]
_BASES: dict[Basis, str] = {"drawn": "features as drawn", "learnt": "features learnt"}
_COMPONENTS = 10  # principal components of images: as many as classes
_ATTAINED = 1e-6  # of the constant predictor's risk: what a minimiser in float64 leaves
_CRITICAL = 1e-6  # greatest gradient norm of what counts as a local minimum
_LEAST_SHOWN = 1e-13  # rounding, on a logarithmic axis


class BottleneckPreset(Preset):
    """Settings of the edge; the paper states none.

    Attributes:
        offsets: M − ΣK_i (i < L), the widths that are tried.
        feature_sizes: K_1, …, K_L.
        num_train: samples of an image set.
    """

    data: str = GENERATED
    offsets: tuple[int, ...] = (-12, -10, -8, -6, -4, -2, -1, 0, 1, 2, 4, 8, 12)
    feature_sizes: tuple[int, ...] = (4, 4, 4, 4)
    num_train: int | None = None


class WidthPoint(Computation):
    """Certificates of one network of one width: at a local minimum of its prediction weights.

    Attributes:
        offset: M − ΣK_i (i < L).
        basis: whether the features stay as drawn or are learnt first.
        seed: of the network, and of the data where they are generated.
    """

    data: str
    num_train: int | None
    offset: int
    feature_sizes: tuple[int, ...]
    basis: Basis
    seed: int

    def prefix(self) -> str:
        """`width-18-drawn-generated-seed0`."""
        return f"width{self.offset:+d}-{self.basis}-{self.data}-seed{self.seed}"

    def data_sets(self) -> tuple[str, ...]:
        """The image set, where there is one."""
        return () if self.data == GENERATED else (self.data,)

    def seeds_used(self) -> tuple[int, ...]:
        """Of weights, generated data and the start of the minimisation."""
        return (self.seed,)

    def pair(self) -> Pair:
        """Inputs and numbers to predict."""
        if self.data == GENERATED:
            return problem(self.seed)
        return whitened_examples(self.data, _COMPONENTS, self.num_train)

    def network(self, pair: Pair) -> ResNEst:
        """The ResNEst of that width, without intercept so that K_0 = N_in."""
        x, y = pair
        torch.manual_seed(self.seed)
        found = estimator(
            width=x.shape[1] + sum(self.feature_sizes[:-1]) + self.offset,
            outputs=y.shape[1],
            inputs=x.shape[1],
            features=self.feature_sizes,
        )
        if self.basis == "learnt":
            learn_features_(found, pair)
        return found

    def rows(self) -> Iterator[dict[str, object]]:
        """One row; all ε as shares of the constant predictor's risk."""
        pair = self.pair()
        network = self.network(pair)
        # learnt features are nearly collinear: their minima are too slow to find to many digits
        at_minimum = self.basis == "drawn"
        if at_minimum:
            network, _ = local_minimum(network, pair, seed=self.seed)
        found = certify(network, pair, blocks=False)
        assert found.width is not None
        assert found.bound is not None
        assert found.linear_feature_risk is not None
        assert found.epsilon is not None
        assert found.attainable_epsilon is not None
        assert found.critical_point is not None
        yield {
            "width": found.width.width,
            "needed": found.width.needed,
            "rank": found.width.rank,
            "guaranteed": found.guaranteed,
            "epsilon": found.epsilon / found.constant_risk if at_minimum else None,
            "attainable": found.attainable_epsilon / found.constant_risk,
            "linear": (found.linear_feature_risk - found.bound) / found.constant_risk,
            "gradient_norm": found.critical_point.gradient_norm if at_minimum else None,
        }


def tasks(preset: BottleneckPreset) -> list[WidthPoint]:
    """One network a width, basis and seed."""
    return [
        WidthPoint(
            data=preset.data,
            num_train=preset.num_train,
            offset=offset,
            feature_sizes=preset.feature_sizes,
            basis=basis,
            seed=seed,
        )
        for basis in _BASES
        for offset in preset.offsets
        for seed in range(preset.seeds)
    ]


def table(store: Store, preset: BottleneckPreset) -> pd.DataFrame:
    """One row a network."""
    return store.frame(tasks(preset), keys=("basis", "offset", "seed"))


def minima(table: pd.DataFrame) -> pd.DataFrame:
    """The rows whose minimiser got there: elsewhere it ran out of steps, and ε says nothing."""
    return table[table["gradient_norm"].astype(float) <= _CRITICAL]


def checks(table: pd.DataFrame, preset: BottleneckPreset) -> tuple[Check, ...]:
    """Nothing is lost from M = ΣK_i on, something just below it."""
    enough, less = table[table["offset"] >= 0], table[table["offset"] == -1]
    found = minima(table)
    roomy = found[found["offset"] > 0]["epsilon"]
    above = found[found["epsilon"] > found["linear"]]
    return (
        Check(
            "with M ≥ ΣK_i the best prediction weights reach the bound: greatest ε as a share of "
            "the constant's risk",
            bool((enough["attainable"] <= _ATTAINED).all()),
            float(enough["attainable"].max()),
        ),
        Check(
            "so does every local minimum found with M > ΣK_i: greatest ε",
            bool((roomy <= _ATTAINED).all()),
            float(roomy.max()),
        ),
        Check(
            "with one less they do not: least ε, more than 100 times that wanted",
            bool((less["attainable"] > 100 * _ATTAINED).all()),
            float(less["attainable"].min()),
        ),
        Check(
            "starts from which a minimiser reached a local minimum in 150 steps",
            None,
            f"{len(found)} of {int((table['basis'] == 'drawn').sum())}",
        ),
        Check(
            "the certificate guarantees M ≥ ΣK_i and nothing less; networks it judges so",
            bool((table["guaranteed"] == (table["offset"] >= 0)).all()),
            f"{int((table['guaranteed'] == (table['offset'] >= 0)).sum())} of {len(table)}",
        ),
        Check(
            "local minima that are worse than the best linear predictor of the input: greatest M − "
            "ΣK_i among them, below 0 wanted",
            bool((above["offset"] < 0).all()),
            "none" if above.empty else int(above["offset"].max()),
        ),
    )


def draw(table: pd.DataFrame, preset: BottleneckPreset) -> Figure:
    """ε over the width, for features as drawn and learnt."""
    figure, axes = panels(2, share_y=True, width=4.6, height=3.5)
    curves = {
        "attainable": "best prediction weights",
        "epsilon": "local minimum from a random start",
        "linear": "best linear predictor of the input",
    }
    for ax, (basis, title) in zip(axes, _BASES.items(), strict=True):
        label_axes(ax, title=title, x="M − ΣKᵢ, i < L", y="ε / risk of the best constant", log="y")
        here = table[table["basis"] == basis]
        here = here.assign(epsilon=minima(here)["epsilon"])  # a gap where none was reached
        part = here.melt(["offset", "seed"], list(curves), var_name="curve", value_name="value")
        part["value"] = part["value"].clip(lower=_LEAST_SHOWN)
        mean_lines(ax, part, x="offset", y="value", by="curve", order=list(curves), labels=curves)
        ax.axvline(0, color=colour(5), lw=1, ls=":")
    axes[1].set_ylabel("")
    legend_below(figure, axes[0], columns=3)
    return figure


STUDY = Study(
    name="nests.bottleneck",
    title="ε over the width M: the sharp edge of the bottleneck condition",
    shows=(
        "A ResNEst with room for all of its features, M ≥ ΣK_i over i < L, loses nothing against the "
        "augmented network on the same features at any local minimum of its prediction weights. "
        "With one dimension less it does, and with much less it is worse than a linear predictor."
    ),
    presets={
        "quick": BottleneckPreset(offsets=(-12, -8, -4, -2, -1, 0, 1, 2, 6), seeds=2),
        "full": BottleneckPreset(data="fashion-mnist", num_train=500, seeds=3),
        "paper": BottleneckPreset(data="cifar-10", num_train=2000, seeds=10),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    draw=draw,
    notes=(
        "The paper states no settings; all are ours. Generated data are 60 samples of six inputs, "
        "images are cut down to ten principal components with one-hot targets; squared loss. Points "
        "at which the minimiser ran out of steps are no minima, and are left out of what is said of "
        "them; near M = ΣK_i, where x_{L−1} is close to singular, that is often so.",
    ),
)
