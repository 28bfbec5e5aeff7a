"""Aggregation over time."""
