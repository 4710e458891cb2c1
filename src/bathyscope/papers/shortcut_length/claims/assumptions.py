"""The assumptions of the theme `shortcut_length` that several statements share."""

SMOOTH = "the activations at mid and post vanish at zero, and the derivatives needed exist there"
SAMPLES = "inputs of unit length in at least 3 dimensions, one-hot labels"
APART = "no two of all inputs and labels coincide (minimum distance ρ > 0)"
