"""The stream of a transformer: its tokens, its growth, its embedding, its output, its first steps."""

import math
from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds

_FEWEST_POST_NORM = 6  # blocks: below, post-norm trains without a warm-up (Xiong et al. 2020)
_SMALL_BRANCH = 0.02  # root mean square: below, a branch starts small by design, as LayerScale's
_LEAP = 10.0  # times the stream: a branch that makes it another one


def token_collapse(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks after which the tokens of a sequence are alike, first to last."""
    spread = evidence.column("attention", "token_spread")
    likeness = evidence.column("attention", "token_likeness")
    out = [i for i, s in enumerate(spread) if s is not None and s < thresholds["token_spread"]]
    if out:
        yield finding(
            "token-collapse",
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(spread[out[0]] or 0.0, 1e-40)),
            token_spread=spread[out[0]],
            token_likeness=likeness[out[0]],
            num_blocks=len(out),
        )


def stream_outgrows_branches(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The block that made the stream large, then those whose branches are lost beside it."""
    sizes = _branch_sizes(evidence)
    rms = evidence.column("attention", "branch_rms")
    growth = evidence.column("attention", "stream_growth")
    out = [
        i
        for i, size in enumerate(sizes)
        if size is not None and size < thresholds["branch_share"] and (rms[i] or 0) > _SMALL_BRANCH
    ]
    if out:
        before = [i for i in range(out[0]) if (sizes[i] or 0.0) > _LEAP]
        yield finding(
            "stream-outgrows-branches",
            Severity.PROBLEM,
            evidence.labels([*before[-1:], *out]),
            score=decades(sizes[out[0]] or 1e-40),
            branch_share=sizes[out[0]],
            stream_growth=growth[out[0]],
            num_blocks=len(out),
        )


def post_norm_imbalance(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Post-norm blocks whose first steps add up to a change of the whole output."""
    is_post = evidence.column("attention", "post_norm")
    ratios = evidence.column("updates", "ratio")
    out = [i for i, post in enumerate(is_post) if post]
    if len(out) < _FEWEST_POST_NORM:
        return
    amplified = sum(2 * (ratios[i] or 0.0) for i in out)  # attention and feed-forward
    if amplified <= thresholds["amplified_update_warning"]:
        return
    grave = amplified > thresholds["amplified_update"]
    yield finding(
        "post-norm-imbalance",
        Severity.PROBLEM if grave else Severity.WARNING,
        evidence.labels(out),
        score=decades(amplified / thresholds["amplified_update"]),
        amplified_update=amplified,
        update_ratio=max(ratios[i] or 0.0 for i in out),
        num_blocks=len(out),
    )


def embedding_scale(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A table so large that the logits tied to it, or the stream behind it, are."""
    settings = _settings(evidence)
    rms, std = (_number(settings.get(n)) for n in ("table_rms", "output_std"))
    name = settings.get("table")
    if not isinstance(name, str) or rms is None:
        return
    first = next((s for s in _branch_sizes(evidence) if s is not None), None)
    posts = evidence.column("attention", "post_norm")
    tied = settings.get("is_tied") and (std or 0.0) > thresholds["tied_output_std"]
    drowns = first is not None and first < 0.05 and rms > 1.0 and not any(posts)
    if tied or drowns:
        yield finding(
            "embedding-scale",
            Severity.PROBLEM,
            [name],
            score=decades(rms / 0.02),
            table_rms=rms,
            output_std=std,
            first_branch_share=first,
        )


def output_logit_drift(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Logits with a large common offset, or that differ by far more than a first guess may."""
    settings = _settings(evidence)
    log_z, std, classes = (_number(settings.get(n)) for n in ("log_z", "output_std", "num_classes"))
    if log_z is None or std is None or not classes:
        return
    offset = abs(log_z - math.log(classes))
    if offset > thresholds["log_z"] or std > thresholds["output_std"]:
        head = settings.get("head")
        yield finding(
            "output-logit-drift",
            Severity.PROBLEM,
            [head] if isinstance(head, str) else [],
            score=decades(max(offset, std)),
            log_z=log_z,
            output_std=std,
        )


def positions_unused(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """An output that does not change when tokens change places."""
    effect = _number(_settings(evidence).get("position_effect"))
    sizes = [size for size in _branch_sizes(evidence) if size is not None]
    if sizes and max(sizes) < thresholds["branch_share"]:
        return  # branches that start next to zero mix no tokens yet, wherever they stand
    if effect is not None and effect < thresholds["position_effect"]:
        table = _settings(evidence).get("position_table")
        yield finding(
            "positions-unused",
            Severity.WARNING,
            [table] if isinstance(table, str) else [],
            score=1.0,
            position_effect=effect,
        )


def _branch_sizes(evidence: Evidence) -> list[float | None]:
    """The larger branch of each block against its stream."""
    pairs = zip(
        evidence.column("attention", "attention_size"),
        evidence.column("attention", "mlp_size"),
        strict=True,
    )
    return [max((s for s in pair if s is not None), default=None) for pair in pairs]


def _settings(evidence: Evidence) -> dict[str, object]:
    found = evidence.measurements.get("attention")
    return dict(found.settings) if found is not None else {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
