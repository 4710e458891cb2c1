"""What other packages bring, found by their entry points."""
