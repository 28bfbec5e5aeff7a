"""Exact sums, hashes, compiled loops."""
