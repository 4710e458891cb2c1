"""All rules, causes before their effects: every `Rule` in a file of `families/`, and those of others.

Another package brings rules by an entry point of the group `bathyscope.rules` that names a module.
"""

import importlib
import pkgutil
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType

from bathyscope.core.errors import UnknownName
from bathyscope.rules import families
from bathyscope.rules.rule import Rule, Threshold

GROUP = "bathyscope.rules"


@cache
def all_rules() -> Mapping[str, Rule]:
    """The rules by their codes, in the order of their stages.

    Examples:
        >>> all_rules()["dead-units"].cause
        'activation'
    """
    known: dict[str, Rule] = {}
    for module in _modules():
        for rule in vars(module).values():
            if isinstance(rule, Rule) and known.setdefault(rule.code, rule) is not rule:
                warnings.warn(
                    f"{module.__name__} has a second rule of the code {rule.code!r}, which is left out.",
                    stacklevel=2,
                )
    return dict(sorted(known.items(), key=lambda item: item[1].stage))


@cache
def all_thresholds() -> Mapping[str, Threshold]:
    """The thresholds of all rules by their names; one that two rules share is the same object in both."""
    return {name: t for rule in all_rules().values() for name, t in rule.thresholds.items()}


def rule_of(code: str) -> Rule:
    """The rule of a code.

    Raises:
        UnknownName: there is no such code.

    Examples:
        >>> rule_of("dead-units").title
        'Dead units: the same value for every sample'
    """
    if code not in all_rules():
        raise UnknownName("finding", code, all_rules())
    return all_rules()[code]


def reload_rules() -> None:
    """Look for the rules again, as after a file was added to the families."""
    all_rules.cache_clear()
    all_thresholds.cache_clear()


def _modules() -> Iterator[ModuleType]:
    """The files of the folder by their names, then the modules of other packages."""
    for name in sorted(result.name for result in pkgutil.iter_modules(families.__path__)):
        yield importlib.import_module(f"{families.__name__}.{name}")
    for entry in entry_points(group=GROUP):
        try:
            yield importlib.import_module(entry.value)
        except Exception as error:  # whatever another package does wrong
            warnings.warn(
                f"The rules of {entry.name} ({entry.value}) are left out: {error}", stacklevel=2
            )
