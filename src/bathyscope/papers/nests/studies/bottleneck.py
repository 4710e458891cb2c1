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
from bathyscope.studies.drawing import color, label_axes, legend_below, mean_lines, panels
from bathyscope.studies.examples import whitened_examples
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store

GENERATED = "generated"
"""Six inputs, two numbers to predict, 60 samples: the data of the claims of this theme."""
Basis = Literal["drawn", "learned"]
_BASES: dict[Basis, str] = {"drawn": "features as drawn", "learned": "features learned"}
_COMPONENTS = 10  # principal components of images: as many as classes
_ATTAINED = 1e-6  # of the constant predictor's risk: what a minimizer in float64 leaves
_CRITICAL = 1e-6  # largest gradient norm of what counts as a local minimum
_SMALLEST_SHOWN = 1e-13  # rounding, on a logarithmic axis


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
        basis: whether the features stay as drawn or are learned first.
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

    def pair(self) -> Pair:
        """Inputs and numbers to predict."""
        if self.data == GENERATED:
            return problem(self.seed)
        return whitened_examples(self.data, _COMPONENTS, self.num_train)

    def network(self, pair: Pair) -> ResNEst:
        """The ResNEst of that width, without intercept so that K_0 = N_in."""
        x, y = pair
        torch.manual_seed(self.seed)
        result = estimator(
            width=x.shape[1] + sum(self.feature_sizes[:-1]) + self.offset,
            outputs=y.shape[1],
            inputs=x.shape[1],
            features=self.feature_sizes,
        )
        if self.basis == "learned":
            learn_features_(result, pair)
        return result

    def rows(self) -> Iterator[dict[str, object]]:
        """One row; all ε as fractions of the constant predictor's risk."""
        pair = self.pair()
        network = self.network(pair)
        # learned features are nearly collinear: their minima are too slow to find to many digits
        at_minimum = self.basis == "drawn"
        if at_minimum:
            network, _ = local_minimum(network, pair, seed=self.seed)
        result = certify(network, pair, blocks=False)
        assert result.width is not None
        assert result.bound is not None
        assert result.linear_feature_risk is not None
        assert result.epsilon is not None
        assert result.attainable_epsilon is not None
        assert result.critical_point is not None
        yield {
            "width": result.width.width,
            "needed": result.width.needed,
            "rank": result.width.rank,
            "guaranteed": result.guaranteed,
            "epsilon": result.epsilon / result.constant_risk if at_minimum else None,
            "attainable": result.attainable_epsilon / result.constant_risk,
            "linear": (result.linear_feature_risk - result.bound) / result.constant_risk,
            "gradient_norm": result.critical_point.gradient_norm if at_minimum else None,
        }


def tasks(preset: BottleneckPreset) -> list[WidthPoint]:
    """One network a width, basis and seed."""
    return [
        preset.task(WidthPoint, offset=offset, basis=basis, seed=seed)
        for basis in _BASES
        for offset in preset.offsets
        for seed in range(preset.seeds)
    ]


def table(store: Store, preset: BottleneckPreset) -> pd.DataFrame:
    """One row per network."""
    return store.frame(tasks(preset), keys=("basis", "offset", "seed"))


def minima(table: pd.DataFrame) -> pd.DataFrame:
    """The rows whose minimizer got there: elsewhere it ran out of steps, and ε says nothing."""
    return table[table["gradient_norm"].astype(float) <= _CRITICAL]


def checks(table: pd.DataFrame, preset: BottleneckPreset) -> tuple[Check, ...]:
    """Nothing is lost from M = ΣK_i on, something just below it."""
    enough, less = table[table["offset"] >= 0], table[table["offset"] == -1]
    result = minima(table)
    roomy = result[result["offset"] > 0]["epsilon"]
    above = result[result["epsilon"] > result["linear"]]
    return (
        Check(
            "with M ≥ ΣK_i the best prediction weights reach the bound: largest ε as a fraction of "
            "the constant's risk",
            bool((enough["attainable"] <= _ATTAINED).all()),
            float(enough["attainable"].max()),
        ),
        Check(
            "so does every local minimum found with M > ΣK_i: largest ε",
            bool((roomy <= _ATTAINED).all()),
            float(roomy.max()),
        ),
        Check(
            "with one less they do not: smallest ε, more than 100 times that wanted",
            bool((less["attainable"] > 100 * _ATTAINED).all()),
            float(less["attainable"].min()),
        ),
        Check(
            "starts from which a minimizer reached a local minimum in 150 steps",
            None,
            f"{len(result)} of {int((table['basis'] == 'drawn').sum())}",
        ),
        Check(
            "the certificate guarantees M ≥ ΣK_i and nothing less; networks it judges so",
            bool((table["guaranteed"] == (table["offset"] >= 0)).all()),
            f"{int((table['guaranteed'] == (table['offset'] >= 0)).sum())} of {len(table)}",
        ),
        Check(
            "local minima that are worse than the best linear predictor of the input: largest M − "
            "ΣK_i among them, below 0 wanted",
            bool((above["offset"] < 0).all()),
            "none" if above.empty else int(above["offset"].max()),
        ),
    )


def draw(table: pd.DataFrame, preset: BottleneckPreset) -> Figure:
    """ε over the width, for features as drawn and learned."""
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
        part["value"] = part["value"].clip(lower=_SMALLEST_SHOWN)
        mean_lines(ax, part, x="offset", y="value", by="curve", order=list(curves), labels=curves)
        ax.axvline(0, color=color(5), lw=1, ls=":")
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
    },
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "with M": "theorem 1 (ii): with enough width ε = 0",
        "so does": "theorem 1 (ii): ε = 0 at every local minimum",
        "with one less": "section 3.2: below the bottleneck condition ε > 0",
        "the certificate": "section 3.2: the bottleneck condition decides",
        "local minima that are worse": "corollary 2: no local minimum is worse than the best linear "
        "predictor where the condition holds",
    },
    draw=draw,
    notes=(
        "The paper states no settings; all are ours. Generated data are 60 samples of six inputs, "
        "images are cut down to ten principal components with one-hot targets; squared loss. Points "
        "at which the minimizer ran out of steps are not minima, and are left out of what is said of "
        "them; near M = ΣK_i, where x_{L−1} is close to singular, that is often so.",
    ),
)
