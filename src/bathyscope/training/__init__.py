"""Training: one loop that is cheap, exact to resume, and takes a divergence for a result."""

from bathyscope.training.batches import Data, Examples
from bathyscope.training.callbacks import Callback, LoopView, Record
from bathyscope.training.config import TrainingConfig
from bathyscope.training.divergence import Divergence
from bathyscope.training.evaluation import evaluate
from bathyscope.training.progress import ProgressBar
from bathyscope.training.runner import Outcome, fit, outcome_of, train
from bathyscope.training.saving import Saving
from bathyscope.training.stacked import fit_stacked

__all__ = [
    "Callback",
    "Data",
    "Divergence",
    "Examples",
    "LoopView",
    "Outcome",
    "ProgressBar",
    "Record",
    "Saving",
    "TrainingConfig",
    "evaluate",
    "fit",
    "fit_stacked",
    "outcome_of",
    "train",
]
