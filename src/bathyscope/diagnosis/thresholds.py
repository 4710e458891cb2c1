"""Every number that decides a finding, with what it means and where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bathyscope.core.arguments import check_number
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.diagnosis.attention_codes import ATTENTION_THRESHOLDS
from bathyscope.runs import read_toml


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number, what crossing it means, and its source."""

    value: float
    meaning: str
    source: str


_ROUNDING = "rounding: an update or branch below the dtype's ε is lost in the addition"
_MEASURED = "measured on healthy networks, see the page on findings"

THRESHOLDS: dict[str, Threshold] = {
    "weight_outlier": Threshold(
        1e3, "times the scale of the other layers, relative to their size", _MEASURED
    ),
    "weight_rank": Threshold(
        0.5, "share of a layer's full numerical rank", "singularity, equation 11"
    ),
    "dead_share": Threshold(
        0.9, "share of a block's units that give one value for the batch", _MEASURED
    ),
    "silent_change": Threshold(1e-6, "‖x_{l+1} − x_l‖ / ‖x_l‖ of a residual block", _ROUNDING),
    "norm_variance": Threshold(
        0.1,
        "variance before a batch norm, in units of its ε",
        "the norm divides by √(variance + ε)",
    ),
    "precision": Threshold(
        0.05, "ε |mean| / deviation: share of the signal lost to rounding", _ROUNDING
    ),
    "collapse": Threshold(1e-4, "1 − mean cosine between samples", "singularity, theorem 2"),
    "singular_rank": Threshold(
        0.5, "share of the full rank of a representation, by units", "singularity, remark 1"
    ),
    "singular_rank_alone": Threshold(
        0.4, "the same, below which one such block alone is a problem", _MEASURED
    ),
    "norm_ratio": Threshold(
        100.0,
        "factor by which one block changes the gradient's norm",
        "norm_preservation, section 4.1: residual blocks stay within about 2",
    ),
    "norm_ratio_warning": Threshold(10.0, "the same, worth a look", _MEASURED),
    "gradient_range": Threshold(
        1e3,
        "factor between the gradient norms at the two ends of the trunk",
        "residual networks of 164 layers have 10² to 1.5·10³, plain-56 3·10³, plain-164 10¹¹",
    ),
    "gradient_factor": Threshold(
        1.2,
        "mean factor of a block, above which that range is exponential in depth",
        "a plain layer with BatchNorm has √(π/(π − 1)) = 1.21, residual blocks tend to 1",
    ),
    "gradient_range_any": Threshold(
        3e4,
        "factor between the two ends of the trunk that is too large whatever a block's is",
        "one learning rate cannot suit both ends: a step that moves the last block by 10⁻³ of its "
        "weights replaces the first",
    ),
    "gradient_range_warning": Threshold(
        300.0, "factor between the two ends of the trunk, worth a look", _MEASURED
    ),
    "large_update": Threshold(1.0, "‖ΔW‖ / ‖W‖ of one step", "the step is as large as the weights"),
    "large_update_warning": Threshold(
        0.1, "the same, worth a look", "usual steps lie between 1e-4 and 1e-2"
    ),
    "unstable_rate": Threshold(
        10.0,
        "learning rate over 2(1 + β)/λmax at the start",
        "wide networks leave a sharp start by themselves up to about six times the stable rate",
    ),
    "small_update": Threshold(1e-7, "‖ΔW‖ / ‖W‖ of one step", _ROUNDING),
    "width_loss": Threshold(
        0.01,
        "share of the best constant's risk that a narrow ResNEst loses at its best weights",
        "below it the missing room is a note",
    ),
    "linear_excess": Threshold(
        1.0, "risk over that of the best linear predictor", "nests, corollary 2"
    ),
    **{name: Threshold(*values) for name, values in ATTENTION_THRESHOLDS.items()},
}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds in force: the defaults, with what the user overrode."""

    overridden: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.overridden.get(name, THRESHOLDS[name].value)

    @classmethod
    def of(cls, source: Path | str | Mapping[str, float] | None = None) -> "Thresholds":
        """Defaults overridden from a mapping or from the table `[thresholds]` of a TOML file.

        Raises:
            UsageError: the file cannot be read, a name is unknown, or a value is no positive number.

        Examples:
            >>> Thresholds.of({"dead_share": 0.5})["dead_share"]
            0.5
        """
        if source is None:
            return cls({})
        values: Mapping[str, Any] = source if isinstance(source, Mapping) else _table(source)
        for name in values:
            if name not in THRESHOLDS:
                raise UnknownName("threshold", str(name), THRESHOLDS)
        return cls(
            {
                name: check_number(f"Threshold {name!r}", value, low=0.0, open_low=True)
                for name, value in values.items()
            }
        )


def _table(path: Path | str) -> Mapping[str, Any]:
    if not isinstance(path, (str, Path)):
        raise UsageError(
            f"Thresholds are a mapping or a TOML file, but a {type(path).__name__} was given."
        )
    table = read_toml(Path(path)).get("thresholds")
    if not isinstance(table, dict):
        raise UsageError(f"{path} has no table [thresholds]; add one with name = number lines.")
    return table
