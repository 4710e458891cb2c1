"""Inputs that are blank, were never scaled, never change or repeat."""

from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds

# Samples from which on their likeness says something; columns up to which a table is no picture.
_FEWEST, _MOST_COLUMNS = 8, 32


def blank_input(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A batch of zeros."""
    told = evidence.about("inputs")
    if told.holds("zero"):
        yield finding(
            "blank-input", Severity.PROBLEM, (), score=40.0, samples=told.number("samples")
        )


def unscaled_input(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Values far from unit size, or columns of very different size; a norm at the entrance heals both."""
    told = evidence.about("inputs")
    largest, spread = told.number("largest"), told.number("column_range")
    if largest is None or spread is None or _normalises_first(evidence):
        return
    limit = thresholds["input_size"]
    uneven = spread > thresholds["column_range"] and largest > limit / 3
    if largest > limit or uneven:
        yield finding(
            "unscaled-input",
            Severity.WARNING,
            evidence.labels([0]),
            score=decades(largest),
            largest=largest,
            deviation=told.number("deviation"),
            column_range=spread,
            wide_column=told.number("wide_column"),
            narrow_column=told.number("narrow_column"),
        )


def constant_columns(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Columns of a table with one value for the whole batch."""
    told = evidence.about("inputs")
    number, columns = told.number("constant_columns"), told.number("columns")
    if number and columns and _is_telling_table(evidence):
        yield finding(
            "constant-columns", Severity.NOTE, (), score=number / columns,
            constant_columns=number, columns=columns,
        )  # fmt: skip


def repeated_columns(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Columns of a table that equal another one in every sample; many such are worth a look."""
    told = evidence.about("inputs")
    number, columns = told.number("repeated_columns"), told.number("columns")
    if number and columns and _is_telling_table(evidence):
        many = number / columns > thresholds["repeated_columns"]
        yield finding(
            "repeated-columns", Severity.WARNING if many else Severity.NOTE, (),
            score=number / columns, repeated_columns=number, columns=columns,
        )  # fmt: skip


def repeated_samples(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A batch most of which is copies."""
    told = evidence.about("inputs")
    share = told.number("repeated_samples") or 0.0
    small = (told.number("samples") or 0) < _FEWEST
    if share > thresholds["repeated_samples"] and not evidence.samples_equal and not small:
        yield finding("repeated-samples", Severity.NOTE, (), score=share, repeated_share=share)


def _is_telling_table(evidence: Evidence) -> bool:
    """Whether the inputs are a table of few columns and enough samples that differ.

    Wider ones are mostly flattened pictures, whose edges never change and are alike.
    """
    told = evidence.about("inputs")
    enough = (told.number("samples") or 0) >= _FEWEST and not evidence.samples_equal
    return enough and told.holds("table") and (told.number("columns") or 0) <= _MOST_COLUMNS


def _normalises_first(evidence: Evidence) -> bool:
    """Whether a norm stands at the entrance of the first block: it takes any scale."""
    return "Norm" in evidence.blocks[0].kind if evidence.blocks else False
