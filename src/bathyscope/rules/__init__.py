"""What can be wrong: one object per rule, found in `families/`, read by all commands."""

from typing import TYPE_CHECKING

from bathyscope._lazy import lazy

if TYPE_CHECKING:
    from bathyscope.rules.evidence import Evidence as Evidence
    from bathyscope.rules.registry import all_rules as all_rules
    from bathyscope.rules.registry import all_thresholds as all_thresholds
    from bathyscope.rules.registry import rule_of as rule_of
    from bathyscope.rules.rule import CausalStage as CausalStage
    from bathyscope.rules.rule import Rule as Rule
    from bathyscope.rules.rule import Transition as Transition
    from bathyscope.rules.thresholds import Threshold as Threshold
    from bathyscope.rules.thresholds import Thresholds as Thresholds

# lazy, because a rule's file imports this package before the registry can have read it
__getattr__, __dir__, __all__ = lazy(
    __name__,
    names={
        "CausalStage": "rule",
        "Evidence": "evidence",
        "Rule": "rule",
        "Threshold": "thresholds",
        "Thresholds": "thresholds",
        "Transition": "rule",
        "all_rules": "registry",
        "all_thresholds": "registry",
        "rule_of": "registry",
    },
)
