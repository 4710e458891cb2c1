"""Studies of the theme singularity: networks with and without skips."""
