"""Spark: compile a plan, shards, sources, sinks, state, checkpoints, metrics."""
