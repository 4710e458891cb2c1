"""Tests of a network: a fixture and a mark for pytest."""
