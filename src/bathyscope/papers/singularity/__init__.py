"""Plain, residual and aggregated networks: what becomes singular with depth, and what skips change."""
