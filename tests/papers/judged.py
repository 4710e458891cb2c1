"""What the tests of the studies' checks share."""

from bathyscope.studies import all_studies


def quick(name):
    return all_studies()[name].presets["quick"]


def passed(checks):
    """Of those that are judged."""
    return [check.passed for check in checks if check.passed is not None]
