"""Learning tasks of different kinds: data, loss, metric, constant baseline and fitting networks."""
