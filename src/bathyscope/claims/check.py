"""Testing a claim: measure, see which assumptions hold, and judge by its law."""

from collections.abc import Mapping, Sequence

from torch import nn

from bathyscope.claims.claim import Claim, Law, Measured
from bathyscope.claims.registry import claim_of
from bathyscope.claims.relation import Relation
from bathyscope.claims.sharing import measured
from bathyscope.core.arguments import check_seed
from bathyscope.core.errors import UsageError
from bathyscope.core.global_state import preserve_random_state, seed_generators
from bathyscope.core.records import ClaimCheck, Verdict


def check(
    claim: str,
    *,
    seed: int = 0,
    model: nn.Module | None = None,
    data: object = None,
    settings: Mapping[str, object] | None = None,
    law: Law | None = None,
) -> ClaimCheck:
    """Test one claim of the papers and return the verdict with its numbers.

    The verdict is `inapplicable` where an assumption fails, `holds` where the numbers obey the
    statement as printed, `holds under` where they do so with one more assumption, which is named,
    and else `violated`, with the statement that is true instead where one is known and was found
    to hold on the same numbers. Of a statement on training in general small experiments can say
    no more than `not supported here`. One that holds and says nothing is flagged vacuous, one that
    cannot fail (an identity of the implementation, a fact of textbooks) as a definition.

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
        UsageError: the claim asserts nothing measurable, or does not take what was given.

    Examples:
        >>> found = check("norm_preservation.lemma_1")
        >>> found.verdict.value
        'holds'
    """
    entry = claim_of(claim)
    seed = check_seed(seed)
    if entry.measure is None:
        raise UsageError(f"{entry.name}: {entry.status}. {entry.tested}")
    given = {"model": model, "data": data}
    wanted = {key: value for key, value in given.items() if value is not None} | dict(
        settings or {}
    )
    for key in wanted:
        if key not in entry.takes:
            takes = ", ".join(entry.takes) or "nothing but a seed"
            raise UsageError(f"{claim} does not take {key!r}; it takes {takes}.")
    # Weights that torch's own layers draw must follow the seed, and leave the caller's stream alone.
    with preserve_random_state():
        seed_generators(seed)
        result = measured(entry.measure, seed, **wanted)
    return judge(entry, result, law=law, seed=seed)


def judge(claim: Claim, measured: Measured, *, law: Law | None = None, seed: int = 0) -> ClaimCheck:
    """The verdict on a claim from what was measured for it.

    Args:
        claim: whose laws the numbers are held against.
        measured: assumptions and numbers.
        law: in place of the paper's; the others are then left out.
        seed: reported in the record.

    Raises:
        UsageError: the law that was given compares nothing.
    """
    printed = _relations(law or claim.law, measured)
    if law is not None and not printed:
        raise UsageError(f"The law given for {claim.name} compares nothing; return a relation.")
    assert printed or not measured.numbers, f"{claim.name}: a law compares something"
    others = (claim.law_under, claim.law_strict, claim.law_corrected, claim.vacuous)
    extended, strict, corrected, vacuous = (
        _relations(other if law is None else None, measured) for other in others
    )
    verdict = _verdict(claim, measured, printed, extended)
    relations = {
        "printed": printed,
        "under": extended,
        "strict": strict,
        "corrected": corrected,
        "vacuous": vacuous,
    }
    against = verdict in (Verdict.VIOLATED, Verdict.NOT_SUPPORTED)
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
        statement=claim.statement,
        extra_assumption=claim.under if verdict is Verdict.HOLDS_UNDER else None,
        corrected=claim.corrected if against and _all_hold(corrected) else None,
        vacuous=verdict is Verdict.HOLDS and _all_hold(vacuous),
        definition=claim.definition if verdict is Verdict.HOLDS and law is None else "",
        settings={"seed": seed, **measured.settings},
    )


def _relations(law: Law | None, measured: Measured) -> tuple[Relation, ...]:
    """What the law compares; nothing where a failed assumption left nothing to measure."""
    return () if law is None or not measured.numbers else tuple(law(measured.numbers))


def _all_hold(relations: Sequence[Relation]) -> bool:
    return bool(relations) and all(relation.holds for relation in relations)


def _verdict(
    claim: Claim, measured: Measured, printed: Sequence[Relation], extended: Sequence[Relation]
) -> Verdict:
    if not all(assumption.holds for assumption in measured.assumptions):
        return Verdict.INAPPLICABLE
    if _all_hold(printed):
        return Verdict.HOLDS
    if _all_hold(extended):
        return Verdict.HOLDS_UNDER
    return Verdict.NOT_SUPPORTED if claim.empirical else Verdict.VIOLATED
