"""Shortcuts of length n: the Hessian at the zero point, its condition number and its index."""
