"""The largest singular value of the Jacobians of residual branches over depth."""

import pandas as pd

from bathyscope.papers.residual_alignment.claims import trained
from bathyscope.studies.depth_curve import DepthPreset, DepthTask, depth_curve, slope_check
from bathyscope.studies.record import Check

_STEPS = {"after 30 steps": 30, "after 300 steps": 300}


class TopValue(DepthTask):
    """σ_1 of one network, the mean over its branches."""

    def value(self) -> float:
        """At two samples."""
        return trained(self.depth, seed=self.seed, steps=_STEPS[self.kind]).largest


def checks(table: pd.DataFrame) -> tuple[Check, ...]:
    """The exponent over depth."""
    return (
        slope_check(
            "σ_1 falls inversely with depth: exponent from −1.5 to −0.8",
            table,
            "after 300 steps",
            above=-1.5,
            below=-0.8,
        ),
        slope_check("that early in training", table, "after 30 steps"),
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
        decides={
            "σ_1 falls": "abstract, RA4: the top singular values of Jacobians of branches fall as 1/L"
        },
        undecided=(
            "representations on a line (RA1), aligned singular vectors (RA2) and that all of it is gone "
            "without skips: not measured here",
        ),
        notes=("Three kinds of digits and fully connected networks; small beside the paper's.",),
    ),
)
