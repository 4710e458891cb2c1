"""Every numbered statement of the papers that are installed, by name."""

from bathyscope.claims.claim import Claim
from bathyscope.core.arguments import check_name
from bathyscope.core.errors import UnknownName
from bathyscope.plugins.papers import find, names_of, papers, part


def all_claims() -> dict[str, Claim]:
    """The claims of all papers by name, paper by paper and in each paper's order."""
    return {name: claim for theme in papers() for name, claim in claims_of(theme).items()}


def claims_of(theme: str) -> dict[str, Claim]:
    """The claims of one paper by name, in its order; none where there is no such paper."""
    return dict(part(theme, "claims"))


def themes() -> list[str]:
    """The theme words of the papers that have claims."""
    return [theme for theme in papers() if names_of(theme, "claims")]


def claim_of(name: str) -> Claim:
    """The claim of that name; its file alone is loaded.

    Raises:
        UnknownName: there is none; the nearest are named.

    Examples:
        >>> claim_of("nests.theorem_1").number
        'theorem 1'
    """
    claim: Claim | None = find(check_name("The name of the claim", name), "claims")
    if claim is None:
        hint = "`bathyscope check list` names them all."
        known = [name for theme in papers() for name in names_of(theme, "claims")]
        raise UnknownName("claim", name, [*known, *themes()], hint=hint)
    return claim
