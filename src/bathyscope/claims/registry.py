"""Every numbered statement of the papers that are installed, by name."""

import functools

from bathyscope.claims.claim import Claim
from bathyscope.core.arguments import check_name
from bathyscope.core.errors import UnknownName
from bathyscope.core.papers import papers, part


@functools.cache
def all_claims() -> dict[str, Claim]:
    """The claims of all papers by name, paper by paper and in each paper's order."""
    return {claim.name: claim for theme in papers() for claim in part(theme, "claims")}


def themes() -> list[str]:
    """The theme words of the papers that have claims."""
    return list(dict.fromkeys(claim.theme for claim in all_claims().values()))


def claim_of(name: str) -> Claim:
    """The claim of that name.

    Raises:
        UnknownName: there is none; the nearest are named.

    Examples:
        >>> claim_of("nests.theorem_1").number
        'theorem 1'
    """
    known = all_claims()
    if check_name("The name of the claim", name) not in known:
        hint = "`bathyscope check list` names them all."
        raise UnknownName("claim", name, [*known, *themes()], hint=hint)
    return known[name]
