"""Every number that decides a finding, with what it means and where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bathyscope.core.arguments import check_number
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.json_values import JsonMapping
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
_NINE_IN_TEN = (
    "from here on nine in ten random networks of the forecast's table failed, in round numbers"
)

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
    "over_time": Threshold(
        1e-7, "gradient at the first time steps of a sequence over that at the last", _ROUNDING
    ),
    "gradient_range_warning": Threshold(
        300.0, "factor between the two ends of the trunk, worth a look", _MEASURED
    ),
    "large_update": Threshold(6.5, "‖ΔW‖ / ‖W‖ of one step", _NINE_IN_TEN),
    "large_update_normalised": Threshold(
        10.0,
        "the same where a batch norm follows and the step lowers the loss",
        "there only the weights' direction counts, and a long step lengthens them, which shortens the next "
        "(Arora, Li and Lyu 2018, auto rate-tuning)",
    ),
    "large_update_warning": Threshold(
        0.3,
        "the same, worth a look",
        "usual steps lie between 1e-4 and 1e-2, Adam's first up to 0.2",
    ),
    "unstable_rate": Threshold(
        10.0,
        "learning rate over 2(1 + β)/λmax at the start",
        "wide networks leave a sharp start by themselves up to about six times the stable rate",
    ),
    "unstable_rate_grave": Threshold(
        100.0,
        "the same, a problem",
        "along that direction a step multiplies the error by 2·100 − 1: the loss by 4·10⁴",
    ),
    "small_update": Threshold(1e-7, "‖ΔW‖ / ‖W‖ of one step", _ROUNDING),
    "input_size": Threshold(
        30.0,
        "largest absolute value of the inputs",
        "standardised inputs rarely pass 10; bytes reach 255",
    ),
    "column_range": Threshold(
        100.0,
        "largest deviation of an input column over the smallest",
        "a learning rate that suits one column is off by the square of this for the other",
    ),
    "repeated_columns": Threshold(
        0.5,
        "share of a table's columns that equal another one",
        "most of what it says is said twice",
    ),
    "repeated_samples": Threshold(
        0.5, "share of a batch's samples that occurred before in it", "most of them are copies"
    ),
    "constant_labels": Threshold(
        16.0,
        "labels that are all the same, from which it is a problem",
        "by chance in a batch of two equal classes: 2⁻¹⁵",
    ),
    "labels_a_class": Threshold(
        5.0, "labels for each output, from which missing classes are told", "(1 − 1/C)^5C is e⁻⁵"
    ),
    "target_size": Threshold(
        30.0, "root mean square of the targets of a distance", "a fresh network answers about 0 ± 1"
    ),
    "target_size_grave": Threshold(
        1e3, "the same, a problem", "steps of 10⁻³ take 10⁶ of them to get there"
    ),
    "relation": Threshold(
        1.0,
        "deviations by which inputs and targets are more alike than shuffled ones",
        "one deviation of the test itself",
    ),
    "linear_share": Threshold(
        0.5,
        "share of the linear maps that follow another one directly, in a network with activations",
        "of 47 random networks with activations 14 have such pairs, a hundredth to a third of their maps",
    ),
    "narrow_width": Threshold(
        1.0,
        "numbers that a sample is given within the trunk, over log₂ of the number of classes",
        "n numbers that are on or off tell 2ⁿ classes apart",
    ),
    "narrow_width_grave": Threshold(
        0.3,
        "the same, a problem",
        "a layer of 1 in an MLP of three leaves 50 classes at .11 to .19, one of 5 at .98",
    ),
    "out_of_reach": Threshold(
        0.1,
        "share of the way from the best constant answer to the perfect one that is closed off",
        "softmax before cross-entropy has 0.45 for 2 classes, 0.63 for 10",
    ),
    "saturated_share": Threshold(
        0.5, "share of samples without a gradient before the last activation", _MEASURED
    ),
    "poor_start": Threshold(
        3.0, "loss at the start over that of the best constant answer", _MEASURED
    ),
    "poor_start_grave": Threshold(800.0, "the same, a problem", _NINE_IN_TEN),
    "overshoot": Threshold(
        1.5, "loss after a step over the one before or the best constant's", _MEASURED
    ),
    "overshoot_grave": Threshold(50.0, "the same, a problem", _MEASURED),
    "budget": Threshold(
        0.5,
        "share of the loss that the steps planned can take away, each gaining what the first gains",
        "less than half is not even a start",
    ),
    "budget_grave": Threshold(0.25, "the same, a problem", "half of it"),
    "budget_rate": Threshold(
        0.02, "the same, below which the rate is named and not the steps", "25 times the steps"
    ),
    "fall": Threshold(
        0.97,
        "loss after the look-ahead over that before",
        "of 170 random networks without another problem, 14 of 26 that fail and none of 14 that train",
    ),
    "rise": Threshold(1.1, "the same, a problem", "a tenth above the start on its own batch"),
    "frozen_share": Threshold(0.5, "share of the parameters that are frozen", "most of them"),
    "decay": Threshold(1.0, "pull of weight decay over that of the gradient", "the stronger one"),
    "decay_grave": Threshold(10.0, "the same, a problem", _MEASURED),
    "dropout": Threshold(0.75, "probability of a dropout", "0.1 to 0.5 are usual"),
    "dropout_grave": Threshold(
        0.9, "the same, a problem", "noise p/(1 − p) = 9 times the square of the signal"
    ),
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
        values: Mapping[str, object] = source if isinstance(source, Mapping) else _table(source)
        for name in values:
            if name not in THRESHOLDS:
                raise UnknownName("threshold", str(name), THRESHOLDS)
        return cls(
            {
                name: check_number(f"Threshold {name!r}", value, low=0.0, open_low=True)
                for name, value in values.items()
            }
        )


def _table(path: Path | str) -> JsonMapping:
    if not isinstance(path, (str, Path)):
        raise UsageError(
            f"Thresholds are a mapping or a TOML file, but a {type(path).__name__} was given."
        )
    table = read_toml(Path(path)).get("thresholds")
    if not isinstance(table, dict):
        raise UsageError(f"{path} has no table [thresholds]; add one with name = number lines.")
    return table
