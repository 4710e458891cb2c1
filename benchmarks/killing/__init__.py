"""The works that `python -m benchmarks kill` kills, and what must be true of them afterwards."""
