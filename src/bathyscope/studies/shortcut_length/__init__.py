"""Studies of the theme shortcut_length: the length of shortcuts and curvature."""
