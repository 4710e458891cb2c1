"""Every numbered statement of the papers that are installed, by name."""

from bathyscope.claims.claim import Claim
from bathyscope.core.arguments import check_name
from bathyscope.core.errors import UnknownName
from bathyscope.plugins.papers import papers, part


def all_claims() -> dict[str, Claim]:
    """The claims of all papers by name, paper by paper and in each paper's order."""
    return {name: claim for theme in papers() for name, claim in claims_of(theme).items()}


def claims_of(theme: str) -> dict[str, Claim]:
    """The claims of one paper by name, in its order; none where there is no such paper."""
    return {claim.name: claim for claim in part(theme, "claims")} if theme in papers() else {}


def themes() -> list[str]:
    """The theme words of the papers that have claims."""
    return [theme for theme in papers() if claims_of(theme)]


def claim_of(name: str) -> Claim:
    """The claim of that name; its paper alone is loaded.

    Raises:
        UnknownName: there is none; the nearest are named.

    Examples:
        >>> claim_of("nests.theorem_1").number
        'theorem 1'
    """
    claim = claims_of(check_name("The name of the claim", name).partition(".")[0]).get(name)
    if claim is None:
        hint = "`bathyscope check list` names them all."
        raise UnknownName("claim", name, [*all_claims(), *themes()], hint=hint)
    return claim
