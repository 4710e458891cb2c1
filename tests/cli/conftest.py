"""Fixtures of the tests of the command line."""

from tests.support.command_line import here

__all__ = ["here"]
