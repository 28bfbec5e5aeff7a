"""Aggregate functions: one file each, and one table of them."""
