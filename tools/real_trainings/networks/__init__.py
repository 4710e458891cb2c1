"""Small networks of the usual types, each built from a plain dictionary of choices."""
