"""The states of one network that are shown under each other, in the order of time."""

from bathyscope.report.record import Report


def moments(report: Report) -> list[tuple[str, Report]]:
    """Label and report of each state: the stages, or before and after, or the report alone.

    Examples:
        >>> from bathyscope.report import Judgement
        >>> clean = Judgement(level="clean", sentence="Nothing found.")
        >>> early = Report(title="mlp", verdict=clean, blocks=())
        >>> [label for label, _ in moments(Report(title="mlp", verdict=clean, blocks=(), before=early))]
        ['before', 'after']
    """
    if report.stages:
        return list(report.stages)
    if report.before is not None:
        return [("before", report.before), ("after", report)]
    return [("", report)]
