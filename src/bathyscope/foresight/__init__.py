"""Will this network train? Steps on a copy, what they show, and a forecast that knows what it does not."""
