"""The largest singular value of the Jacobians of residual branches over depth."""

import pandas as pd

from bathyscope.papers.residual_alignment.claims import trained
from bathyscope.studies.depth_curve import DepthPreset, DepthTask, depth_curve, slope_over_depth
from bathyscope.studies.record import Check

_STEPS = {"after 30 steps": 30, "after 300 steps": 300}


class TopValue(DepthTask):
    """σ_1 of one network, the mean over its branches."""

    def value(self) -> float:
        """At two samples."""
        return trained(self.depth, seed=self.seed, steps=_STEPS[self.kind]).largest


def checks(table: pd.DataFrame) -> tuple[Check, ...]:
    """The exponent over depth."""
    slope = slope_over_depth(table, "after 300 steps")
    return (
        Check(
            "σ_1 falls inversely with depth: exponent from −1.5 to −0.8", -1.5 < slope < -0.8, slope
        ),
        Check("that early in training", None, slope_over_depth(table, "after 30 steps")),
    )


STUDIES = (
    depth_curve(
        "residual_alignment.figure_1",
        title="Largest singular value of the Jacobians of residual branches",
        shows="In trained residual networks the branches' singular values fall inversely with depth.",
        task=TopValue,
        presets={
            "quick": DepthPreset(kinds=tuple(_STEPS), depths=(2, 4, 8), seeds=2),
            "full": DepthPreset(kinds=tuple(_STEPS), depths=(2, 4, 8, 16, 32), seeds=5),
        },
        checks=checks,
        label="mean σ₁ of a branch's Jacobian",
        notes=("Three kinds of digits and fully connected networks; small beside the paper's.",),
    ),
)
