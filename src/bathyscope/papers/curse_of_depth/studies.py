"""The variance of pre-norm networks over depth, with and without 1/√l."""

import pandas as pd

from bathyscope.papers.curse_of_depth.claims import branch_sizes
from bathyscope.studies.depth_curve import DepthPreset, DepthTask, depth_curve, slope_check
from bathyscope.studies.record import Check

PLAIN, SCALED = "as usual", "divided by √l"


class Variance(DepthTask):
    """Variance after the last block at the start."""

    def value(self) -> float:
        """Of all entries."""
        return float(branch_sizes(self.depth, scaled=self.kind == SCALED, seed=self.seed)[0, -1])


def checks(table: pd.DataFrame) -> tuple[Check, ...]:
    """In proportion to the depth as usual, and hardly with the factor."""
    return (
        slope_check("the variance grows with depth: exponent above 0.7", table, PLAIN, above=0.7),
        slope_check("with 1/√l it does not: exponent below 0.3", table, SCALED, below=0.3),
    )


_KINDS = (PLAIN, SCALED)
STUDIES = (
    depth_curve(
        "curse_of_depth.figure_1",
        title="Variance of pre-norm networks at the start",
        shows="With norms before the branches the variance grows with depth; dividing by √l holds it.",
        task=Variance,
        presets={
            "quick": DepthPreset(kinds=_KINDS, depths=(4, 16, 64), data="generated", seeds=3),
            "full": DepthPreset(
                kinds=_KINDS, depths=(4, 8, 16, 32, 64, 128, 256), data="generated", seeds=10
            ),
        },
        checks=checks,
        label="variance after the last block",
        decides={
            "the variance grows": "abstract: with norms before the branches the variance grows with depth",
            "with 1/√l": "abstract: dividing the norm's output by √l mitigates that growth",
        },
        undecided=(
            "that the variance grows exponentially, and all that is said of trained language models",
        ),
        notes=("Random networks at the start; the paper measures trained language models.",),
    ),
)
