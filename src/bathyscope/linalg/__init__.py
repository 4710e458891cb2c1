"""Linear algebra: conditioning and ranks, HOSVD, spectra of convolutions, Lanczos."""

from bathyscope.linalg.conditioning import (
    Conditioning,
    conditioning_of,
    conditioning_of_many,
    rounding_cutoff,
)
from bathyscope.linalg.conv_spectrum import ConvSpectrum, conv_singular_values
from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.density import Interval, SpectralDensity, spectral_density
from bathyscope.linalg.extremes import Eigenpairs, Ends, ExtremeEigenvalues, extreme_eigenvalues
from bathyscope.linalg.gram import gram_matrix
from bathyscope.linalg.hosvd import aggregate, hosvd_of
from bathyscope.linalg.kernel_projection import alternating_projection, exact_projection
from bathyscope.linalg.kernel_step import newton_schulz_step
from bathyscope.linalg.lanczos import KrylovBasis, SymmetricOperator
from bathyscope.linalg.norms import frobenius_norm
from bathyscope.linalg.polar import newton_schulz, polar_factor
from bathyscope.linalg.random_matrix import (
    Extremes,
    expected_extremes,
    expected_log10_condition,
    extreme_bounds,
    fuss_catalan_moment,
    fuss_catalan_quantiles,
    lyapunov_exponents,
)
from bathyscope.linalg.scaling import rescale
from bathyscope.linalg.taps import polyphase
from bathyscope.linalg.trace import TraceEstimate, trace_estimate

__all__ = [
    "Conditioning",
    "ConvSpectrum",
    "Eigenpairs",
    "Ends",
    "ExtremeEigenvalues",
    "Extremes",
    "Interval",
    "KrylovBasis",
    "SpectralDensity",
    "SymmetricOperator",
    "TraceEstimate",
    "aggregate",
    "alternating_projection",
    "conditioning_of",
    "conditioning_of_many",
    "conv_singular_values",
    "convolution_of",
    "exact_projection",
    "expected_extremes",
    "expected_log10_condition",
    "extreme_bounds",
    "extreme_eigenvalues",
    "frobenius_norm",
    "fuss_catalan_moment",
    "fuss_catalan_quantiles",
    "gram_matrix",
    "hosvd_of",
    "lyapunov_exponents",
    "newton_schulz",
    "newton_schulz_step",
    "polar_factor",
    "polyphase",
    "rescale",
    "rounding_cutoff",
    "spectral_density",
    "trace_estimate",
]
