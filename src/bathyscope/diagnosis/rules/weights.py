"""Weights that stand out by their size or have lost their rank."""

from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, decades, finding, typical
from bathyscope.diagnosis.thresholds import Thresholds


def exploding_weights(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Spectral norms far above the typical one of the network, the largest first.

    Against an absolute scale too: a network whose every layer exploded has no typical layer left.
    """
    norms = evidence.column("weights", "spectral_norm")
    usual = typical(norms)
    if not usual:
        return
    limit = thresholds["weight_outlier"]
    reference = min(usual, limit)  # no healthy layer has a gain of a thousand
    out = [i for i, norm in enumerate(norms) if norm is not None and norm > limit * reference]
    if out:
        out.sort(key=lambda i: -(norms[i] or 0.0))
        largest = norms[out[0]] or 0.0
        yield finding(
            "exploding-weights",
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(largest / reference),
            spectral_norm=largest,
            typical_spectral_norm=usual,
            num_blocks=len(out),
        )


def ill_conditioned_weights(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Layers whose numerical rank is a small share of the full one, the smallest first.

    Layers that are zero throughout are left to the rules on branches.
    """
    shares = evidence.column("weights", "rank_share")
    layers = evidence.words("weights", "worst_layer")
    out = [i for i, s in enumerate(shares) if s is not None and s <= thresholds["weight_rank"]]
    if out:
        out.sort(key=lambda i: shares[i] or 0.0)
        yield finding(
            "ill-conditioned-weights",
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(shares[out[0]] or 0.0, 1e-6)),
            rank_share=shares[out[0]],
            layer=layers[out[0]],
            num_blocks=len(out),
        )


def zero_weights(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with a layer of zeros that let nothing of the samples through.

    The last layer of a network may start so, and where all blocks do it is a flat start.
    """
    zeros = evidence.column("weights", "zero_layers")
    ranks = evidence.column("representations", "rank_samples")
    out = [i for i, z in enumerate(zeros[:-1]) if z and (ranks[i] or 0.0) <= 1]
    if out and not all(zeros):
        yield finding(
            "zero-weights",
            Severity.PROBLEM,
            evidence.labels(out),
            score=40.0,
            zero_layers=zeros[out[0]],
            num_blocks=len(out),
        )
