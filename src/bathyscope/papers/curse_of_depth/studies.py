"""The variance of pre-norm networks over depth, with and without 1/√l."""

import pandas as pd

from bathyscope.papers.curse_of_depth.claims import branch_sizes
from bathyscope.studies.depth_curve import DepthPreset, DepthTask, depth_curve, slope_over_depth
from bathyscope.studies.record import Check

PLAIN, SCALED = "as usual", "divided by √l"


class Variance(DepthTask):
    """Variance after the last block at the start."""

    def value(self) -> float:
        """Of all entries."""
        return float(branch_sizes(self.depth, scaled=self.kind == SCALED, seed=self.seed)[0, -1])


def checks(table: pd.DataFrame) -> tuple[Check, ...]:
    """In proportion to the depth as usual, and hardly with the factor."""
    usual, scaled = (slope_over_depth(table, kind) for kind in (PLAIN, SCALED))
    return (
        Check("the variance grows with depth: exponent above 0.7", usual > 0.7, usual),
        Check("with 1/√l it does not: exponent below 0.3", scaled < 0.3, scaled),
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
        notes=("Random networks at the start; the paper measures trained language models.",),
    ),
)
