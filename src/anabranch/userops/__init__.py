"""Aggregates and operators brought by users: how they write them, and those we ship."""
