"""Residual networks as nonlinear estimators that are provably no worse than the best linear one."""
