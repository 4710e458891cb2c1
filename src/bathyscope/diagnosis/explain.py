"""What a finding or event means, where that comes from, and what helps."""

from dataclasses import asdict, dataclass

from bathyscope.core.json_values import JsonObject
from bathyscope.rules.findings import describe_record
from bathyscope.rules.registry import rule_of
from bathyscope.rules.rule import Threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All there is to say about a code; printed, it is a page of text.

    Attributes:
        code, cause, title, explanation, source, advice: as in its rule.
        reads: columns and measurements from which it is found.
        thresholds: the numbers that decide, by name.
        effects: codes that it brings about, which a report folds under it.
        event: what `watch` says of it; None where it is not noticed while training.
        remedies: what `treat` tries for it, by name.
        track_record: what became of random networks that had it.
    """

    code: str
    cause: str
    title: str
    explanation: str
    source: str
    advice: str | None
    reads: tuple[str, ...]
    thresholds: dict[str, Threshold]
    effects: tuple[str, ...]
    event: str | None
    remedies: tuple[str, ...]
    track_record: str

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.title}", "", self.explanation, ""]
        lines += [f"Cause: {self.cause}", f"Source: {self.source}"]
        lines.append(f"What helps: {self.advice or 'none known'}")
        if self.event is not None:
            lines.append(f"While training: {self.event}.")
        if self.effects:
            lines.append(f"Brings about: {', '.join(self.effects)}")
        if self.remedies:
            lines.append(f"Tried by treat: {', '.join(self.remedies)}")
        lines += [
            f"Threshold {name} = {t.value:g}: {t.meaning} ({t.source})"
            for name, t in self.thresholds.items()
        ]
        return "\n".join([*lines, f"Track record: {self.track_record}"])

    def to_json(self) -> JsonObject:
        """The same in plain values."""
        return asdict(self)


def explain(code: str) -> Explanation:
    """What a finding or event of this code means, its source, and what helps.

    Raises:
        UnknownName: there is no such code.

    Examples:
        >>> explain("dead-units").cause
        'activation'
    """
    rule = rule_of(code)
    every = (*rule.effects, *rule.downstream, *rule.upstream)
    return Explanation(
        code=code,
        cause=rule.cause,
        title=rule.title,
        explanation=rule.explanation,
        source=rule.source,
        advice=rule.advice,
        reads=rule.reads,
        thresholds=dict(rule.thresholds),
        effects=tuple(dict.fromkeys(every)),
        event=None if rule.event is None else rule.event.title,
        remedies=rule.remedy_names,
        track_record=describe_record(code),
    )
