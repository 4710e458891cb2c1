"""Lower bounds, assumptions and guarantees of the nonlinear estimators, computed for given data."""

from bathyscope.certificates.basis import NestedBasis, nested_basis
from bathyscope.certificates.certificate import Certificate, Predictability
from bathyscope.certificates.certify import certify
from bathyscope.certificates.linear import LinearPrediction
from bathyscope.certificates.losses import convex_loss
from bathyscope.certificates.prediction import best_prediction_weights
from bathyscope.certificates.predictor import (
    EXISTENCE_RIDGE,
    Predictor,
    best_predictor,
    needed_ridge,
)
from bathyscope.certificates.saddle import CriticalPoint, critical_point
from bathyscope.certificates.width import Width, mixing_matrix

__all__ = [
    "EXISTENCE_RIDGE",
    "Certificate",
    "CriticalPoint",
    "LinearPrediction",
    "NestedBasis",
    "Predictability",
    "Predictor",
    "Width",
    "best_prediction_weights",
    "best_predictor",
    "certify",
    "convex_loss",
    "critical_point",
    "mixing_matrix",
    "needed_ridge",
    "nested_basis",
]
