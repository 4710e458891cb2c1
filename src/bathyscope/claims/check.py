"""Testing a claim: measure, see which assumptions hold, and judge by its law."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from bathyscope.claims.claim import Check, Claim, Law, Measured
from bathyscope.claims.registry import claim_of
from bathyscope.claims.relation import Relation
from bathyscope.core.errors import UsageError
from bathyscope.core.records import ClaimCheck, Verdict


def check(
    claim: str,
    *,
    seed: int = 0,
    model: nn.Module | None = None,
    data: Any = None,
    settings: Mapping[str, Any] | None = None,
    law: Law | None = None,
) -> ClaimCheck:
    """Test one claim of the papers and return the verdict with its numbers.

    The verdict is `inapplicable` where an assumption fails, `holds` where the numbers obey the
    statement as printed, `holds under` where they do so with one more assumption, which is named,
    and else `violated`, with the statement that is true instead where one is known and was found
    to hold on the same numbers.

    Args:
        claim: its name, such as "nests.theorem_1".
        seed: of weights and data; the same seed gives the same numbers.
        model: test it on this network, where the claim speaks of any network; it is not changed.
        data: test it on this pair (inputs, targets), where the claim speaks of any data.
        settings: sizes and choices of this claim's own, in place of its defaults.
        law: judge by this law instead of the paper's: a function from the numbers to relations.

    Returns:
        The record; `numbers["relations"]` holds what was compared.

    Raises:
        UnknownName: there is no such claim.
        UsageError: the claim is not coded yet, or does not take what was given.

    Examples:
        >>> found = check("norm_preservation.lemma_1")
        >>> found.verdict.value
        'holds'
    """
    entry = claim_of(claim)
    test = _coded(entry)
    given = {"model": model, "data": data}
    wanted = {key: value for key, value in given.items() if value is not None} | dict(
        settings or {}
    )
    for key in wanted:
        if key not in test.takes:
            takes = ", ".join(test.takes) or "nothing but a seed"
            raise UsageError(f"{claim} does not take {key!r}; it takes {takes}.")
    # Weights that torch's own layers draw must follow the seed, and leave the caller's stream alone.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        measured = test.measure(seed, **wanted)
    return _judged(entry, test, measured, law=law, seed=seed)


def _coded(claim: Claim) -> Check:
    if claim.check is None:
        reason = claim.statement.tested
        raise UsageError(f"{claim.name}: {claim.status}{'. ' + reason if reason else ''}")
    return claim.check


def _judged(
    claim: Claim, test: Check, measured: Measured, *, law: Law | None, seed: int
) -> ClaimCheck:
    printed = _laws(law or test.law, measured, skip=False)
    if law is not None and not printed:
        raise UsageError(f"The law given for {claim.name} compares nothing; return a relation.")
    assert printed or not measured.numbers, f"{claim.name}: a law compares something"
    extended = _laws(test.law_under, measured, skip=law is not None)
    corrected = _laws(test.law_corrected, measured, skip=law is not None)
    verdict = _verdict(measured, printed, extended)
    relations = {"printed": printed, "under": extended, "corrected": corrected}
    return ClaimCheck(
        claim=claim.name,
        verdict=verdict,
        assumptions=measured.assumptions,
        numbers={
            **measured.numbers,
            "relations": {
                key: [relation.as_dict() for relation in group]
                for key, group in relations.items()
                if group
            },
        },
        statement=claim.statement.statement,
        extra_assumption=test.under if verdict is Verdict.HOLDS_UNDER else None,
        corrected=test.corrected
        if verdict is Verdict.VIOLATED and corrected and all(r.holds for r in corrected)
        else None,
        settings={"seed": seed, **measured.settings},
    )


def _laws(law: Law | None, measured: Measured, *, skip: bool) -> tuple[Relation, ...]:
    """What the law compares; nothing where a failed assumption left nothing to measure."""
    return () if law is None or skip or not measured.numbers else tuple(law(measured.numbers))


def _verdict(
    measured: Measured, printed: Sequence[Relation], extended: Sequence[Relation]
) -> Verdict:
    if not all(assumption.holds for assumption in measured.assumptions):
        return Verdict.INAPPLICABLE
    if all(relation.holds for relation in printed):
        return Verdict.HOLDS
    if extended and all(relation.holds for relation in extended):
        return Verdict.HOLDS_UNDER
    return Verdict.VIOLATED
