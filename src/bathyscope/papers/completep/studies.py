"""How far one step moves a residual network, over depth, for three scales of its branches."""

import pandas as pd

from bathyscope.papers.completep.claims import movement
from bathyscope.studies.depth_curve import DepthPreset, DepthTask, depth_curve, slope_check
from bathyscope.studies.record import Check

_POWERS = {"as they are": 0.0, "divided by √L": 0.5, "divided by L": 1.0}


class Movement(DepthTask):
    """One step of signs at one rate."""

    def value(self) -> float:
        """‖Δx_L‖/‖x_L‖."""
        return movement(self.depth, _POWERS[self.kind], seed=self.seed)


def checks(table: pd.DataFrame) -> tuple[Check, ...]:
    """The exponent over depth of each."""
    whole = "divided by L: exponent within 0.2 of zero"
    return (
        slope_check(whole, table, "divided by L", above=-0.2, below=0.2),
        slope_check("divided by √L: exponent above 0.3", table, "divided by √L", above=0.3),
        slope_check("as they are: exponent", table, "as they are"),
    )


STUDIES = (
    depth_curve(
        "completep.figure_1",
        title="How far one step moves a network",
        shows="Only with branches divided by the depth one learning rate serves all depths.",
        task=Movement,
        presets={
            "quick": DepthPreset(
                kinds=tuple(_POWERS), depths=(8, 32, 128), data="generated", seeds=3
            ),
            "full": DepthPreset(
                kinds=tuple(_POWERS),
                depths=(4, 8, 16, 32, 64, 128, 256),
                data="generated",
                seeds=10,
            ),
        },
        checks=checks,
        label="relative change of the last representation",
        decides={
            "divided by L": "its rule: with branches over L one learning rate serves all depths",
            "divided by √L": "its rule: of the powers that keep signals finite, no other does",
        },
        undecided=("that the best learning rate of whole trainings transfers over depth",),
        notes=("One step at the start; the paper compares whole trainings of language models.",),
    ),
)
