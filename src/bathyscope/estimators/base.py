"""What the six estimators share: parameters, fitting, partial fitting, outputs."""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Literal, TypeVar, no_type_check

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bathyscope.certificates.width import width_of
from bathyscope.core.arguments import check_choice, check_count, check_number
from bathyscope.core.devices import tensors_on_cpu
from bathyscope.core.errors import UsageError
from bathyscope.estimators.certificate import FitCertificate
from bathyscope.estimators.certifying import certificate_of
from bathyscope.estimators.fitting import (
    Choice,
    FitTask,
    Parts,
    choose_ridges,
    initial_network,
    learn_features_,
    path_of,
)
from bathyscope.estimators.forms import Form, Sizes
from bathyscope.estimators.learning import Schedule, Training
from bathyscope.estimators.narrow import solve_narrow_
from bathyscope.estimators.samples import Samples, merge_samples, split
from bathyscope.estimators.scaling import Array, Scaling
from bathyscope.estimators.solving import Solution
from bathyscope.nets.nest import NEst, ResNEst

if TYPE_CHECKING:
    from numpy.typing import ArrayLike as ArrayLike
else:  # whatever is given: scikit-learn's own checks judge it, with the messages its users know
    ArrayLike = object

_ROWS = 4096  # samples whose features are in memory at once
_SAMPLES_A_WEIGHT = 10  # below this, `partial_fit` does not solve for the weights: it would overfit
_ALL_DATA = "all data given to fit"
_LAST_CALL = "the data of the last call to partial_fit only"


E = TypeVar("E", bound="NonlinearEstimator")


class GuaranteeWarning(UserWarning):
    """The estimator was fitted, but nothing guarantees that it is no worse than linear."""


@dataclass(frozen=True)
class _Seeds:
    network: int
    order: int
    split: int


