"""Drawn SQL, and what it means by another engine."""
