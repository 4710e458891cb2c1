"""Attention that chose too hard, not at all, or among nothing; and heads that do nothing."""

from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds

_SATURATED_STD = 2.5  # scores of unit deviation are the aim of 1/√d


def masked_row(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with queries that see no key; a problem where something is not finite already."""
    shares = evidence.column("attention", "masked_rows")
    lost = evidence.column("activations", "not_finite")
    out = [i for i, share in enumerate(shares) if share]
    if out:
        is_lost = any(lost[i] for i in out)
        yield finding(
            "masked-row",
            Severity.PROBLEM if is_lost else Severity.WARNING,
            evidence.labels(out),
            score=1.0,
            masked_rows=shares[out[0]],
            num_blocks=len(out),
        )


def missing_attention_scale(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks whose scores are not divided by √d, and are large."""
    scales = evidence.column("attention", "scale")
    stds = evidence.column("attention", "logit_std")
    out = [
        i
        for i, (scale, std) in enumerate(zip(scales, stds, strict=True))
        if (scale or 0.0) >= thresholds["missing_scale"] and (std or 0.0) >= _SATURATED_STD
    ]
    if out:
        out.sort(key=lambda i: -(stds[i] or 0.0))
        yield finding(
            "missing-attention-scale",
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(scales[out[0]] or 1.0),
            scale_times_root_d=scales[out[0]],
            logit_std=stds[out[0]],
            num_blocks=len(out),
        )


def entropy_collapse(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks nearly all of whose rows are one-hot."""
    rows = evidence.column("attention", "one_hot_rows")
    entropy = evidence.column("attention", "entropy")
    out = [i for i, share in enumerate(rows) if (share or 0.0) >= thresholds["one_hot_rows"]]
    if out:
        out.sort(key=lambda i: entropy[i] or 0.0)
        yield finding(
            "entropy-collapse",
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(entropy[out[0]] or 0.0, 1e-40)),
            entropy=entropy[out[0]],
            one_hot_rows=rows[out[0]],
            num_blocks=len(out),
        )


def attention_logit_growth(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with large attention logits, the worst first."""
    logits = evidence.column("attention", "largest_logit")
    grave, mild = thresholds["attention_logit"], thresholds["attention_logit_warning"]
    for severity, low, high in (
        (Severity.PROBLEM, grave, float("inf")),
        (Severity.WARNING, mild, grave),
    ):
        out = [i for i, logit in enumerate(logits) if logit is not None and low < logit <= high]
        if out:
            out.sort(key=lambda i: -(logits[i] or 0.0))
            yield finding(
                "attention-logit-growth",
                severity,
                evidence.labels(out),
                score=decades(logits[out[0]] or 1.0),
                largest_logit=logits[out[0]],
                num_blocks=len(out),
            )


def uniform_attention(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks whose scores are all alike, while next to no gradient reaches queries and keys."""
    stds = evidence.column("attention", "logit_std")
    back = evidence.column("attention", "choice_gradient")
    out = [
        i
        for i, std in enumerate(stds)
        if std is not None
        and std < thresholds["uniform_logit_std"]
        and (back[i] or 0.0) < thresholds["choice_gradient"]
    ]
    if out:
        yield finding(
            "uniform-attention",
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(stds[out[0]] or 0.0, 1e-40)),
            logit_std=stds[out[0]],
            choice_gradient=back[out[0]],
            num_blocks=len(out),
        )


def dead_heads(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with heads that give out or receive nothing, those with most of them first."""
    shares = evidence.column("attention", "dead_heads")
    names = evidence.words("attention", "dead")
    out = [i for i, share in enumerate(shares) if share]
    if out:
        out.sort(key=lambda i: -(shares[i] or 0.0))
        grave = (shares[out[0]] or 0.0) >= thresholds["dead_heads"]
        yield finding(
            "dead-heads",
            Severity.PROBLEM if grave else Severity.WARNING,
            evidence.labels(out),
            score=shares[out[0]] or 0.0,
            dead_share=shares[out[0]],
            heads=names[out[0]],
            num_blocks=len(out),
        )
