"""What touches Spark: sessions, sources, the chain of stages."""
