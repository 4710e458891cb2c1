"""What makes the data that come with the package; it is not in the wheel."""
