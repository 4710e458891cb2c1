"""Odd models, bad arguments, command lines and damaged files, with judges of what comes of them."""
