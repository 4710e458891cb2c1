"""Studies of the theme norm_preservation: the norm of gradients through blocks."""
