"""The gain of products of mixing matrices over depth."""

import pandas as pd

from bathyscope.papers.hyper_connections.claims import gain, mixed
from bathyscope.studies.depth_curve import DepthPreset, DepthTask, depth_curve
from bathyscope.studies.record import Check

_KINDS = ("free", "doubly stochastic")


class Gain(DepthTask):
    """The gain of one product."""

    def value(self) -> float:
        """The largest sum of magnitudes of a row."""
        return gain(mixed(self.kind, self.depth, seed=self.seed))


def checks(table: pd.DataFrame) -> tuple[Check, ...]:
    """Orders of magnitude, and none."""
    last = table[table["depth"] == table["depth"].max()].groupby("kind")["value"]
    free, bound = float(last.min()["free"]), float(last.max()["doubly stochastic"])
    return (
        Check(
            "free mixing amplifies 100-fold at the largest depth, the smallest", free > 100, free
        ),
        Check("doubly stochastic mixing does not amplify, the largest", bound < 1 + 1e-9, bound),
    )


STUDIES = (
    depth_curve(
        "hyper_connections.figure_1",
        title="Gain of products of mixing matrices of four streams",
        shows="Unconstrained mixing amplifies by orders of magnitude over depth; doubly stochastic does not.",
        task=Gain,
        presets={
            "quick": DepthPreset(kinds=_KINDS, depths=(5, 20, 60), data="generated", seeds=5),
            "full": DepthPreset(
                kinds=_KINDS, depths=(2, 5, 10, 20, 40, 60, 100), data="generated", seeds=20
            ),
        },
        checks=checks,
        label="largest gain of a stream",
        decides={
            "free mixing": "summaries: unconstrained mixing amplifies signals by orders of magnitude",
            "doubly stochastic": "summaries: products of doubly stochastic mixings do not amplify",
        },
        undecided=("its figures for large language models, which could not be looked up",),
        notes=("Random matrices near the identity stand in for learned ones.",),
    ),
)
