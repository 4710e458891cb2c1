"""What the tests of the studies' checks share."""

from bathyscope.studies import all_studies


def quick(name):
    return all_studies()[name].presets["quick"]


def met(checks):
    """Of those that are judged."""
    return [check.met for check in checks if check.met is not None]
