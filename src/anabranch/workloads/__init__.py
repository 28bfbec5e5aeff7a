"""Streams of the papers, seeded."""
