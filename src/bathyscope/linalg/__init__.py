"""Linear algebra: conditioning and ranks, HOSVD, spectra of convolutions, Lanczos."""

from bathyscope.linalg.conditioning import Conditioning, conditioning_of, rounding_cutoff
from bathyscope.linalg.conv_spectrum import ConvSpectrum, conv_singular_values
from bathyscope.linalg.gram import gram_matrix
from bathyscope.linalg.hosvd import aggregate, hosvd_of
from bathyscope.linalg.norms import frobenius_norm
from bathyscope.linalg.random_matrix import (
    Extremes,
    expected_extremes,
    expected_log10_condition,
    extreme_bounds,
    fuss_catalan_moment,
    fuss_catalan_quantiles,
    lyapunov_exponents,
)
from bathyscope.linalg.scaling import rescaled

__all__ = [
    "Conditioning",
    "ConvSpectrum",
    "Extremes",
    "aggregate",
    "conditioning_of",
    "conv_singular_values",
    "expected_extremes",
    "expected_log10_condition",
    "extreme_bounds",
    "frobenius_norm",
    "fuss_catalan_moment",
    "fuss_catalan_quantiles",
    "gram_matrix",
    "hosvd_of",
    "lyapunov_exponents",
    "rescaled",
    "rounding_cutoff",
]
