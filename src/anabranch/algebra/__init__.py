"""Logical operators, each with its meaning."""
