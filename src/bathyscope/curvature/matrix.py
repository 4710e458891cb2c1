"""A curvature matrix as one object that answers every question: products, spectra, by block."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.core import Blocks, Measurement, blocks_of
from bathyscope.core.arguments import check_count, check_flag, check_seed
from bathyscope.core.devices import available_bytes
from bathyscope.core.errors import UsageError
from bathyscope.core.global_state import autocast_nowhere
from bathyscope.core.json_values import JsonMapping
from bathyscope.core.progress import count_products
from bathyscope.curvature.by_block import curvature_by_block
from bathyscope.curvature.dense_matrix import dense_by_parameter
from bathyscope.curvature.products import CurvatureOperator, ProductPlan
from bathyscope.curvature.resolved import (
    EXACT_UP_TO,
    ConditionNumber,
    Definition,
    NegativeIndex,
    check_definition,
    check_tolerance,
    estimated_condition_number,
    estimated_negative_index,
    exact_condition_number,
    exact_negative_index,
    rounding,
)
from bathyscope.curvature.terms import GaussNewtonTerm
from bathyscope.linalg import (
    Ends,
    ExtremeEigenvalues,
    SpectralDensity,
    TraceEstimate,
    extreme_eigenvalues,
    spectral_density,
    trace_estimate,
)
from bathyscope.linalg.lanczos import MOST_PROBES

T = TypeVar("T")


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(check_seed(seed))


class CurvatureMatrix:
    """A curvature matrix that is never formed unless asked; made by `hessian` and `gauss_newton`.

    It multiplies vectors and blocks of column vectors with `@`, so everything in `linalg` that
    takes a symmetric operator takes it too. Questions that need all eigenvalues, or the same
    density, share one computation until parameters, buffers or data change. Coordinates are the
    parameters in the order of `named_parameters()`, each flattened.
    """

    def __init__(self, kind: str, operator: CurvatureOperator, progress: bool = False) -> None:
        self.kind, self.operator, self.progress = kind, operator, progress
        self._known: dict[tuple[object, ...], Any] = {}
        self._generation = 0

    @property
    def shape(self) -> tuple[int, int]:
        """(d, d)."""
        return self.operator.shape

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""
        return self.operator.dtype

    @property
    def device(self) -> torch.device:
        """Of the parameters."""
        return self.operator.device

    @property
    def plan(self) -> ProductPlan:
        """Whether the graph is kept, and the memory that products take."""
        return self.operator.plan

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know."""
        return tuple(self.operator.objective.notes)

    @property
    def num_products(self) -> int:
        """Products made so far."""
        return self.operator.num_products

    def __matmul__(self, vectors: Float[Tensor, " d *b"]) -> Float[Tensor, " d *b"]:
        """The matrix times one vector of length d, or the columns of a (d, b) tensor.

        Raises:
            UsageError: another length, whole numbers, or another device.
        """
        d = self.shape[0]
        if not isinstance(vectors, Tensor) or vectors.ndim not in (1, 2) or len(vectors) != d:
            given = tuple(vectors.shape) if isinstance(vectors, Tensor) else type(vectors).__name__
            raise UsageError(
                f"The matrix multiplies a vector of length {d} or a tensor of shape ({d}, b) with a "
                f"vector in each column, but {given} was given."
            )
        if not vectors.is_floating_point() or vectors.device != self.device:
            raise UsageError(
                f"The matrix multiplies floating-point vectors on {self.device}, but {vectors.dtype} "
                f"on {vectors.device} was given; convert with `.to(H.device, H.dtype)`."
            )
        if vectors.ndim == 1:
            return (self.operator @ vectors[:, None])[:, 0]
        return self.operator @ vectors

    def __repr__(self) -> str:
        objective = self.operator.objective
        return (
            f"<{self.kind} of {type(objective.model).__name__}: {self.shape[0]} parameters, "
            f"{objective.batches.num_samples} samples in {objective.batches.num_batches} batches, "
            f"batchnorm={objective.batchnorm!r}>"
        )

    def gauss_newton(self) -> "CurvatureMatrix":
        """The Gauss-Newton matrix of the same objective."""
        operator = CurvatureOperator(self.operator.objective, GaussNewtonTerm.of)
        return CurvatureMatrix("gauss_newton", operator, self.progress)

    def extremes(
        self,
        k: int = 5,
        *,
        ends: Ends = "both",
        tolerance: float = 1e-5,
        max_products: int = 2000,
        check_copies: bool = True,
        seed: int = 0,
    ) -> ExtremeEigenvalues:
        """The k largest and smallest eigenvalues with residuals; see `linalg.extreme_eigenvalues`.

        `check_copies` finds repeated eigenvalues with their multiplicity at about the cost of the
        search itself (`check_products` of the result says it).
        """
        with self._working("extreme eigenvalues"):
            return extreme_eigenvalues(
                self.operator,
                k,
                ends=ends,
                tolerance=tolerance,
                max_products=max_products,
                check_copies=check_copies,
                generator=_generator(seed),
            )

    def density(
        self, *, probes: int = 8, steps: int = 40, outlier_steps: int = 80, seed: int = 0
    ) -> SpectralDensity:
        """Where the eigenvalues lie, with errors across probes; see `linalg.spectral_density`.

        The same products give the outermost eigenvalues (`atoms`) and the `trace`. A density asked
        for again is not made again, so condition number and index share one.
        """

        check_count("probes", probes, minimum=2, most=MOST_PROBES)
        check_count("steps", steps, minimum=1)
        check_count("outlier_steps", outlier_steps)
        seed = check_seed(seed)

        def made() -> SpectralDensity:
            # a basis takes steps × d numbers for each probe
            one = steps * self.shape[0] * torch.finfo(self.dtype).bits // 8
            room = available_bytes(self.device) // (4 * max(1, one))
            return spectral_density(
                self.operator,
                probes=probes,
                steps=steps,
                outlier_steps=outlier_steps,
                at_once=max(1, min(probes, room)),
                generator=_generator(seed),
            )

        with self._working("spectral density"):
            return self._once(("density", probes, steps, outlier_steps, seed), made)

    def trace(
        self, *, exact: bool | None = None, probes: int = 32, sketch: int = 8, seed: int = 0
    ) -> TraceEstimate:
        """The sum of the eigenvalues, exact for small matrices, otherwise with its standard error.

        Args:
            exact: sum the diagonal; None does so up to 2048 parameters.
            probes: random vectors of the estimate, see `linalg.trace_estimate`.
            sketch: columns of its sketch.
            seed: of its random vectors.
        """
        check_count("probes", probes, minimum=2, most=MOST_PROBES)
        check_count("sketch", sketch)
        with self._working("trace"):
            if self._is_exact(exact):
                value = self._once(("trace",), lambda: float(self.dense().double().trace()))
                return TraceEstimate(
                    value=value, standard_error=0.0, num_probes=0, products=self.shape[0]
                )
            return trace_estimate(
                self.operator,
                probes=probes,
                sketch=sketch,
                generator=_generator(seed),
            )

    def dense(self) -> Float[Tensor, " d d"]:
        """The whole matrix.

        Raises:
            UsageError: it would not fit; the message says what it needs.
        """
        with self._working("dense matrix"):
            return dense_by_parameter(
                self.operator,
                range(len(self.operator.parameters)),
                at_once=self.operator.plan.at_once,
            )

    def eigenvalues(self) -> Float[Tensor, " d"]:
        """All eigenvalues in ascending order, from the dense matrix in float64."""
        with self.operator.session():
            outcome = self._once(
                ("eigenvalues",), lambda: torch.linalg.eigvalsh(self.dense().double())
            )
        result: Tensor = outcome.clone()
        return result

    def condition_number(
        self,
        *,
        definition: Definition = "percentile",
        percentile: float = 0.1,
        tolerance: float | None = None,
        exact: bool | None = None,
        resolution: float = 2.0,
        density: SpectralDensity | None = None,
    ) -> ConditionNumber:
        """|λ|max over a reference |λ|, exact for small matrices, otherwise bounded or refused.

        Args:
            definition: `percentile`: the 10th percentile of |λ|, the lower value without
                interpolation (shortcut_length, appendix B); `smallest`: |λ|min; `tolerance`: the
                smallest |λ| above the tolerance.
            percentile: which quantile.
            tolerance: relative to |λ|max, what lies below counts as zero; None for √d rounding units.
            exact: form the matrix; None does so up to 2048 parameters.
            resolution: refuse an estimate whose bounds are farther apart than this factor.
            density: use this one instead of making a new one.

        Raises:
            Unresolved: with the reason and the bounds that are known.
        """
        fraction = rounding(self.shape[0], self.dtype) if tolerance is None else tolerance
        check_definition(definition, percentile, fraction)
        if self._is_exact(exact):
            return exact_condition_number(
                self.eigenvalues(), definition=definition, percentile=percentile, tolerance=fraction
            )
        return estimated_condition_number(
            density or self.density(),
            definition=definition,
            percentile=percentile,
            tolerance=fraction,
            resolution=resolution,
        )

    def negative_index(
        self,
        *,
        tolerance: float | None = None,
        exact: bool | None = None,
        resolution: float = 0.05,
        density: SpectralDensity | None = None,
    ) -> NegativeIndex:
        """The fraction of negative eigenvalues, exact for small matrices, otherwise bounded or refused.

        Args:
            tolerance: relative to |λ|max; only λ below minus this counts. None for √d rounding units.
            exact: form the matrix; None does so up to 2048 parameters.
            resolution: refuse an estimate whose bounds are farther apart.
            density: use this one instead of making a new one.

        Raises:
            Unresolved: with the reason and the bounds that are known.
        """
        fraction = rounding(self.shape[0], self.dtype) if tolerance is None else tolerance
        check_tolerance(fraction)
        if self._is_exact(exact):
            return exact_negative_index(self.eigenvalues(), tolerance=fraction)
        return estimated_negative_index(
            density or self.density(), tolerance=fraction, resolution=resolution
        )

    def by_block(
        self, *, blocks: Iterable[str] | Blocks | None = None, seed: int = 0
    ) -> Measurement:
        """λmax, λmin, trace, condition number and index of every block's diagonal block.

        Blocks are named, given by globs, or found; see `curvature_by_block`.
        """
        objective = self.operator.objective
        # found before the session: inside it the graph holds the buffers that a pass would rewrite
        result = blocks_of(objective.model, objective.batches.example, blocks=blocks)
        with self._working("curvature by block"):
            return curvature_by_block(self.operator, result, settings=self._settings(), seed=seed)

    def free(self) -> None:
        """Let go of a kept graph's memory; the next question makes it again."""
        self.operator.free()

    def _is_exact(self, exact: bool | None) -> bool:
        return self.shape[0] <= EXACT_UP_TO if exact is None else check_flag("exact", exact)

    def _once(self, question: tuple[object, ...], answer: Callable[[], T]) -> T:
        """Within a session: the answer to a question, made once for model and data as they stand."""
        if self._generation != self.operator.generation:
            self._known.clear()
            self._generation = self.operator.generation
        if question not in self._known:
            self._known[question] = answer()
        result: T = self._known[question]
        return result

    def _settings(self) -> JsonMapping:
        objective = self.operator.objective
        return {
            "matrix": self.kind,
            "batchnorm": objective.batchnorm if objective.normalizes else None,
            "num_samples": objective.batches.num_samples,
            "num_batches": objective.batches.num_batches,
            "plan": asdict(self.operator.plan),
        }

    @contextmanager
    def _working(self, title: str) -> Iterator[None]:
        with autocast_nowhere(), self.operator.session():
            if not self.progress:
                yield
                return
            with count_products(title) as self.operator.on_product:
                try:
                    yield
                finally:
                    self.operator.on_product = lambda _: None