class NonlinearEstimator(BaseEstimator):
    """A network of the NEst family with its prediction weights solved on all the data.

    Subclasses say which form of network (`_form`) and what is predicted (`_encode`).
    """

    _form: Form
    num_blocks: int
    block_size: int
    training: Training
    ridge: float | Literal["auto"]
    learning_rate: float
    batch_size: int | Literal["auto"]
    max_epochs: int
    early_stopping: bool
    patience: int
    validation_fraction: float
    random_state: int | np.random.RandomState | None
    verbose: bool
    _learner: NEst | None  # that `partial_fit` resumes from

    @no_type_check  # a constructor stores what it is given; `fit` judges it
    def __init__(
        self,
        *,
        num_blocks: int = 3,
        block_size: int = 64,
        training: Training = "joint",
        ridge: float | int | Literal["auto"] = "auto",
        learning_rate: float | int = 2e-3,
        batch_size: int | Literal["auto"] = "auto",
        max_epochs: int = 200,
        early_stopping: bool = True,
        patience: int = 15,
        validation_fraction: float = 0.2,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.training = training
        self.ridge = ridge
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _encode(
        self, y: npt.NDArray[np.generic], *, weights: Array, first: bool
    ) -> tuple[npt.NDArray[np.generic], FitTask]:
        """Targets as numbers, and the task; where `first`, what is predicted is learned from y."""

    @abstractmethod
    def _scaled_targets(self, samples: Samples, *, first: bool) -> Samples:
        """The samples with their targets in the units of the network's outputs."""

    @abstractmethod
    def _target_units(self) -> Array | None:
        """What a unit of each output of the network is in the targets; None for classes."""

    def fit(self: E, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> E:
        """Learn features on a part of the samples, then solve for the prediction weights on all.

        Args:
            X: samples by features.
            y: targets.
            sample_weight: of each sample; equal if None. A weight of two is the same as two copies.
        """
        self._check_parameters()
        with tensors_on_cpu():
            samples, task = self._prepare(X, y, sample_weight, first=True)
            seeds = self._seeds()
            network = initial_network(self._form, self._sizes(samples, task), seed=seeds.network)
            parts = self._parts(samples, task, seeds)
            self._learner = None
            self._learn_(network, parts, seeds, epochs=self.max_epochs)
            self._solve(network, parts, scope=_ALL_DATA)
        return self

    def _partial_fit(self: E, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> E:
        with tensors_on_cpu():
            return self._fit_further(X, y, sample_weight)

    def _fit_further(self: E, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> E:
        """One pass over the data of this call, from where the last one ended.

        Solving for the prediction weights would disturb the gradient steps of the next call (a ridge
        may switch features off), so those resume from a network of their own.
        """
        self._check_parameters()
        first = not hasattr(self, "network_")
        samples, task = self._prepare(X, y, sample_weight, first=first)
        self.num_calls_ = 1 if first else getattr(self, "num_calls_", 0) + 1
        seeds, sizes = self._seeds(call=self.num_calls_), self._sizes(samples, task)
        if first:
            self._learner = initial_network(self._form, sizes, seed=seeds.network)
        elif self._learner is None:
            self._learner = copy.deepcopy(self.network_).float()
        parts = self._parts(samples, task, seeds)
        self._learn_(self._learner, replace(parts, validation=None), seeds, epochs=1, begin=first)
        weights = sizes.num_inputs + 1 + sum(sizes.feature_sizes)
        enough = len(samples) >= _SAMPLES_A_WEIGHT * weights
        self._solve(copy.deepcopy(self._learner), parts, solve=enough, scope=_LAST_CALL)
        return self

    def _parts(self, samples: Samples, task: FitTask, seeds: _Seeds) -> Parts:
        labels = samples.Y if task.loss != "squared" and samples.Y.ndim == 1 else None
        parts = split(samples, fraction=self.validation_fraction, labels=labels, seed=seeds.split)
        train, validation = (samples, None) if parts is None else parts
        return Parts(task, samples, train, validation)

    def _learn_(
        self, network: NEst, parts: Parts, seeds: _Seeds, *, epochs: int, begin: bool = True
    ) -> None:
        self.history_ = learn_features_(
            network,
            self._form,
            parts,
            training=self.training,
            schedule=self._schedule(len(parts.train), epochs),
            seed=seeds.order,
            begin=begin,
            progress=self._progress(),
        )

    def _solve(self, network: NEst, parts: Parts, *, scope: str, solve: bool = True) -> None:
        """Choose the ridge, solve for the prediction weights, certify."""
        self.network_ = network.double()
        ridge = None if self.ridge == "auto" else float(self.ridge)
        choice = Choice() if ridge is None else Choice(ridge)
        if solve and parts.validation is not None:
            choice = choose_ridges(self.network_, parts, ridge=ridge)
        self.certificate_ = self._solve_readout(
            parts.samples, parts.task, choice, solve=solve, scope=scope
        )
        self.ridge_ = self.certificate_.ridge

    def _solve_readout(
        self, samples: Samples, task: FitTask, choice: Choice, *, solve: bool, scope: str
    ) -> FitCertificate:
        """Give the network its prediction weights and say what is known of them."""
        sizes = self._sizes(samples, task)
        path = path_of(self.network_, samples, task, existence_ridge=choice.existence_ridge)
        width = None
        if isinstance(self.network_, ResNEst):
            width = width_of(self.network_, sizes=(), room=0)
        wide = width is None or (width.width >= sizes.needed_width and width.features_recoverable)
        solution: Solution | None = None
        if solve and wide:
            solution = path.best(choice.ridge)
            self._form.write_(self.network_, solution.readout())
        elif solve:
            assert isinstance(self.network_, ResNEst)
            solve_narrow_(self.network_, samples, task, choice)
        result = certificate_of(
            self.network_,
            path,
            samples,
            solution=solution,
            units=self._target_units(),
            choice=choice,
            width=width,
            needed_width=sizes.needed_width if width is not None else None,
            scope=scope,
        )
        if not result.guaranteed and solve:
            warnings.warn(
                f"{type(self).__name__} was fitted, but {result.decided_by}: it may be worse than "
                "the best linear predictor on the training data.",
                GuaranteeWarning,
                stacklevel=4,
            )
        return result

    def _outputs(self, X: ArrayLike) -> Array:
        """The network's outputs for new samples, one row each."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        Z = torch.from_numpy(self.scaling_.apply(rows.astype(np.float64)))
        with tensors_on_cpu(), torch.no_grad():
            return torch.cat([self.network_(part) for part in Z.split(_ROWS)]).numpy()

    def _prepare(
        self, X: ArrayLike, y: ArrayLike, sample_weight: object, *, first: bool
    ) -> tuple[Samples, FitTask]:
        """Checked, merged and standardized samples."""
        rows, targets = self._validate(X, y, first=first)
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64)
        if (weights < 0).any():
            raise ValueError("Negative values in data passed to `sample_weight`.")
        if not weights.any():
            raise ValueError("The sample weights are all zero; give at least one that is not.")
        Y, task = self._encode(targets, weights=weights, first=first)
        samples = merge_samples(rows.astype(np.float64), Y, weights)
        if first:
            self.scaling_ = Scaling.of(samples.X, samples.weights)
        scaled = Samples(self.scaling_.apply(samples.X), samples.Y, samples.weights)
        return self._scaled_targets(scaled, first=first), task

    def _validate(
        self, X: ArrayLike, y: ArrayLike, *, first: bool
    ) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
        result: tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]] = validate_data(
            self, X, y, dtype=[np.float64, np.float32], multi_output=True, reset=first
        )
        return result

    def _sizes(self, samples: Samples, task: FitTask) -> Sizes:
        return Sizes(
            num_inputs=samples.X.shape[1],
            num_outputs=task.num_outputs,
            feature_sizes=(self.block_size,) * self.num_blocks,
            width=getattr(self, "width", None),
        )

    def _seeds(self, *, call: int = 0) -> _Seeds:
        """Of one fit; of one call to `partial_fit`, with an order and a split of its own."""
        random = check_random_state(self.random_state)
        network, order, parts = (int(seed) for seed in random.randint(2**31 - 1, size=3))
        return _Seeds(network, order + call, parts + call)

    def _schedule(self, num_samples: int, epochs: int) -> Schedule:
        size = self.batch_size
        if (
            size == "auto"
        ):  # about twenty steps per epoch, as far as memory of the cache is good for
            size = int(np.clip(num_samples // 20, 16, 256))
        patience = self.patience if self.early_stopping else None
        return Schedule(self.learning_rate, int(size), epochs, patience)

    def _progress(self) -> Callable[[Iterable[int]], Iterable[int]]:
        if not self.verbose:
            return iter
        from rich.console import Console
        from rich.progress import track

        console = Console(stderr=True)
        return lambda epochs: track(list(epochs), "learning features", console=console)

    def _check_parameters(self) -> None:
        """Raise on a parameter that cannot be meant.

        Raises:
            UsageError: which is also a ValueError, as scikit-learn's users expect.
        """
        for name in ("num_blocks", "block_size", "max_epochs", "patience"):
            check_count(name, getattr(self, name), minimum=1)
        for name in ("batch_size", "width"):
            if getattr(self, name, None) not in (None, "auto"):
                check_count(name, getattr(self, name), minimum=1)
        check_choice("training", self.training, ("joint", "blockwise"))
        check_number("learning_rate", self.learning_rate, low=0.0, open_low=True)
        if not isinstance(self.early_stopping, bool | np.bool_):
            raise UsageError(f"early_stopping must be True or False, got {self.early_stopping!r}.")
        if self.ridge != "auto" and not (_is_real(self.ridge) and self.ridge >= 0):
            raise UsageError(f"ridge must be 'auto' or a number of at least 0, got {self.ridge!r}.")
        if not (_is_real(self.validation_fraction) and 0 < self.validation_fraction < 1):
            raise UsageError(
                f"validation_fraction must lie between 0 and 1, got {self.validation_fraction!r}."
            )


class WithWidth(NonlinearEstimator):
    """An estimator whose network has a residual space of width M."""

    @no_type_check
    def __init__(
        self,
        *,
        num_blocks: int = 3,
        block_size: int = 64,
        width: int | None = None,
        training: Training = "joint",
        ridge: float | int | Literal["auto"] = "auto",
        learning_rate: float | int = 2e-3,
        batch_size: int | Literal["auto"] = "auto",
        max_epochs: int = 200,
        early_stopping: bool = True,
        patience: int = 15,
        validation_fraction: float = 0.2,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            num_blocks=num_blocks,
            block_size=block_size,
            training=training,
            ridge=ridge,
            learning_rate=learning_rate,
            batch_size=batch_size,
            max_epochs=max_epochs,
            early_stopping=early_stopping,
            patience=patience,
            validation_fraction=validation_fraction,
            random_state=random_state,
            verbose=verbose,
        )
        self.width = width


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and value == value
