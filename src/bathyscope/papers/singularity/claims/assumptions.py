"""The assumptions of the theme `singularity` that several statements share."""

LINEAR = "linear networks with randomly initialized weights"
