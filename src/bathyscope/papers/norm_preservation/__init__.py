"""Norms of gradients on their way through residual blocks, and layers that preserve them."""
