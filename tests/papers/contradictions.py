"""Claims and studies that speak of the same thing, and where they contradict each other."""

from collections.abc import Mapping, Sequence
from typing import Any

from bathyscope.claims.claim import Claim, Link
from bathyscope.core.records import Verdict
from bathyscope.studies.record import PRESETS

_FOR = (Verdict.HOLDS.value, Verdict.HOLDS_UNDER.value)
_AGAINST = (Verdict.VIOLATED.value, Verdict.NOT_SUPPORTED.value)

Published = Mapping[str, Any]
"""A result or a verdict as it was published."""


def contradictions(
    claims: Mapping[str, Claim],
    verdicts: Mapping[str, Published],
    results: Mapping[str, Mapping[str, Published]],
) -> list[str]:
    """Pairs that are linked, of which one speaks for its statement and the other against, without a word.

    Args:
        claims: by name; their links are followed.
        verdicts: of claims by name, as `published_claims` reads them.
        results: of studies by name and preset, as `read_published` reads them; the longest preset counts.

    Returns:
        A sentence for each pair that disagrees and whose link does not say why.
    """
    sentences = []
    for name, claim in claims.items():
        own = _verdict(verdicts.get(name))
        for link in claim.links:
            other = _outcome(link, verdicts, results)
            if own is not None and other is not None and own != other and not link.difference:
                sentences.append(
                    f"{name} speaks {_word(own)} its statement, {_named(link)} {_word(other)} it; "
                    "say why in the link's `difference`, or mend one of them."
                )
    return sentences


def _word(supports: bool) -> str:
    return "for" if supports else "against"


def _named(link: Link) -> str:
    return f"{link.to} ({link.check})" if link.check else link.to


def _outcome(
    link: Link,
    verdicts: Mapping[str, Published],
    results: Mapping[str, Mapping[str, Published]],
) -> bool | None:
    if link.to in verdicts:
        return _verdict(verdicts[link.to])
    shown = results.get(link.to, {})
    longest = max(shown, key=PRESETS.index, default=None)
    return None if longest is None else _checks(shown[longest]["checks"], link.check)


def _verdict(verdict: Published | None) -> bool | None:
    """Whether a verdict speaks for its statement; None where it does neither."""
    word = None if verdict is None else verdict["verdict"]
    return True if word in _FOR else False if word in _AGAINST else None


def _checks(checks: Sequence[Published], words: str) -> bool | None:
    """Whether all judged checks whose statement has these words passed; None where none is judged."""
    judged = [c["passed"] for c in checks if words in c["statement"] and c["passed"] is not None]
    return all(judged) if judged else None
