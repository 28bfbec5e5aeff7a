"""Joins over time, and lookups in tables."""
