"""A query from its start to its end: checkpoint, run, metrics, local run."""
